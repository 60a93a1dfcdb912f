//===- PairNest.cpp - the nest of a step of pairs -----------------------------------------------------------------===//

#include "PairNest.h"
#include "Sources/Source.h"
#include "Steps/TileStep.h"
#include "flashc/Dialect/Flash/IR/Arguments.h"
#include "mlir/Dialect/Affine/IR/AffineOps.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"

using namespace mlir;
using namespace flashc;
using flash::Gradients;
using flash::StepDim;

//===--------------------------------------------------------------------------------------------------------------===//
// The nest
//===--------------------------------------------------------------------------------------------------------------===//

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
  nest.residentTile = nest.streamedTile = 0; // the schedule's
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

/// What of the mask is known before the kernel runs; the mask gets its guards.
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

Schedule flashc::choosePairSchedule(LoopNest &nest, Schedule schedule) {
  schedule.kvTile = 64; // part of a tile of queries, so that tiles on a diagonal begin where tiles do
  schedule.consumers = 2;
  schedule.pingPong = false;
  schedule.order = Order::Closed;
  int64_t columns = nest.getOperand("q").getCols() + nest.getOperand("v").getCols();
  int64_t bytes = (schedule.getQTile() + schedule.kvTile) * llvm::alignTo(columns, 64) * 2;
  schedule.stages = std::clamp<int64_t>(GPUTarget::lookup(kDefaultTarget)->maxSharedMemory / (bytes + 1024), 1, 3);
  // A tile of pairs has few visits: the next one's operands are loaded while it is stored.
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

//===--------------------------------------------------------------------------------------------------------------===//
// The frame
//===--------------------------------------------------------------------------------------------------------------===//

Value PairFrame::add(Value x, Value y) { return b.createOrFold<arith::AddIOp>(x, y); }
Value PairFrame::sub(Value x, Value y) { return b.createOrFold<arith::SubIOp>(x, y); }
Value PairFrame::mul(Value x, Value y) { return b.createOrFold<arith::MulIOp>(x, y); }
Value PairFrame::div(Value x, Value y) { return b.createOrFold<arith::DivUIOp>(x, y); }
Value PairFrame::rem(Value x, Value y) { return b.createOrFold<arith::RemUIOp>(x, y); }
Value PairFrame::ceilDiv(Value x, Value y) { return b.createOrFold<arith::CeilDivUIOp>(x, y); }
Value PairFrame::max(Value x, Value y) { return b.createOrFold<arith::MaxSIOp>(x, y); }

LogicalResult PairFrame::emitExtents() {
  auto step = cast<flash::AccumulateGradientsOp>(nest.end);
  batches = scalars.getExtent(b, step, nest.getOperand("q").array, 0);
  heads = scalars.getExtent(b, step, nest.getOperand("q").array, 1);
  queries = scalars.getExtent(b, step, nest.getOperand("q").array, 2);
  keys = scalars.getExtent(b, step, nest.getOperand("k").array, 2);
  return success(batches && heads && queries && keys);
}

FailureOr<SmallVector<Value>> PairFrame::emitGrid() {
  if (failed(emitExtents()))
    return failure();
  if (!schedule.persistent)
    return SmallVector<Value>();
  Value one = index(1);
  Value outer = mul(nest.pairs->sumsBatches ? one : batches, nest.pairs->sumsHeads ? one : heads);
  return SmallVector<Value>{ceilDiv(queries, index(nest.residentTile)), ceilDiv(keys, index(nest.streamedTile)), outer};
}

LogicalResult PairFrame::emitPositions() {
  if (nest.pairs->isDiagonal)
    emitDiagonalPositions();
  else
    emitPairPositions();
  return skipUnneeded();
}

/// No visits where the mask keeps no pair of the first one, and so none of any.
LogicalResult PairFrame::skipUnneeded() {
  if (!nest.pairs->neededKeys)
    return success();
  const flash::NeededKeys &needed = *nest.pairs->neededKeys;
  Place place = getPlace(index(0));
  scalars.map(needed.batch, place.batch);
  scalars.map(needed.head, place.head);
  scalars.map(needed.query, place.query);
  Value begin = scalars.get(b, b.getLoc(), needed.begin), end = scalars.get(b, b.getLoc(), needed.end);
  if (!begin || !end)
    return failure();
  auto compare = [&](arith::CmpIPredicate predicate, Value x, Value y) -> Value {
    return arith::CmpIOp::create(b, predicate, x, y);
  };
  Value isBehind = compare(arith::CmpIPredicate::sgt, add(place.key, index(nest.streamedTile)), begin);
  Value isInFront = compare(arith::CmpIPredicate::slt, place.key, end);
  Value isNeeded = arith::AndIOp::create(b, isBehind, isInFront);
  total = tile::UniformOp::create(b, arith::SelectOp::create(b, isNeeded, total, index(0)).getResult());
  return success();
}

void PairFrame::emitPairPositions() {
  firstQuery = mul(gpu::BlockIdOp::create(b, gpu::Dimension::x), index(nest.residentTile));
  firstKey = mul(gpu::BlockIdOp::create(b, gpu::Dimension::y), index(nest.streamedTile));
  Value number = gpu::BlockIdOp::create(b, gpu::Dimension::z), one = index(1);
  ownHead = nest.pairs->sumsHeads ? index(0) : rem(number, heads);
  ownBatch = nest.pairs->sumsBatches ? index(0) : nest.pairs->sumsHeads ? number : div(number, heads);
  total = mul(nest.pairs->sumsBatches ? batches : one, nest.pairs->sumsHeads ? heads : one);
  // What the state is stored to.
  batch = ownBatch, head = ownHead, endOfRows = queries;
  bool isInWorkspace = signature.getTables().getNumber(nest.results.front().value).has_value();
  if (nest.pairs->sumsHeads && !isInWorkspace) // the result has no heads, but may have batches
    head = ownBatch;
  row = emitUnitRow(firstQuery);
  columns = {firstKey, keys};
}

void PairFrame::emitDiagonalPositions() {
  Value tile = gpu::BlockIdOp::create(b, gpu::Dimension::x), zero = index(0), one = index(1);
  Value rows = index(nest.residentTile), cols = index(nest.streamedTile);
  ownHead = gpu::BlockIdOp::create(b, gpu::Dimension::y), ownBatch = gpu::BlockIdOp::create(b, gpu::Dimension::z);
  Value ofQueries = ceilDiv(queries, rows);
  Value inFront = mul(ofQueries, index(nest.residentTile / nest.streamedTile));
  distance = mul(sub(tile, inFront), cols);
  firstTile = ceilDiv(max(sub(zero, distance), zero), rows);
  Value end = ceilDiv(max(sub(keys, distance), zero), rows);
  numTiles = max(sub(b.createOrFold<arith::MinSIOp>(end, ofQueries), firstTile), zero);
  total = mul(numTiles, mul(nest.pairs->sumsBatches ? batches : one, nest.pairs->sumsHeads ? heads : one));
  batch = ownBatch, head = ownHead;
  row = emitUnitRow(mul(tile, rows));
  endOfRows = mul(add(inFront, ceilDiv(keys, cols)), rows);
}

PairFrame::Place PairFrame::getPlace(Value visit) {
  Place place{ownBatch, ownHead, firstQuery, firstKey};
  Value outer = visit;
  if (nest.pairs->isDiagonal) {
    Value atLeastOne = max(numTiles, index(1));
    place.query = mul(add(firstTile, rem(visit, atLeastOne)), index(nest.residentTile));
    place.key = add(place.query, distance);
    outer = div(visit, atLeastOne);
  }
  if (nest.pairs->sumsHeads) {
    place.head = nest.pairs->sumsBatches ? rem(outer, heads) : outer;
    outer = div(outer, heads);
  }
  if (nest.pairs->sumsBatches)
    place.batch = outer;
  return place;
}

FailureOr<ValueRange> PairFrame::emitLoop(TileStep &step) {
  visits = Visits::allMasked(total);
  SmallVector<Value> identity = step.emitIdentity();
  auto loop = scf::ForOp::create(b, index(0), total, index(1), identity);
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(loop.getBody());
  Place place = getPlace(loop.getInductionVar());
  // While the step is emitted the frame is where the visit is.
  Value outBatch = std::exchange(batch, place.batch), outHead = std::exchange(head, place.head);
  Value outRow = std::exchange(row, emitUnitRow(place.query));
  SmallVector<Value, 2> outColumns = std::exchange(columns, {place.key, keys});
  for (std::unique_ptr<Source> &source : sources) {
    source->batch = batch;
    source->head = source->info.info.movesWith(StepDim::KeyHead) ? div(head, index(nest.groupSize)) : head;
    if (source->ring && source->info.info.movesWith(StepDim::I))
      source->resident = source->load(row);
  }
  if (failed(regions.emitInvariants()))
    return failure();
  FailureOr<SmallVector<Value>> next = step.emit(loop.getInductionVar(), loop.getRegionIterArgs());
  if (failed(next))
    return failure();
  scf::YieldOp::create(b, *next);
  batch = outBatch, head = outHead, row = outRow, columns = outColumns;
  return ValueRange(loop.getResults());
}
