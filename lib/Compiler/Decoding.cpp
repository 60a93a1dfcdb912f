//===- Decoding.cpp - from an attention to a decoding kernel ------------------------------------------------------===//

#include "Lowering.h"
#include "flashc/Conversion/ExpandMath.h"
#include "flashc/Dialect/Flash/IR/Flash.h"
#include "flashc/Dialect/Tile/IR/Tile.h"
#include "flashc/Schedule/DecodeSchedule.h"
#include "flashc/Schedule/Schedule.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Pass/PassManager.h"

using namespace mlir;
using namespace flashc;

static SmallVector<flash::CacheViewOp> findViews(ModuleOp module) {
  SmallVector<flash::CacheViewOp> views;
  module.walk([&](flash::CacheViewOp view) { views.push_back(view); });
  return views;
}

/// The multiprocessors of an H200, the GPU that schedules are measured on.
static constexpr int64_t kMultiprocessors = 132;

static flash::AttentionOp findAttention(ModuleOp module) {
  flash::AttentionOp found;
  module.walk([&](flash::AttentionOp op) { found = op; });
  return found;
}

/// Rows of queries that share their keys, query heads of a group times tokens: up to so many a decoding kernel reads the
/// keys for, 16 at a time; more fill the tiles of a forward kernel.
static constexpr int64_t kMostDecodedRows = 64;

/// Why a forward kernel cannot read the caches of `op`, or an empty text.
static std::string whyNotForward(flash::AttentionOp op, ArrayRef<flash::CacheViewOp> views, const GPUTarget &target) {
  if (!target.hasTMA)
    return "the target has no TMA";
  for (flash::CacheViewOp view : views) {
    auto cache = cast<RankedTensorType>(view.getCache().getType());
    if (cache.getElementType() != op.getQType().getElementType())
      return "caches are of another type than queries";
    if (view.getTable() && cache.getDimSize(2) % target.getSwizzleRows() != 0)
      return "pages have " + std::to_string(cache.getDimSize(2)) + " rows, no multiple of " + std::to_string(target.getSwizzleRows());
  }
  return "";
}

KernelFamily flashc::chooseFamily(ModuleOp module, const CompileOptions &options) {
  const PipelineOptions &pipeline = options.pipeline;
  if (pipeline.algorithm == "split-kv")
    return {true, "the algorithm split-kv was asked for"};
  SmallVector<flash::CacheViewOp> views = findViews(module);
  if (views.empty())
    return {};
  if (options.addAlgorithm || !pipeline.mayDecode)
    return {false, "the algorithm fa2 was asked for"};
  if (std::optional<bool> asked = isOfDecoding(pipeline.schedule))
    return {*asked, "the schedule that was asked for is of that"};
  flash::AttentionOp op = findAttention(module);
  if (!op)
    return {true, ""};
  if (std::string why = whyNotForward(op, views, *GPUTarget::lookup(pipeline.target)); !why.empty())
    return {true, why};
  ShapedType q = op.getQType();
  if (q.isDynamicDim(2))
    return {false, "the number of queries is not known"};
  int64_t rows = q.getDimSize(2) * op.getGroup();
  std::string count = std::to_string(rows) + (rows == 1 ? " row" : " rows") + " of queries for a key head, ";
  if (rows > kMostDecodedRows)
    return {false, count + "more than " + std::to_string(kMostDecodedRows)};
  return {true, count + std::to_string(kMostDecodedRows) + " at most"};
}

/// Keys or values as they lie in memory.
static Value getStored(Value array) {
  auto view = array.getDefiningOp<flash::CacheViewOp>();
  return view ? view.getCache() : array;
}

/// What is known of an attention's extents.
static DecodeShape getShape(flash::AttentionOp op) {
  auto get = [](ShapedType type, int64_t dim) { return type.isDynamicDim(dim) ? 0 : type.getDimSize(dim); };
  DecodeShape shape;
  shape.batches = std::max(get(op.getQType(), 0), get(op.getKType(), 0));
  shape.keyHeads = get(op.getKType(), 1), shape.keys = get(op.getKType(), 2);
  shape.queries = get(op.getQType(), 2), shape.groupSize = op.getGroup();
  shape.isWidened = getElementTypeOrSelf(getStored(op.getK())) != op.getKType().getElementType();
  for (Value array : {op.getK(), op.getV()})
    shape.keyBytes += cast<ShapedType>(array.getType()).getDimSize(3) * getElementTypeOrSelf(getStored(array)).getIntOrFloatBitWidth() / 8;
  return shape;
}

/// The shared memory of a tile of keys and one of values.
static int64_t getTileBytes(flash::AttentionOp op, const GPUTarget &target) {
  int64_t bytes = 0;
  for (Value array : {op.getK(), op.getV()})
    bytes += tile::getSlotBytes(target, DecodeSchedule::kKeys, cast<ShapedType>(array.getType()).getDimSize(3),
                                getElementTypeOrSelf(getStored(array)));
  return bytes;
}

FailureOr<DecodePlan> flashc::chooseDecoding(ModuleOp module, const CompileOptions &options) {
  flash::AttentionOp op = findAttention(module);
  if (!op)
    return module.emitError("expected a flash.attention for a decoding kernel (algorithm split-kv), got none");
  const GPUTarget &target = *GPUTarget::lookup(options.pipeline.target);
  auto [schedule, why] = chooseDecodeSchedule(getShape(op), kMultiprocessors, target);
  if (llvm::Error error = schedule.override(options.pipeline.schedule))
    return op.emitError() << "schedule: " << llvm::toString(std::move(error));
  if (llvm::Error error = schedule.check(target, getTileBytes(op, target)))
    return op.emitError() << "schedule: " << llvm::toString(std::move(error));
  DecodePlan choice{schedule, why, options};
  PipelineOptions &pipeline = choice.tiled.pipeline;
  pipeline.algorithm = "split-kv";
  pipeline.splits = schedule.splits, pipeline.chunk = schedule.chunk;
  pipeline.schedule.clear(); // it is the function's
  return choice;
}

FailureOr<LoweredKernel> flashc::lowerDecoding(ModuleOp module, const CompileOptions &options, KernelLevel level) {
  FailureOr<DecodePlan> choice = chooseDecoding(module, options);
  if (failed(choice))
    return failure();
  const CompileOptions &tiled = choice->tiled;
  LoweredKernel kernel;
  kernel.decision.decodingReason = choice->why;
  auto loops = lowerToLoops(module, tiled);
  if (failed(loops))
    return failure();
  kernel.module = std::move(*loops);
  kernel.decision.decoding = choice->schedule.str();
  for (auto function : kernel.module->getOps<func::FuncOp>())
    function->setAttr(kDecodeScheduleAttrName, StringAttr::get(function.getContext(), kernel.decision.decoding));
  auto build = [&](OpPassManager &pm) { return buildKernelPipeline(pm, tiled.pipeline, level), success(); };
  if (failed(runPasses(*kernel.module, build, "lower", tiled)))
    return failure();
  if (level == KernelLevel::Expanded && failed(checkScalarCode(*kernel.module)))
    return failure();
  return kernel;
}
