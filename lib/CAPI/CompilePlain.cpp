//===- CompilePlain.cpp - the C API's compilations of what surrounds attention ------------------------------------===//

#include "Support.h"
#include "flashc/Compiler/BuildPlain.h"

using namespace flashc;
using namespace flashc::capi;

/// The name of a float, or an error that names the field.
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
  return printAppend({*dtype, append.head_dim, append.value_dim, append.paged, append.counts, append.rotary_dim,
                      *rotary, append.interleaved});
}

template <typename Spec>
static FlashcStatus getText(FlashcContext context, const Spec *spec, char **out, char **message) {
  return guard(message, [&]() -> FlashcStatus {
    if (out)
      *out = nullptr;
    if (!context.ptr || !spec || !out)
      return fail(FLASHC_INVALID_ARGUMENT,
                  "expected a context, an operation and a place for the text, got a null pointer", message);
    llvm::Expected<std::string> text = print(*spec);
    if (!text)
      return fail(FLASHC_INVALID_ARGUMENT, text.takeError(), message);
    // The verifier knows what the op does not allow.
    Session session(unwrap(context)->registry);
    if (failed(session.parse(*text)))
      return fail(FLASHC_COMPILE_ERROR, session.takeError(), message);
    *out = copyText(*text);
    return succeed(message);
  });
}

template <typename Spec>
static FlashcStatus compile(FlashcContext context, const Spec *spec, const FlashcCompileOptions *options,
                            FlashcKernel *out, char **message) {
  return guard(message, [&]() -> FlashcStatus {
    if (out)
      out->ptr = nullptr;
    if (!context.ptr || !spec || !out)
      return fail(FLASHC_INVALID_ARGUMENT,
                  "expected a context, an operation and a place for the kernel, got a null pointer", message);
    llvm::Expected<std::string> text = print(*spec);
    if (!text)
      return fail(FLASHC_INVALID_ARGUMENT, text.takeError(), message);
    return compileInto(context, std::move(*text), options, out, message);
  });
}

FlashcStatus flashcMergeStatesGetText(FlashcContext context, const FlashcMergeStates *merge, char **out,
                                      char **message) {
  return getText(context, merge, out, message);
}

FlashcStatus flashcCompileMergeStates(FlashcContext context, const FlashcMergeStates *merge,
                                      const FlashcCompileOptions *options, FlashcKernel *out, char **message) {
  return compile(context, merge, options, out, message);
}

FlashcStatus flashcAppendKVGetText(FlashcContext context, const FlashcAppendKV *append, char **out, char **message) {
  return getText(context, append, out, message);
}

FlashcStatus flashcCompileAppendKV(FlashcContext context, const FlashcAppendKV *append,
                                   const FlashcCompileOptions *options, FlashcKernel *out, char **message) {
  return compile(context, append, options, out, message);
}
