//===- Support.cpp - texts, statuses, arguments, the version ------------------------------------------------------===//

#include "Support.h"
#include "flashc/Version.h"
#include "llvm/Support/ErrorHandling.h"
#include "llvm/Support/PrettyStackTrace.h"

#include <cstdlib>
#include <cstring>
#include <stdexcept>

using namespace flashc;

//===--------------------------------------------------------------------------------------------------------------===//
// Failed allocations
//===--------------------------------------------------------------------------------------------------------------===//

/// Takes the place of LLVM's handler of failed allocations, which would end the process.
[[noreturn]] static void throwBadAlloc(void *, const char *, bool) { throw std::bad_alloc(); }

FlashcStatus capi::guard(char **message, llvm::function_ref<FlashcStatus()> body) {
  static const bool isHandled = (llvm::install_bad_alloc_error_handler(throwBadAlloc), true);
  (void)isHandled;
  // LLVM keeps a stack of notes for crash reports. After an exception the stack would point into frames that no longer
  // exist.
  const void *notes = llvm::SavePrettyStackState();
  try {
    return body();
  } catch (const std::exception &exception) {
    llvm::RestorePrettyStackState(notes);
    bool isMemory =
        dynamic_cast<const std::bad_alloc *>(&exception) || dynamic_cast<const std::length_error *>(&exception);
    return fail(FLASHC_OUT_OF_MEMORY, isMemory ? "out of memory" : exception.what(), message);
  }
}

/// Returns a copy of `text`. Null if there is no memory.
static char *tryToCopy(llvm::StringRef text) {
  auto *copy = static_cast<char *>(std::malloc(text.size() + 1));
  if (!copy)
    return nullptr;
  std::memcpy(copy, text.data(), text.size());
  copy[text.size()] = '\0';
  return copy;
}

char *capi::copyText(llvm::StringRef text) {
  if (char *copy = tryToCopy(text))
    return copy;
  throw std::bad_alloc();
}

//===--------------------------------------------------------------------------------------------------------------===//
// Statuses and arguments
//===--------------------------------------------------------------------------------------------------------------===//

FlashcStatus capi::fail(FlashcStatus status, llvm::StringRef text, char **message) {
  if (message)
    *message = tryToCopy(text.rtrim('\n'));
  return status;
}

FlashcStatus capi::fail(FlashcStatus status, llvm::Error error, char **message) {
  std::string text;
  llvm::handleAllErrors(std::move(error), [&](const llvm::ErrorInfoBase &info) {
    text = info.message();
    if (isArgumentMismatch(info.convertToErrorCode()))
      status = FLASHC_ARGUMENT_MISMATCH;
    if (isCompileError(info.convertToErrorCode()))
      status = FLASHC_COMPILE_ERROR;
  });
  return fail(status, text, message);
}

FlashcStatus capi::succeed(char **message) {
  if (message)
    *message = nullptr;
  return FLASHC_OK;
}

KernelRequest capi::makeRequest(std::string text, const FlashcCompileOptions *options, Author author) {
  KernelRequest request;
  request.author = author;
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
