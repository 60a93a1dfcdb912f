//===- Support.h - what the C API's files share -------------------------------------------------------------------===//
#ifndef FLASHC_LIB_CAPI_SUPPORT_H
#define FLASHC_LIB_CAPI_SUPPORT_H

#include "flashc-c/flashc.h"
#include "flashc/Compiler/Compiler.h"
#include "llvm/Support/Error.h"

namespace flashc::capi {

/// A copy that flashcStringDestroy frees.
char *copyText(llvm::StringRef text);

/// Leaves `text`, without the last newline, in `*message` if the caller wants it; returns `status`.
FlashcStatus fail(FlashcStatus status, llvm::StringRef text, char **message);
FlashcStatus fail(FlashcStatus status, llvm::Error error, char **message);

/// Success, with `*message` null.
FlashcStatus succeed(char **message);

inline CompiledKernel *unwrap(FlashcKernel kernel) { return static_cast<CompiledKernel *>(kernel.ptr); }

} // namespace flashc::capi

#endif // FLASHC_LIB_CAPI_SUPPORT_H
