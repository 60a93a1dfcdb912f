//===- KernelBuilder.cpp - the sequential program of an attention -------------------------------------------------===//

#include "KernelBuilder.h"
#include "Regions/ScoreMap.h"
#include "Regions/SmallTanh.h"
#include "WorkOrder.h"
#include "flashc/Dialect/Flash/IR/SortedData.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Utils/StaticValueUtils.h"
#include "llvm/ADT/ScopeExit.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace flashc;

Value KernelBuilder::index(int64_t value) { return arith::ConstantIndexOp::create(b, value); }

Value KernelBuilder::scalar(double value) {
  return arith::ConstantOp::create(b, b.getF32FloatAttr(static_cast<float>(value)));
}

Value KernelBuilder::splat(RankedTensorType type, double value) {
  return arith::ConstantOp::create(b, DenseElementsAttr::get(type, APFloat(static_cast<float>(value))));
}

Value KernelBuilder::scale(Value values, double factor) {
  if (factor == 1.0)
    return values;
  return arith::MulFOp::create(b, values, splat(cast<RankedTensorType>(values.getType()), factor));
}

Value KernelBuilder::replaceNegInf(Value rows) {
  auto type = cast<RankedTensorType>(rows.getType());
  Value isLowest = arith::CmpFOp::create(b, arith::CmpFPredicate::OEQ, rows, splat(type, kNegInf));
  return arith::SelectOp::create(b, isLowest, splat(type, 0.0), rows);
}

Value KernelBuilder::load(Inputs &inputs, Value row) {
  tile::RingType ring = cast<tile::RingType>(inputs.ring.getType());
  Type slot = tile::SlotType::get(b.getContext(), ring.getRows(), ring.getCols(), ring.getElementType());
  return tile::LoadOp::create(b, slot, inputs.map, inputs.batch, inputs.head, row, inputs.ring);
}

/// Scores pass through a map if there is a score region, or if the scale cannot be folded into the exponent: the
/// maximum is taken of unscaled scores, so the scale must be positive, and neither tiny nor huge.
bool KernelBuilder::needsScoreMap() const {
  return plan.score || !isExponentFactor(plan.getOp().getScale().convertToFloat());
}

LogicalResult KernelBuilder::build() {
  if (failed(checkFixedMax()) || failed(checkTanhTerms()))
    return failure();
  b.setInsertionPointToStart(&kernel.getBody().front());
  emitRings();
  FailureOr<SmallVector<Value>> grid = emitGrid();
  if (failed(grid))
    return failure();
  bool isSorted = schedule.order == Order::List, isUneven = schedule.persistent && isHeavyFirst() && !isSorted;
  bool isGrouped = isUneven && levelsOff(plan), isPaired = isUneven && !isGrouped;
  auto program =
      tile::ProgramOp::create(b, schedule.consumers, *grid, isPaired, isPaired && schedule.rotatePairs, isGrouped,
                              isSorted, /*list=*/Value(), tile::ListScopeAttr(), /*numbers=*/0, /*own=*/0);
  gpu::ReturnOp::create(b);
  Block *body = b.createBlock(&program.getBody(), {}, {b.getIndexType()}, {b.getLoc()});
  b.setInsertionPointToStart(body);
  row = program.getWarpgroup();
  if (failed(emitPositions()) || failed(emitLoop()))
    return failure();
  emitOutputs(final);
  return success();
}

void KernelBuilder::emitRings() {
  const GPUTarget &target = GPUTarget::of(kernel);
  q.map = signature.getTensorMap(plan.q.argument, tile::kTileRows);
  k.map = signature.getTensorMap(plan.k.argument, plan.kvTile);
  v.map = signature.getTensorMap(plan.v.argument, plan.kvTile);
  auto alloc = [&](int64_t stages, int64_t rows, int64_t cols, bool isPrivate) {
    auto type = tile::RingType::get(b.getContext(), stages, rows, cols, plan.elementType, isPrivate);
    return tile::AllocRingOp::create(b, type);
  };
  q.ring = alloc(schedule.qStages, tile::kTileRows, plan.headDim, /*isPrivate=*/true);
  k.ring = alloc(schedule.stages, plan.kvTile, plan.headDim, /*isPrivate=*/false);
  v.ring = alloc(schedule.stages, plan.kvTile, plan.valueDim, /*isPrivate=*/false);
  if (schedule.tensorSums)
    ones = tile::AllocOnesOp::create(b, tile::getOnesType(target, plan.elementType));
  if (schedule.tensorBias) {
    slopesSlot = tile::AllocSlopesOp::create(b, tile::getSlopesType(target, plan.elementType));
    columns = tile::AllocColumnsOp::create(b, tile::getColumnsType(target, plan.kvTile, plan.elementType));
  }
  if (schedule.outputSlot)
    outputSlot = tile::AllocOutputOp::create(
        b, tile::SlotType::get(b.getContext(), tile::kTileRows, plan.valueDim, plan.elementType));
}

RankedTensorType KernelBuilder::getOutputType() {
  return tile::getAccType(plan.valueDim + (ones ? GPUTarget::of(kernel).colStep : 0), b.getF32Type());
}

//===--------------------------------------------------------------------------------------------------------------===//
// Scalars
//===--------------------------------------------------------------------------------------------------------------===//

/// The last queries of a causal mask see the most keys: they go first.
bool KernelBuilder::isHeavyFirst() const { return plan.mask && dependsOnQueries(plan); }

/// The points that a persistent kernel spreads over its CTAs: tiles of queries, heads, batches.
FailureOr<SmallVector<Value>> KernelBuilder::emitGrid() {
  SmallVector<Value> grid;
  if (!schedule.persistent)
    return grid;
  for (OpFoldResult extent : {plan.query.extent, plan.head.extent, plan.batch.extent}) {
    grid.push_back(scalars.get(b, b.getLoc(), extent));
    if (!grid.back())
      return failure();
  }
  if (!plan.segmentTile)
    grid.front() = b.createOrFold<arith::CeilDivUIOp>(grid.front(), index(plan.qTile));
  return grid;
}

/// The first row of a tile of queries; sets the end of the rows that are stored. Null after an error.
Value KernelBuilder::emitFirstRow(Value queryTile, Value extent) {
  if (!plan.segmentTile) {
    Value firstRow = arith::MulIOp::create(b, queryTile, index(plan.qTile));
    if (isa<BlockArgument>(plan.query.position))
      scalars.map(plan.query.position, firstRow);
    numQueries = extent;
    return firstRow;
  }
  scalars.map(plan.query.position, queryTile);
  Value begin = scalars.get(b, plan.segmentTile.getBegin()), size = scalars.get(b, plan.segmentTile.getSize());
  if (!begin || !size)
    return {};
  // Read from memory, but the same in all threads (see Visits).
  begin = tile::UniformOp::create(b, begin);
  size = tile::UniformOp::create(b, size);
  scalars.map(plan.segmentTile.getBegin(), begin);
  scalars.map(plan.segmentTile.getSize(), size);
  Value segment = scalars.get(b, plan.segmentTile.getSegment());
  for (KeySegment &keys : plan.segments)
    for (Region *region : {&keys.op.getScore(), &keys.op.getMask()})
      flash::forEachSegmentCount(keys.op, *region, [&](flash::CountLeOp count) { scalars.map(count, segment); });
  numQueries = arith::AddIOp::create(b, begin, size);
  return begin;
}

/// Where this CTA and this warpgroup are: the positions of L1's parallel loop.
LogicalResult KernelBuilder::emitPositions() {
  Value warpgroup = row;
  Value blockX = gpu::BlockIdOp::create(b, gpu::Dimension::x);
  head = gpu::BlockIdOp::create(b, gpu::Dimension::y);
  batch = gpu::BlockIdOp::create(b, gpu::Dimension::z);
  Value extent = scalars.get(b, b.getLoc(), plan.query.extent);
  if (!extent)
    return failure();
  Value queryTile = blockX;
  if (isHeavyFirst()) {
    // CTAs start in the order of their numbers: light tiles fill the gaps at the end.
    Value numTiles = plan.segmentTile ? extent : b.createOrFold<arith::CeilDivUIOp>(extent, index(plan.qTile));
    queryTile = arith::SubIOp::create(b, b.createOrFold<arith::SubIOp>(numTiles, index(1)), blockX);
  }
  if (isa<BlockArgument>(plan.batch.position))
    scalars.map(plan.batch.position, batch);
  if (isa<BlockArgument>(plan.head.position))
    scalars.map(plan.head.position, head);
  Value firstRow = emitFirstRow(queryTile, extent);
  if (!firstRow)
    return failure();
  row = arith::AddIOp::create(b, firstRow, arith::MulIOp::create(b, warpgroup, index(tile::kTileRows)));

  std::pair<Inputs *, InputTile *> tiles[] = {{&q, &plan.q}, {&k, &plan.k}, {&v, &plan.v}};
  for (auto [inputs, tile] : tiles) {
    inputs->batch = scalars.get(b, b.getLoc(), tile->batch);
    inputs->head = scalars.get(b, b.getLoc(), tile->head);
    if (!inputs->batch || !inputs->head)
      return failure();
  }
  remainingScale = needsScoreMap() ? 1.0 : plan.getOp().getScale().convertToFloat();
  for (Region *region : {plan.score, plan.mask})
    if (region && (failed(scalars.cloneInvariants(b, *region, batch, head)) || failed(emitRows(*region))))
      return failure();
  return success();
}

/// What a region computes of i, and not of the score or j, once per row; unless it is a few instructions.
LogicalResult KernelBuilder::emitRows(Region &region) {
  for (Value value : scalars.findRowValues(region)) {
    auto type = RankedTensorType::get({tile::kTileRows}, value.getType(), tile::RowAttr::get(b.getContext()));
    auto rows = tile::RowsOp::create(b, type, row);
    OpBuilder::InsertionGuard guard(b);
    Block *body = b.createBlock(&rows.getBody(), {}, {b.getIndexType()}, {b.getLoc()});
    ScalarCloner inside = scalars; // what it maps holds in these rows only
    inside.map(region.getArguments().end()[-2], body->getArgument(0));
    Value copy = inside.get(b, value);
    if (!copy)
      return failure();
    tile::YieldOp::create(b, copy);
    rowValues.push_back({&region, value, rows.getResult()});
  }
  return success();
}

//===--------------------------------------------------------------------------------------------------------------===//
// The loop over keys
//===--------------------------------------------------------------------------------------------------------------===//

LogicalResult KernelBuilder::emitLoop() {
  FailureOr<Visits> numbered =
      Visits::emit(b, plan, scalars, signature, schedule.ownKeys ? row : Value(), schedule.order == Order::List);
  if (failed(numbered))
    return failure();
  visits = std::move(*numbered);
  Type f32 = b.getF32Type();
  qTile = load(q, row);
  SmallVector<Value> init{splat(getOutputType(), 0.0)};
  if (!schedule.fixedMax)
    init.push_back(splat(tile::getRowType(f32), kNegInf));
  if (!ones)
    init.push_back(splat(tile::getRowPartialType(b.getContext()), 0.0));
  Value begin = index(0), end = visits.getTotal();
  if (tile::OwnVisitsOp own = visits.getOwn()) {
    begin = own.getBegin(), end = own.getEnd();
    tile::SkipOp::create(b, begin, ValueRange{k.ring, v.ring});
  }
  auto loop = scf::ForOp::create(b, begin, end, index(1), init);
  if (tile::OwnVisitsOp own = visits.getOwn(); own && own.getLast() != own.getTotal())
    tile::SkipOp::create(b, arith::SubIOp::create(b, visits.getTotal(), end), ValueRange{k.ring, v.ring});
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(loop.getBody());
  ValueRange carried = loop.getRegionIterArgs();
  auto getState = [&](ValueRange values) {
    return State{values[0], schedule.fixedMax ? Value() : values[1], ones ? Value() : values.back()};
  };
  FailureOr<State> state = emitStep(loop.getInductionVar(), getState(carried));
  if (failed(state))
    return failure();
  SmallVector<Value> next{state->acc};
  for (Value value : {state->max, state->sum})
    if (value)
      next.push_back(value);
  scf::YieldOp::create(b, next);
  final = getState(loop.getResults());
  return success();
}

FailureOr<KernelBuilder::State> KernelBuilder::emitStep(Value visit, State state) {
  RankedTensorType scoreType = tile::getAccType(plan.kvTile, b.getF32Type());
  Value key = visits.emitKey(b, visit), firstKey = key;
  Value kTile = load(k, firstKey);
  auto product = tile::MmaAsyncOp::create(b, tile::TokenType::get(b.getContext(), scoreType), qTile, kTile,
                                          /*acc=*/Value(), /*ones=*/Value(), /*transpose_b=*/true);
  if (visits.isInTable()) // again: what masks need comes from memory, while the product is in flight
    key = visits.emitKey(b, visit);
  Value scores = tile::MmaWaitOp::create(b, scoreType, product, /*pending=*/0);
  FailureOr<Softmax> softmax = emitSoftmax(visit, key, scores, state.max);
  if (failed(softmax) || failed(addSlopes(product)))
    return failure();
  Value probabilities = softmax->probabilities, sum;
  if (!ones) {
    Value addend =
        tile::RowReduceOp::create(b, tile::getRowPartialType(b.getContext()), tile::ReduceKind::Sum, probabilities);
    Value before = tile::ScaleRowsOp::create(b, state.sum.getType(), state.sum, softmax->decay);
    sum = arith::AddFOp::create(b, before, addend);
  }

  auto operandType =
      RankedTensorType::get(scoreType.getShape(), plan.elementType, tile::OperandAAttr::get(b.getContext()));
  Value operand = tile::ToOperandAOp::create(b, operandType, probabilities);
  Value acc = softmax->decay ? emitRescale(state.acc, *softmax) : state.acc;
  Value vTile = load(v, firstKey);
  Value output = tile::MmaAsyncOp::create(b, tile::TokenType::get(b.getContext(), cast<RankedTensorType>(acc.getType())),
                                          operand, vTile, acc, ones, /*transpose_b=*/false);
  return State{tile::MmaWaitOp::create(b, acc.getType(), output, /*pending=*/0), softmax->max, sum};
}

/// Has the first product add what the score map has left to it.
LogicalResult KernelBuilder::addSlopes(tile::MmaAsyncOp product) {
  if (!schedule.tensorBias)
    return success();
  if (!slopes)
    return plan.getOp()->emitError()
           << "schedule: expected a score that adds terms to s which are affine in j, with a slope, for tensor-bias";
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointAfterValue(slopes);
  tile::StoreSlopesOp::create(b, slopes, slopesSlot);
  product.getSlopesMutable().assign(slopesSlot);
  product.getColumnsMutable().assign(columns);
  return success();
}

/// Makes a tile.map over `scores` and puts the insertion point into it; what `region` computes of i alone is known
/// there.
tile::MapOp KernelBuilder::beginMap(Value scores, Value key, Region *region) {
  SmallVector<Value> tiles;
  SmallVector<Type> types{cast<RankedTensorType>(scores.getType()).getElementType(), b.getIndexType(), b.getIndexType()};
  for (const RowValue &value : rowValues)
    if (value.region == region) {
      tiles.push_back(value.tile);
      types.push_back(value.inL1.getType());
    }
  auto map = tile::MapOp::create(b, scores.getType(), /*offset=*/Type(), scores, tiles, row, key);
  Block *body = b.createBlock(&map.getBody(), {}, types, SmallVector<Location>(types.size(), b.getLoc()));
  unsigned argument = 3;
  for (const RowValue &value : rowValues)
    if (value.region == region)
      scalars.map(value.inL1, body->getArgument(argument++));
  return map;
}

/// Whether code of a map computes `value` of the key, and of nothing else that differs between its elements.
static bool isOfKeyAlone(tile::MapOp map, Value value) {
  if (!map.getBody().isAncestor(value.getParentRegion()) || value == map.getBody().getArgument(2))
    return true;
  Operation *def = value.getDefiningOp();
  return def && llvm::all_of(def->getOperands(), [&](Value operand) { return isOfKeyAlone(map, operand); });
}

/// Only in masked tiles keys may lie behind the last one, and what is read for them must be kept inside its array.
static void keepClampsWhere(Value isMasked, tile::MapOp map) {
  for (auto clamp : llvm::make_early_inc_range(map.getBody().getOps<arith::MaxSIOp>())) {
    Value position = flash::stripTileClamp(clamp);
    if (position == clamp.getResult() || !isOfKeyAlone(map, position))
      continue;
    OpBuilder after(clamp->getContext());
    after.setInsertionPointAfter(clamp);
    Value kept = arith::SelectOp::create(after, clamp.getLoc(), isMasked, clamp, position);
    clamp.getResult().replaceAllUsesExcept(kept, kept.getDefiningOp());
  }
}

FailureOr<KernelBuilder::Scores> KernelBuilder::emitScoreRegion(Value visit, Value key, Value scores) {
  OpBuilder::InsertionGuard guard(b);
  Value isMasked = visits.hasMask() && visits.hasFull() ? visits.emitIsMasked(b, visit) : Value();
  tile::MapOp map = beginMap(scores, key, plan.score);
  ValueRange position = map.getBody().getArguments();
  Value score = arith::MulFOp::create(b, position[0], scalar(plan.getOp().getScale().convertToFloat()));
  if (plan.score)
    score = scalars.cloneRegion(b, *plan.score, {score, batch, head, position[1], position[2]});
  if (!score)
    return failure();
  tile::YieldOp::create(b, score);
  if (isMasked)
    keepClampsWhere(isMasked, map);
  b.setInsertionPointAfter(map);
  auto asWritten = cast<tile::MapOp>(b.clone(*map));
  ScoreMap simple =
      simplifyScoreMap(map, /*canSplit=*/!schedule.fixedMax, /*toProduct=*/schedule.tensorBias, plan.mask);
  remainingScale = simple.factor;
  slopes = simple.slopes;
  if (simple.map.getOffset()) {
    if (failed(emitHasLargeTerms(simple.map)))
      return failure();
    return Scores{simple.map.getResult(), simple.map.getOffset(), /*isExponential=*/false, asWritten};
  }
  asWritten.erase();
  if (schedule.tanhTerms == 0)
    return Scores{simple.map.getResult()};
  // The multi-function unit need not wait for a branch to end, unless the wait for a product is to stand between the
  // exponentials.
  Scores result;
  result.isExponential = schedule.fixedMax && schedule.waitAfter == 0;
  result.tile = splitSmallTanh(simple.map, schedule.tanhTerms, remainingScale, [&](OpBuilder &nested, Value branch) {
    OpBuilder::InsertionGuard guard(b);
    b.restoreInsertionPoint(nested.saveInsertionPoint());
    return result.isExponential ? emitExponentials(branch, /*offset=*/Value()) : branch;
  });
  return result;
}

FailureOr<Value> KernelBuilder::emitMask(Value key, Value source, double masked) {
  OpBuilder::InsertionGuard guard(b);
  tile::MapOp map = beginMap(source, key, plan.mask);
  ValueRange position = map.getBody().getArguments();
  Value result = scalar(masked);
  if (plan.mask) {
    ScalarCloner inside = scalars; // what it maps holds in this map only
    Value keep = inside.cloneRegion(b, *plan.mask, {batch, head, position[1], position[2]});
    if (!keep)
      return failure();
    result = arith::SelectOp::create(b, keep, position[0], result);
  }
  tile::YieldOp::create(b, result);
  return map.getResult();
}

//===--------------------------------------------------------------------------------------------------------------===//
// Outputs
//===--------------------------------------------------------------------------------------------------------------===//

/// max * scale + log(sum): -inf in a row that has seen no key, whose maximum is, and whose sum is 0. Kernels without a
/// maximum have no such output.
Value KernelBuilder::emitLogSumExp(Value max, Value sum) {
  auto rowType = cast<RankedTensorType>(sum.getType());
  Value scaled = scale(max, remainingScale);
  if (hasLargeTerms)
    scaled = arith::SelectOp::create(b, hasLargeTerms, max, scaled);
  return math::FmaOp::create(b, math::Log2Op::create(b, sum), splat(rowType, llvm::numbers::ln2), scaled);
}

/// Whether a row has seen no key, or -inf only: the greatest score of any other adds 1 to the sum, or more, and a NaN, or
/// +inf less itself, makes it NaN. (Where polynomials do not, the maximum is NaN or +inf.)
Value KernelBuilder::emitIsEmpty(Value max, Value sum) {
  auto rowType = cast<RankedTensorType>(sum.getType());
  Value isEmpty = arith::CmpFOp::create(b, arith::CmpFPredicate::OEQ, sum, splat(rowType, 0.0));
  if (!max || !catchesNaN())
    return isEmpty;
  Value isReal = arith::CmpFOp::create(b, arith::CmpFPredicate::OLT, max, splat(rowType, -kNegInf));
  return arith::AndIOp::create(b, isEmpty, isReal);
}

/// o = acc / sum, and the log-sum-exp; 0 and -inf in a row that has seen no key.
void KernelBuilder::emitOutputs(State state) {
  RankedTensorType rowType = tile::getRowType(b.getF32Type());
  Value acc = state.acc, sum;
  if (ones) {
    auto split = tile::SplitSumsOp::create(b, tile::getAccType(plan.valueDim, b.getF32Type()), rowType, acc);
    acc = split.getColumns(), sum = split.getSums();
  } else {
    sum = tile::CombineOp::create(b, rowType, state.sum);
  }
  Value inverse = arith::DivFOp::create(b, splat(rowType, 1.0), sum);
  // Any score may be -inf where the mask keeps something, unless all have a bound.
  if (!schedule.fixedMax || !plan.finalize.getNoEmptyRows())
    inverse = arith::SelectOp::create(b, emitIsEmpty(state.max, sum), splat(rowType, 0.0), inverse);
  Value output = tile::ScaleRowsOp::create(b, acc.getType(), acc, inverse);
  Value lse = state.max ? emitLogSumExp(state.max, sum) : Value();
  bool isStored = false;
  for (const Output &out : plan.outputs) {
    if (!out.isLse && schedule.tmaStore && !std::exchange(isStored, true)) { // a second copy has no slot to go through
      Value map = signature.getTensorMap(out.argument, tile::kTileRows);
      if (outputSlot)
        tile::StoreWaitOp::create(b, /*all=*/true);
      // Behind a sequence's last row is the next one's first.
      Value dest = plan.segmentTile ? signature.getMemRef(out.argument, /*alignment=*/16) : Value();
      tile::StoreAsyncOp::create(b, output, map, batch, head, row, outputSlot ? outputSlot : qTile,
                                 plan.segmentTile ? numQueries : Value(), dest);
      continue;
    }
    // tile.store writes the output 16 bytes at a time.
    Value dest = signature.getMemRef(out.argument, /*alignment=*/out.isLse ? 0 : 16);
    tile::StoreOp::create(b, out.isLse ? lse : output, dest, batch, head, row, numQueries);
  }
}
