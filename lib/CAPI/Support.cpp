//===- Support.cpp - texts, statuses, arguments, the version ------------------------------------------------------===//

#include "Support.h"
#include "flashc/Version.h"

#include <cstdlib>
#include <cstring>

using namespace flashc;

char *capi::copyText(llvm::StringRef text) {
  auto *copy = static_cast<char *>(std::malloc(text.size() + 1));
  if (!copy)
    return nullptr;
  std::memcpy(copy, text.data(), text.size());
  copy[text.size()] = '\0';
  return copy;
}

FlashcStatus capi::fail(FlashcStatus status, llvm::StringRef text, char **message) {
  if (message)
    *message = copyText(text.rtrim('\n'));
  return status;
}

FlashcStatus capi::fail(FlashcStatus status, llvm::Error error, char **message) {
  std::string text;
  llvm::handleAllErrors(std::move(error), [&](const llvm::ErrorInfoBase &info) {
    text = info.message();
    if (isArgumentMismatch(info.convertToErrorCode()))
      status = FLASHC_ARGUMENT_MISMATCH;
  });
  return fail(status, text, message);
}

FlashcStatus capi::succeed(char **message) {
  if (message)
    *message = nullptr;
  return FLASHC_OK;
}

KernelRequest capi::makeRequest(std::string text, const FlashcCompileOptions *options) {
  KernelRequest request;
  request.text = std::move(text);
  if (options && options->function)
    request.function = options->function;
  if (options && options->target)
    request.pipeline.target = options->target;
  if (options && options->schedule)
    request.pipeline.schedule = options->schedule;
  if (options && options->schedule_table)
    request.pipeline.scheduleTable = options->schedule_table;
  return request;
}

std::optional<llvm::SmallVector<LaunchArgument, 8>> capi::convert(const FlashcArgument *arguments, size_t count,
                                                                  bool needsStrides) {
  if (!arguments && count > 0)
    return std::nullopt;
  llvm::SmallVector<LaunchArgument, 8> result;
  for (const FlashcArgument &argument : llvm::ArrayRef(arguments, count)) {
    if (argument.rank > 0 && (!argument.extents || (needsStrides && !argument.strides)))
      return std::nullopt;
    LaunchArgument &converted = result.emplace_back();
    converted.address = argument.address;
    converted.shape.assign(argument.extents, argument.extents + argument.rank);
    converted.strides.assign(argument.rank, 0);
    if (needsStrides)
      converted.strides.assign(argument.strides, argument.strides + argument.rank);
    converted.scalar = argument.scalar;
  }
  return result;
}

const char *flashcGetVersion(void) { return FLASHC_VERSION; }

void flashcStringDestroy(char *text) { std::free(text); }
