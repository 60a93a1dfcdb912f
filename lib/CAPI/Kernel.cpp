//===- Kernel.cpp - what the C API tells about a kernel -----------------------------------------------------------===//

#include "Support.h"
#include "llvm/ADT/StringExtras.h"

using namespace mlir;
using namespace flashc;
using namespace flashc::capi;

/// Returns one of the texts that describe the kernel. Null if `kernel` is null.
static const char *getText(FlashcKernel kernel, std::string KernelDescription::*text) {
  return kernel.ptr ? (unwrap(kernel).kernel->description.*text).c_str() : nullptr;
}

const char *flashcKernelGetManifest(FlashcKernel kernel) { return getText(kernel, &KernelDescription::manifest); }
const char *flashcKernelGetSchedule(FlashcKernel kernel) { return getText(kernel, &KernelDescription::schedule); }
const char *flashcKernelGetDecisions(FlashcKernel kernel) { return getText(kernel, &KernelDescription::decisions); }

const char *flashcKernelGetPTX(FlashcKernel kernel) {
  return guardOr<const char *>(nullptr, [&]() -> const char * {
    if (!kernel.ptr)
      return nullptr;
    llvm::Expected<const char *> ptx = unwrap(kernel).kernel->getPTX();
    if (ptx)
      return *ptx;
    llvm::consumeError(ptx.takeError());
    return nullptr;
  });
}

void flashcKernelDestroy(FlashcKernel kernel) { delete static_cast<KernelHandle *>(kernel.ptr); }

static CompileOptions getOptions(const KernelHandle &handle) {
  CompileOptions options;
  options.pipeline = handle.kernel->pipeline;
  return options;
}

FlashcStatus flashcKernelGetIR(FlashcKernel kernel, const char *levelName, char **out, char **message) {
  return guard(message, [&]() -> FlashcStatus {
    if (out)
      *out = nullptr;
    if (!kernel.ptr || !levelName || !out)
      return fail(FLASHC_INVALID_ARGUMENT, "expected a kernel, a level and a place for the text, got a null pointer",
                  message);
    auto names = getLevelNames();
    auto *name = llvm::find(names, llvm::StringRef(levelName));
    if (name == names.end())
      return fail(FLASHC_INVALID_ARGUMENT,
                  ("expected the level to be one of " + llvm::join(names, ", ") + ", got '" + levelName + "'"),
                  message);
    const KernelHandle &handle = unwrap(kernel);
    Session session(handle.context->registry, handle.kernel->author);
    FailureOr<OwningOpRef<ModuleOp>> module = session.parse(handle.kernel->source);
    if (failed(module))
      return fail(FLASHC_COMPILE_ERROR, session.takeError(), message);
    FailureOr<std::string> text = printAtLevel(**module, static_cast<Level>(name - names.begin()), getOptions(handle));
    if (failed(text))
      return fail(FLASHC_COMPILE_ERROR, session.takeError(), message);
    *out = copyText(*text);
    return succeed(message);
  });
}

FlashcStatus flashcKernelGetCost(FlashcKernel kernel, const FlashcArgument *arguments, size_t count, FlashcCost *out,
                                 char **message) {
  return guard(message, [&]() -> FlashcStatus {
    if (out)
      *out = {};
    auto converted = convert(arguments, count, /*needsStrides=*/false);
    if (!kernel.ptr || !out || !converted)
      return fail(FLASHC_INVALID_ARGUMENT,
                  "expected a kernel, arguments with extents and a place for the cost, got a null pointer", message);
    const KernelHandle &handle = unwrap(kernel);
    llvm::Expected<Manifest> manifest = Manifest::parse(handle.kernel->description.manifest);
    if (!manifest)
      return fail(FLASHC_COMPILE_ERROR, manifest.takeError(), message);
    if (llvm::Error error = checkArguments(*manifest, *converted))
      return fail(FLASHC_ARGUMENT_MISMATCH, std::move(error), message);

    Session session(handle.context->registry, handle.kernel->author);
    FailureOr<OwningOpRef<ModuleOp>> module = session.parse(handle.kernel->source);
    if (failed(module))
      return fail(FLASHC_COMPILE_ERROR, session.takeError(), message);
    auto function = (*module)->lookupSymbol<func::FuncOp>(manifest->kernel);
    SmallVector<SmallVector<int64_t, 4>> shapes;
    for (const LaunchArgument &argument : ArrayRef(*converted).take_front(function.getNumArguments()))
      shapes.push_back(argument.shape);
    FailureOr<Cost> cost = countAlgorithmCost(function, shapes, getOptions(handle));
    if (failed(cost))
      return fail(FLASHC_COMPILE_ERROR, session.takeError(), message);
    *out = {toDouble(cost->matmulFlops), toDouble(cost->otherFlops), toDouble(cost->bytesRead),
            toDouble(cost->bytesWritten)};
    return succeed(message);
  });
}
