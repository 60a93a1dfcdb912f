//===- Explain.cpp - what the C API tells about a mask ------------------------------------------------------------===//

#include "flashc/Compiler/Explain.h"
#include "Support.h"

#include <map>

using namespace mlir;
using namespace flashc;
using namespace flashc::capi;

namespace {

/// The object that a FlashcExplanation points to.
struct ExplanationHandle {
  const Explanation explanation;
  const std::string text, json;
  /// The tiles of each batch and head, which are listed when they are first read. They are under batch 0 if all batches
  /// have the same map, and under head 0 if all heads have the same map.
  mutable std::mutex mutex;
  mutable std::map<std::pair<int64_t, int64_t>, std::vector<TileClass>> tiles = {};
};

} // namespace

static const ExplanationHandle *unwrap(FlashcExplanation explanation) {
  return static_cast<const ExplanationHandle *>(explanation.ptr);
}

/// Checks, as a launch does, that the arguments suit the attention of `module`.
static FlashcStatus check(ModuleOp module, const PipelineOptions &pipeline, ArrayRef<LaunchArgument> arguments,
                          Session &session, char **message) {
  FailureOr<CompiledKernel> kernel = compileForCPU(module, pipeline);
  if (failed(kernel))
    return fail(FLASHC_COMPILE_ERROR, session.takeError(), message);
  llvm::Expected<Manifest> manifest = Manifest::parse(kernel->manifest);
  if (!manifest)
    return fail(FLASHC_COMPILE_ERROR, manifest.takeError(), message);
  if (llvm::Error error = checkArguments(*manifest, arguments))
    return fail(FLASHC_ARGUMENT_MISMATCH, std::move(error), message);
  return succeed(message);
}

/// Explains a call of a program with the arguments `given`. `source`, which has the program, may be null, as any
/// pointer of the API may. `what` names the source in error messages, with an article.
static FlashcStatus explainCall(FlashcContext context, const void *source, llvm::StringRef what,
                                llvm::function_ref<llvm::Expected<KernelRequest>()> getRequest,
                                const FlashcArgument *given, size_t count, FlashcExplanation *out, char **message) {
  if (out)
    out->ptr = nullptr;
  auto arguments = convert(given, count, /*needsStrides=*/true);
  if (!context.ptr || !source || !out || !arguments)
    return fail(FLASHC_INVALID_ARGUMENT,
                ("expected a context, " + what +
                 ", arguments with extents and strides and a place for the "
                 "explanation, got a null pointer")
                    .str(),
                message);
  llvm::Expected<KernelRequest> request = getRequest();
  if (!request)
    return fail(FLASHC_INVALID_ARGUMENT, request.takeError(), message);
  Session session(capi::unwrap(context)->registry, request->author);
  FailureOr<OwningOpRef<ModuleOp>> module = session.parse(request->text);
  if (failed(module) || failed(keepFunction(**module, request->function)))
    return fail(FLASHC_COMPILE_ERROR, session.takeError(), message);
  if (FlashcStatus status = check(**module, request->pipeline, *arguments, session, message))
    return status;
  // There is one function: compileForCPU checked that.
  auto functions = llvm::make_filter_range((*module)->getOps<func::FuncOp>(), [](func::FuncOp function) {
    return function.isPublic() && !function.isExternal();
  });
  CompileOptions compileOptions;
  compileOptions.pipeline = request->pipeline;
  FailureOr<Explanation> explanation = explain(*functions.begin(), *arguments, compileOptions);
  if (failed(explanation))
    return fail(FLASHC_COMPILE_ERROR, session.takeError(), message);
  std::string words = explanation->str(), json = explanation->toJSON();
  out->ptr = new ExplanationHandle{std::move(*explanation), std::move(words), std::move(json), {}};
  return succeed(message);
}

FlashcStatus flashcExplainText(FlashcContext context, const char *text, size_t length,
                               const FlashcCompileOptions *options, const FlashcArgument *arguments, size_t count,
                               FlashcExplanation *out, char **message) {
  return guard(message, [&] {
    auto getRequest = [&]() -> llvm::Expected<KernelRequest> {
      return makeRequest(std::string(text, length), options);
    };
    return explainCall(context, text, "a text", getRequest, arguments, count, out, message);
  });
}

FlashcStatus flashcExplainAttention(FlashcContext context, const FlashcAttention *attention,
                                    const FlashcCompileOptions *options, const FlashcArgument *arguments, size_t count,
                                    FlashcExplanation *out, char **message) {
  return guard(message, [&] {
    auto getRequest = [&]() -> llvm::Expected<KernelRequest> {
      llvm::Expected<std::string> text = capi::print(*attention);
      if (!text)
        return text.takeError();
      return makeRequest(std::move(*text), options, Author::Flashc);
    };
    return explainCall(context, attention, "an attention", getRequest, arguments, count, out, message);
  });
}

const char *flashcExplanationGetText(FlashcExplanation explanation) {
  return explanation.ptr ? unwrap(explanation)->text.c_str() : nullptr;
}

const char *flashcExplanationGetJSON(FlashcExplanation explanation) {
  return explanation.ptr ? unwrap(explanation)->json.c_str() : nullptr;
}

const uint8_t *flashcExplanationGetTiles(FlashcExplanation explanation, int64_t batch, int64_t head) {
  if (!explanation.ptr)
    return nullptr;
  const ExplanationHandle &handle = *unwrap(explanation);
  const TileMap &map = handle.explanation.tiles;
  const TileGrid &grid = map.getGrid();
  if (map.isSample() || batch < 0 || batch >= grid.batch || head < 0 || head >= grid.heads)
    return nullptr;
  return guardOr<const uint8_t *>(nullptr, [&] {
    std::lock_guard<std::mutex> lock(handle.mutex);
    auto &tiles = handle.tiles[{map.getVariesByBatch() ? batch : 0, map.getVariesByHead() ? head : 0}];
    if (tiles.empty())
      tiles = map.getTiles(batch, head);
    return reinterpret_cast<const uint8_t *>(tiles.data());
  });
}

void flashcExplanationDestroy(FlashcExplanation explanation) {
  delete static_cast<ExplanationHandle *>(explanation.ptr);
}
