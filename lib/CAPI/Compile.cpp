//===- Compile.cpp - the C API's compilations ---------------------------------------------------------------------===//

#include "Support.h"
#include "flashc/Compiler/BuildAttention.h"
#include "flashc/InitAll.h"
#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/DialectRegistry.h"
#include "mlir/IR/MLIRContext.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/SourceMgr.h"

using namespace mlir;
using namespace flashc;
using namespace flashc::capi;

namespace {

/// What FlashcContext is. It does not change, so that threads can share it.
struct Context {
  Context() { registerAllDialects(registry); }
  DialectRegistry registry;
};

/// One call: an MLIR context of its own, whose diagnostics are collected.
class Compilation {
public:
  explicit Compilation(const Context &shared)
      : context(shared.registry, MLIRContext::Threading::DISABLED), handler(&context, [this](Diagnostic &diagnostic) {
          print(diagnostic);
          return success();
        }) {
    context.printOpOnDiagnostic(false);
  }

  MLIRContext &getContext() { return context; }
  StringRef getDiagnostics() const { return diagnostics; }

private:
  void print(Diagnostic &diagnostic);

  MLIRContext context;
  std::string diagnostics;
  ScopedDiagnosticHandler handler;
};

} // namespace

static Context *unwrap(FlashcContext context) { return static_cast<Context *>(context.ptr); }

static StringRef getName(DiagnosticSeverity severity) {
  switch (severity) {
  case DiagnosticSeverity::Note:
    return "note";
  case DiagnosticSeverity::Warning:
    return "warning";
  case DiagnosticSeverity::Error:
    return "error";
  case DiagnosticSeverity::Remark:
    break;
  }
  return "remark";
}

/// `line:column: error: ...`, then its notes; no place if the module was built and not read.
void Compilation::print(Diagnostic &diagnostic) {
  llvm::raw_string_ostream os(diagnostics);
  if (auto place = diagnostic.getLocation()->findInstanceOf<FileLineColLoc>())
    os << place.getLine() << ":" << place.getColumn() << ": ";
  os << getName(diagnostic.getSeverity()) << ": " << diagnostic.str() << "\n";
  for (Diagnostic &note : diagnostic.getNotes())
    print(note);
}

static CompileOptions convert(const FlashcCompileOptions *options) {
  CompileOptions result;
  if (options && options->target)
    result.pipeline.target = options->target;
  if (options && options->schedule)
    result.pipeline.schedule = options->schedule;
  return result;
}

/// What is wrong with the description by itself, or null.
static const char *findMistake(const FlashcAttention &attention) {
  if (attention.dtype != FLASHC_BF16 && attention.dtype != FLASHC_F16)
    return "expected dtype to be FLASHC_BF16 or FLASHC_F16";
  if (attention.mask != FLASHC_MASK_NONE && attention.mask != FLASHC_MASK_CAUSAL)
    return "expected mask to be FLASHC_MASK_NONE or FLASHC_MASK_CAUSAL";
  if (attention.key_heads > 0 && attention.query_heads % attention.key_heads != 0)
    return "expected query_heads to be a multiple of key_heads";
  return nullptr;
}

/// The text of the attention, or an empty one and the error's words in `error`.
static std::string print(const FlashcAttention &attention, std::string &error) {
  AttentionSpec spec;
  spec.dtype = attention.dtype == FLASHC_BF16 ? "bf16" : "f16";
  spec.headDim = attention.head_dim;
  spec.valueDim = attention.value_dim;
  spec.keyHeads = attention.key_heads;
  spec.groupSize = attention.key_heads > 0 ? attention.query_heads / attention.key_heads : 1;
  spec.scale = attention.scale;
  spec.mask = attention.mask == FLASHC_MASK_CAUSAL ? AttentionSpec::Mask::Causal : AttentionSpec::Mask::None;
  llvm::Expected<std::string> text = printAttention(spec);
  if (text)
    return std::move(*text);
  error = llvm::toString(text.takeError());
  return "";
}

static FailureOr<OwningOpRef<ModuleOp>> parse(MLIRContext &context, StringRef text) {
  llvm::SourceMgr sources;
  // A copy: MLIR's parser wants a zero byte at the end.
  sources.AddNewSourceBuffer(llvm::MemoryBuffer::getMemBufferCopy(text, "text"), llvm::SMLoc());
  return parseModule(sources, context);
}

/// Compiles the module that `makeModule` makes, and hands it to the caller.
static FlashcStatus compileInto(FlashcContext context, const FlashcCompileOptions *options, FlashcKernel *out,
                                char **message,
                                llvm::function_ref<FailureOr<OwningOpRef<ModuleOp>>(MLIRContext &)> makeModule) {
  Compilation compilation(*unwrap(context));
  FailureOr<OwningOpRef<ModuleOp>> module = makeModule(compilation.getContext());
  if (failed(module))
    return fail(FLASHC_COMPILE_ERROR, compilation.getDiagnostics(), message);
  FailureOr<CompiledKernel> kernel = compile(**module, convert(options));
  if (failed(kernel))
    return fail(FLASHC_COMPILE_ERROR, compilation.getDiagnostics(), message);
  out->ptr = new CompiledKernel(std::move(*kernel));
  return succeed(message);
}

FlashcContext flashcContextCreate(void) { return {new Context()}; }

void flashcContextDestroy(FlashcContext context) { delete unwrap(context); }

FlashcStatus flashcCompileText(FlashcContext context, const char *text, size_t length,
                               const FlashcCompileOptions *options, FlashcKernel *out, char **message) {
  if (out)
    out->ptr = nullptr;
  if (!context.ptr || !text || !out)
    return fail(FLASHC_INVALID_ARGUMENT, "expected a context, a text and a place for the kernel, got a null pointer",
                message);
  return compileInto(context, options, out, message,
                     [&](MLIRContext &mlir) { return parse(mlir, StringRef(text, length)); });
}

FlashcStatus flashcAttentionGetText(FlashcContext context, const FlashcAttention *attention, char **out,
                                    char **message) {
  if (out)
    *out = nullptr;
  if (!context.ptr || !attention || !out)
    return fail(FLASHC_INVALID_ARGUMENT,
                "expected a context, an attention and a place for the text, got a null pointer", message);
  if (const char *mistake = findMistake(*attention))
    return fail(FLASHC_INVALID_ARGUMENT, mistake, message);
  std::string error, text = print(*attention, error);
  if (text.empty())
    return fail(FLASHC_COMPILE_ERROR, error, message);
  Compilation compilation(*unwrap(context));
  if (failed(parse(compilation.getContext(), text)))
    return fail(FLASHC_COMPILE_ERROR, compilation.getDiagnostics(), message);
  *out = copyText(text);
  return succeed(message);
}

FlashcStatus flashcCompileAttention(FlashcContext context, const FlashcAttention *attention,
                                    const FlashcCompileOptions *options, FlashcKernel *out, char **message) {
  if (out)
    out->ptr = nullptr;
  if (!context.ptr || !attention || !out)
    return fail(FLASHC_INVALID_ARGUMENT,
                "expected a context, an attention and a place for the kernel, got a null pointer", message);
  if (const char *mistake = findMistake(*attention))
    return fail(FLASHC_INVALID_ARGUMENT, mistake, message);
  std::string error, text = print(*attention, error);
  if (text.empty())
    return fail(FLASHC_COMPILE_ERROR, error, message);
  return compileInto(context, options, out, message, [&](MLIRContext &mlir) { return parse(mlir, text); });
}

const char *flashcKernelGetPTX(FlashcKernel kernel) { return capi::unwrap(kernel)->ptx.c_str(); }
const char *flashcKernelGetManifest(FlashcKernel kernel) { return capi::unwrap(kernel)->manifest.c_str(); }
const char *flashcKernelGetSchedule(FlashcKernel kernel) { return capi::unwrap(kernel)->schedule.c_str(); }

void flashcKernelDestroy(FlashcKernel kernel) { delete capi::unwrap(kernel); }
