//===- Support.cpp - texts, statuses and the version --------------------------------------------------------------===//

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
  return fail(status, llvm::toString(std::move(error)), message);
}

FlashcStatus capi::succeed(char **message) {
  if (message)
    *message = nullptr;
  return FLASHC_OK;
}

const char *flashcGetVersion(void) { return FLASHC_VERSION; }

void flashcStringDestroy(char *text) { std::free(text); }
