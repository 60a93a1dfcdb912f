//===- Decoding.cpp - from an attention to a decoding kernel ------------------------------------------------------===//

#include "Lowering.h"
#include "flashc/Conversion/ExpandMath.h"
#include "flashc/Dialect/Flash/IR/Flash.h"
#include "flashc/Dialect/Tile/IR/Tile.h"
#include "flashc/Schedule/DecodeSchedule.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Pass/PassManager.h"

using namespace mlir;
using namespace flashc;

bool flashc::readsCache(ModuleOp module) {
  return module.walk([](flash::CacheViewOp) { return WalkResult::interrupt(); }).wasInterrupted();
}

/// The multiprocessors of an H200, the GPU that schedules are measured on.
static constexpr int64_t kMultiprocessors = 132;

static flash::AttentionOp findAttention(ModuleOp module) {
  flash::AttentionOp found;
  module.walk([&](flash::AttentionOp op) { found = op; });
  return found;
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

FailureOr<LoweredKernel> flashc::lowerDecoding(ModuleOp module, const CompileOptions &options, KernelLevel level) {
  flash::AttentionOp op = findAttention(module);
  if (!op)
    return module.emitError("expected a flash.attention for a decoding kernel (algorithm split-kv), got none");
  LoweredKernel kernel;
  const GPUTarget &target = *GPUTarget::lookup(options.pipeline.target);
  auto [schedule, why] = chooseDecodeSchedule(getShape(op), kMultiprocessors, target);
  kernel.decision.decodingReason = why;
  if (llvm::Error error = schedule.override(options.pipeline.schedule))
    return op.emitError() << "schedule: " << llvm::toString(std::move(error));
  if (llvm::Error error = schedule.check(target, getTileBytes(op, target)))
    return op.emitError() << "schedule: " << llvm::toString(std::move(error));
  CompileOptions tiled = options;
  tiled.pipeline.algorithm = "split-kv";
  tiled.pipeline.splits = schedule.splits, tiled.pipeline.chunk = schedule.chunk;
  tiled.pipeline.schedule.clear(); // it is the function's
  auto loops = lowerToLoops(module, tiled);
  if (failed(loops))
    return failure();
  kernel.module = std::move(*loops);
  kernel.decision.decoding = schedule.str();
  for (auto function : kernel.module->getOps<func::FuncOp>())
    function->setAttr(kDecodeScheduleAttrName, StringAttr::get(function.getContext(), kernel.decision.decoding));
  auto build = [&](OpPassManager &pm) { return buildKernelPipeline(pm, tiled.pipeline, level), success(); };
  if (failed(runPasses(*kernel.module, build, "lower", tiled)))
    return failure();
  if (level == KernelLevel::Expanded && failed(checkScalarCode(*kernel.module)))
    return failure();
  return kernel;
}
