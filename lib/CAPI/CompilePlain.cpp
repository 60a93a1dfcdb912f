//===- CompilePlain.cpp - the C API's compilations of what surrounds attention ------------------------------------===//

#include "Support.h"
#include "flashc/Compiler/BuildPlain.h"

using namespace flashc;
using namespace flashc::capi;

/// Returns the name of a float type. If `dtype` is not one, the error names `field`.
static llvm::Expected<std::string> getFloatName(FlashcDType dtype, llvm::StringRef field) {
  if (dtype == FLASHC_BF16 || dtype == FLASHC_F16 || dtype == FLASHC_F32)
    return llvm::ArrayRef<llvm::StringRef>{"bf16", "f16", "f32"}[dtype].str();
  return llvm::createStringError("expected " + field + " to be FLASHC_BF16, FLASHC_F16 or FLASHC_F32, got " +
                                 llvm::Twine(int(dtype)));
}

static llvm::Expected<std::string> print(const FlashcMergeStates &merge) {
  llvm::Expected<std::string> parts = getFloatName(merge.parts_dtype, "parts_dtype");
  if (!parts)
    return parts.takeError();
  llvm::Expected<std::string> output = getFloatName(merge.dtype, "dtype");
  if (!output)
    return output.takeError();
  return printMerge({*parts, *output, merge.value_dim, merge.sinks});
}

static llvm::Expected<std::string> print(const FlashcAppendKV &append) {
  llvm::Expected<std::string> dtype = getFloatName(append.dtype, "dtype");
  if (!dtype)
    return dtype.takeError();
  llvm::Expected<std::string> rotary = getFloatName(append.rotary_dtype, "rotary_dtype");
  if (!rotary)
    return rotary.takeError();
  llvm::Expected<std::string> cacheType = getCacheType(append.cache_type);
  if (!cacheType)
    return cacheType.takeError();
  return printAppend({*dtype, append.head_dim, append.value_dim, append.paged, append.counts, append.rotary_dim,
                      *rotary, append.interleaved, append.leftpad, *cacheType, append.page_scales, append.head_scales,
                      append.offsets});
}

FlashcStatus flashcMergeStatesGetText(FlashcContext context, const FlashcMergeStates *merge, char **out,
                                      char **message) {
  return getText(context, merge, "an operation", [&] { return print(*merge); }, out, message);
}

FlashcStatus flashcCompileMergeStates(FlashcContext context, const FlashcMergeStates *merge,
                                      const FlashcCompileOptions *options, FlashcKernel *out, char **message) {
  return compile(context, merge, "an operation", [&] { return print(*merge); }, options, out, message);
}

FlashcStatus flashcAppendKVGetText(FlashcContext context, const FlashcAppendKV *append, char **out, char **message) {
  return getText(context, append, "an operation", [&] { return print(*append); }, out, message);
}

FlashcStatus flashcCompileAppendKV(FlashcContext context, const FlashcAppendKV *append,
                                   const FlashcCompileOptions *options, FlashcKernel *out, char **message) {
  return compile(context, append, "an operation", [&] { return print(*append); }, options, out, message);
}
