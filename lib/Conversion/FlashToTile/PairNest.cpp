//===- PairNest.cpp - the nest of a step whose state is a score matrix --------------------------------------------===//

#include "PairNest.h"
#include "Steps/TileStep.h"
#include "flashc/Dialect/Flash/IR/Arguments.h"
#include "mlir/Dialect/Affine/IR/AffineOps.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"

using namespace mlir;
using namespace flashc;
using flash::Gradients;
using flash::StepDim;

FailureOr<LoopNest> flashc::matchPairNest(func::FuncOp func, flash::AccumulateGradientsOp op) {
  OpBuilder b(op);
  auto step = cast<flash::StepOpInterface>(op.getOperation());
  auto state = cast<RankedTensorType>(op.getResult(0).getType());
  LoopNest nest;
  nest.func = func;
  nest.end = op;
  nest.segments.push_back({step, b.getIndexAttr(0), b.getIndexAttr(0)});
  auto getDim = [&](StepDim dim, Value array, int64_t number) {
    return ParallelDim{op.getPosition()[unsigned(dim)], tensor::getMixedSize(b, op.getLoc(), array, number), 1};
  };
  nest.batch = getDim(StepDim::B, op.getQ(), 0);
  nest.head = getDim(StepDim::H, op.getQ(), 1);
  nest.resident = getDim(StepDim::I, op.getQ(), 2);
  nest.residentTile = nest.streamedTile = 0; // choosePairSchedule sets them
  for (const flash::StepOperand &info : op.getStepInputs()) {
    Value value = op->getOperand(info.number);
    Value array = flash::matchRowDots(value) ? value : flash::getRootArgument(value);
    if (!array)
      return op.emitError() << "expected " << info.name << " to be a function argument";
    nest.operands.push_back({info, array, b.getIndexAttr(0), b.getIndexAttr(0), cast<RankedTensorType>(value.getType()),
                             /*isStreamed=*/true});
  }
  nest.elementType = op.getQType().getElementType();
  nest.groupSize = op.getGroup();
  nest.score = op.hasScore() ? &op.getScore() : nullptr;
  nest.derivative = op.getDerivative().empty() ? nullptr : &op.getDerivative();
  auto scatter = op.getResult(0).hasOneUse() ? dyn_cast<flash::ScatterSumOp>(*op.getResult(0).user_begin())
                                             : flash::ScatterSumOp();
  if (!scatter)
    return op.emitError() << "expected sums of <" << stringifyGradients(op.getGradients())
                          << "> to be added up by one flash.scatter_sum";
  nest.pairs = PairWalk{state.getDimSize(0) == 1, state.getDimSize(1) == 1, op.has(Gradients::Diagonals)};
  OpFoldResult one = b.getIndexAttr(1), keys = tensor::getMixedSize(b, op.getLoc(), op.getK(), 2);
  NestResult &sums = nest.results.emplace_back(NestResult{op.getResult(0), step.getStepState().front()});
  sums.extents = {nest.pairs->sumsBatches ? one : nest.batch.extent, nest.pairs->sumsHeads ? one : nest.head.extent};
  if (nest.pairs->isDiagonal) {
    AffineExpr q, k;
    bindDims(b.getContext(), q, k);
    OpFoldResult distances =
        affine::makeComposedFoldedAffineApply(b, op.getLoc(), q + k - 1, {nest.resident.extent, keys});
    sums.extents.push_back(distances);
  } else {
    sums.extents.append({nest.resident.extent, keys});
  }
  return nest;
}

/// Finds out which keys the mask needs, as far as this is known before the kernel runs. Adds guards to the mask, since
/// tiles may exceed the arrays.
static void readMask(LoopNest &nest) {
  auto op = cast<flash::AccumulateGradientsOp>(nest.end);
  auto step = cast<flash::StepOpInterface>(op.getOperation());
  PairWalk &pairs = *nest.pairs;
  pairs.neededKeys = flash::emitNeededKeys(step, {nest.residentTile, nest.streamedTile});
  OpBuilder b(op);
  flash::guardTilesOfPairs(b, step);
  nest.mask = &op.getMask();
  if (!pairs.neededKeys)
    return;
  bool isOfVisit = (pairs.neededKeys->dependsOnBatch && pairs.sumsBatches) ||
                   (pairs.neededKeys->dependsOnHead && pairs.sumsHeads) ||
                   (pairs.isDiagonal && !pairs.neededKeys->isOfDistance);
  if (isOfVisit)
    pairs.neededKeys.reset();
}

Schedule flashc::choosePairSchedule(LoopNest &nest, Schedule schedule, const GPUTarget &target) {
  schedule.kvTile = 64; // a divisor of the tile of queries, so that diagonals begin at tiles
  schedule.consumers = 2;
  schedule.pingPong = false;
  StepShape shape = getStepShape(nest);
  int64_t columns = shape.depth + shape.valueDepth;
  int64_t bytes = (schedule.getQTile() + schedule.kvTile) * llvm::alignTo(columns, target.getPanelCols()) * 2;
  schedule.stages = std::clamp<int64_t>(target.maxSharedMemory / (bytes + 1024), 1, 3);
  // A tile of pairs has few visits, so the next tile's operands are loaded while this tile is stored.
  schedule.persistent = !nest.pairs->isDiagonal && schedule.stages > 1;
  nest.residentTile = schedule.getQTile();
  nest.streamedTile = schedule.kvTile;
  readMask(nest);
  return schedule;
}

FailureOr<std::array<GridFormula, 3>> flashc::getPairExtents(LoopNest &nest) {
  auto step = cast<flash::AccumulateGradientsOp>(nest.end);
  std::optional<GridFormula> queries = getFormula(step.getQ(), 2), keys = getFormula(step.getK(), 2);
  std::optional<GridFormula> batches = getFormula(step.getQ(), 0), heads = getFormula(step.getQ(), 1);
  if (!queries || !keys || !batches || !heads)
    return nest.end->emitError() << "expected extents that are constants or those of arguments";
  GridFormula ofQueries = ceilDiv(*queries, nest.residentTile), ofKeys = ceilDiv(*keys, nest.streamedTile);
  GridFormula batchesOfGrid = nest.pairs->sumsBatches ? GridFormula(1) : *batches;
  GridFormula headsOfGrid = nest.pairs->sumsHeads ? GridFormula(1) : *heads;
  if (nest.pairs->isDiagonal)
    return std::array<GridFormula, 3>{ofQueries * (nest.residentTile / nest.streamedTile) + ofKeys, headsOfGrid,
                                      batchesOfGrid};
  return std::array<GridFormula, 3>{ofQueries, ofKeys, batchesOfGrid * headsOfGrid};
}
