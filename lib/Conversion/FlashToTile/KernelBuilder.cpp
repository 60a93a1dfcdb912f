//===- KernelBuilder.cpp - the sequential program of an attention -------------------------------------------------===//

#include "KernelBuilder.h"
#include "ScoreMap.h"
#include "flashc/Target/Hopper.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Utils/StaticValueUtils.h"
#include "llvm/ADT/ScopeExit.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace flashc;

/// A masked score: far below any other, yet `s * c - m * c` is exactly 0 for s = m = -2^100 (a power of two), so that a
/// row without keys has no NaN. A row whose maximum is no more than -2^99 has seen no key.
static constexpr double kMasked = -0x1p100, kDead = -0x1p99;
/// The maximum may be stale by this much, in log2: p stays below 2^8 and sums of p well inside f32.
static constexpr double kStale = 8.0;

Value KernelBuilder::index(int64_t value) { return arith::ConstantIndexOp::create(b, value); }

Value KernelBuilder::scalar(double value) {
  return arith::ConstantOp::create(b, b.getF32FloatAttr(static_cast<float>(value)));
}

Value KernelBuilder::splat(RankedTensorType type, double value) {
  return arith::ConstantOp::create(b, DenseElementsAttr::get(type, APFloat(static_cast<float>(value))));
}

Value KernelBuilder::load(Inputs &inputs, Value row) {
  tile::RingType ring = cast<tile::RingType>(inputs.ring.getType());
  Type slot = tile::SlotType::get(b.getContext(), ring.getRows(), ring.getCols(), ring.getElementType());
  return tile::LoadOp::create(b, slot, inputs.map, inputs.batch, inputs.head, row, inputs.ring);
}

/// Scores pass through a map if there is a score region, or if the scale cannot be folded into the exponent: the
/// maximum is taken of unscaled scores, so the scale must be positive, and kMasked * scale neither tiny nor infinite.
bool KernelBuilder::needsScoreMap() const {
  return plan.score || !isExponentFactor(plan.getOp().getScale().convertToFloat());
}

LogicalResult KernelBuilder::build() {
  b.setInsertionPointToStart(&kernel.getBody().front());
  emitRings();
  FailureOr<SmallVector<Value>> grid = emitGrid();
  if (failed(grid))
    return failure();
  bool isSorted = schedule.order == Order::List, isPaired = schedule.persistent && isHeavyFirst() && !isSorted;
  auto program = tile::ProgramOp::create(b, schedule.consumers, *grid, isPaired, isPaired && schedule.rotatePairs,
                                         isSorted, /*list=*/Value(), tile::ListScopeAttr(), /*numbers=*/0);
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
    ones = tile::AllocOnesOp::create(b, tile::getOnesType(plan.elementType));
  if (schedule.outputSlot)
    outputSlot = tile::AllocOutputOp::create(
        b, tile::SlotType::get(b.getContext(), tile::kTileRows, plan.valueDim, plan.elementType));
}

RankedTensorType KernelBuilder::getOutputType() {
  return tile::getAccType(plan.valueDim + (ones ? tile::hopper::kSumCols : 0), b.getF32Type());
}

//===--------------------------------------------------------------------------------------------------------------===//
// Scalars
//===--------------------------------------------------------------------------------------------------------------===//

/// The last queries of a causal mask see the most keys: they go first.
bool KernelBuilder::isHeavyFirst() const { return plan.mask && isa<BlockArgument>(plan.query.position); }

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
  grid.front() = b.createOrFold<arith::CeilDivUIOp>(grid.front(), index(plan.qTile));
  return grid;
}

/// Where this CTA and this warpgroup are: the positions of L1's parallel loop.
LogicalResult KernelBuilder::emitPositions() {
  Value warpgroup = row;
  Value blockX = gpu::BlockIdOp::create(b, gpu::Dimension::x);
  head = gpu::BlockIdOp::create(b, gpu::Dimension::y);
  batch = gpu::BlockIdOp::create(b, gpu::Dimension::z);
  numQueries = scalars.get(b, b.getLoc(), plan.query.extent);
  if (!numQueries)
    return failure();
  Value queryTile = blockX;
  if (isHeavyFirst()) {
    // CTAs start in the order of their numbers: light tiles fill the gaps at the end.
    Value numTiles = b.createOrFold<arith::CeilDivUIOp>(numQueries, index(plan.qTile));
    queryTile = arith::SubIOp::create(b, b.createOrFold<arith::SubIOp>(numTiles, index(1)), blockX);
  }
  Value firstRow = arith::MulIOp::create(b, queryTile, index(plan.qTile));
  row = arith::AddIOp::create(b, firstRow, arith::MulIOp::create(b, warpgroup, index(tile::kTileRows)));
  if (isa<BlockArgument>(plan.batch.position))
    scalars.map(plan.batch.position, batch);
  if (isa<BlockArgument>(plan.head.position))
    scalars.map(plan.head.position, head);
  if (isa<BlockArgument>(plan.query.position))
    scalars.map(plan.query.position, firstRow);

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
  FailureOr<Visits> numbered = Visits::emit(b, plan, scalars);
  if (failed(numbered))
    return failure();
  visits = std::move(*numbered);
  Type f32 = b.getF32Type();
  qTile = load(q, row);
  SmallVector<Value> init{splat(getOutputType(), 0.0),
                          splat(tile::getRowType(f32), -std::numeric_limits<double>::infinity())};
  if (!ones)
    init.push_back(splat(tile::getRowPartialType(b.getContext()), 0.0));
  auto loop = scf::ForOp::create(b, index(0), visits.getTotal(), index(1), init);
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(loop.getBody());
  ValueRange carried = loop.getRegionIterArgs();
  auto getState = [&](ValueRange values) { return State{values[0], values[1], ones ? Value() : values[2]}; };
  FailureOr<State> state = emitStep(loop.getInductionVar(), getState(carried));
  if (failed(state))
    return failure();
  SmallVector<Value> next{state->acc, state->max};
  if (state->sum)
    next.push_back(state->sum);
  scf::YieldOp::create(b, next);
  final = getState(loop.getResults());
  return success();
}

FailureOr<KernelBuilder::State> KernelBuilder::emitStep(Value visit, State state) {
  Type f32 = b.getF32Type();
  RankedTensorType rowType = tile::getRowType(f32), scoreType = tile::getAccType(plan.kvTile, f32);
  auto outputType = cast<RankedTensorType>(state.acc.getType());
  Value key = visits.emitKey(b, visit);
  Value kTile = load(k, key);
  Value product = tile::MmaAsyncOp::create(b, tile::TokenType::get(b.getContext(), scoreType), qTile, kTile,
                                           /*acc=*/Value(), /*ones=*/Value(), /*transpose_b=*/true);
  Value rawScores = tile::MmaWaitOp::create(b, scoreType, product, /*pending=*/0);
  FailureOr<Value> scores = emitScores(visit, key, rawScores);
  if (failed(scores))
    return failure();
  double factor = llvm::numbers::log2e * remainingScale;

  // The maximum, kept while the new one exceeds it by less than kStale: acc and sum go by the same one.
  // A polynomial in place of an exponential does not know NaN: there the maximum does.
  bool catchesNaN = schedule.fmaExponentials > 0;
  Value newMax =
      tile::RowReduceOp::create(b, rowType, catchesNaN ? tile::ReduceKind::Maximum : tile::ReduceKind::Max, *scores);
  if (plan.score) { // may mask with -inf, which the running maximum could not bear
    Value masked = splat(rowType, kMasked);
    newMax = catchesNaN ? arith::MaximumFOp::create(b, newMax, masked).getResult()
                        : arith::MaxNumFOp::create(b, newMax, masked).getResult();
  }
  Value increase = arith::MulFOp::create(b, arith::SubFOp::create(b, newMax, state.max), splat(rowType, factor));
  Value isStale = arith::CmpFOp::create(b, catchesNaN ? arith::CmpFPredicate::UGT : arith::CmpFPredicate::OGT, increase,
                                        splat(rowType, kStale));
  Value max = arith::SelectOp::create(b, isStale, newMax, state.max);
  Value decay = math::Exp2Op::create(
      b, arith::MulFOp::create(b, arith::SubFOp::create(b, state.max, max), splat(rowType, factor)));

  Value offset = arith::NegFOp::create(b, arith::MulFOp::create(b, max, splat(rowType, factor)));
  Value probabilities = emitExponentials(*scores, offset, factor);
  Value sum;
  if (!ones) {
    Value addend =
        tile::RowReduceOp::create(b, tile::getRowPartialType(b.getContext()), tile::ReduceKind::Sum, probabilities);
    sum = arith::AddFOp::create(b, tile::ScaleRowsOp::create(b, state.sum.getType(), state.sum, decay), addend);
  }

  auto operandType =
      RankedTensorType::get(scoreType.getShape(), plan.elementType, tile::OperandAAttr::get(b.getContext()));
  Value operand = tile::ToOperandAOp::create(b, operandType, probabilities);
  Value anyStale = tile::VoteAnyOp::create(b, b.getI1Type(), isStale);
  auto rescale = scf::IfOp::create(
      b, anyStale,
      [&](OpBuilder &nested, Location loc) {
        Value scaled = tile::ScaleRowsOp::create(nested, loc, outputType, state.acc, decay);
        scf::YieldOp::create(nested, loc, scaled);
      },
      [&](OpBuilder &nested, Location loc) { scf::YieldOp::create(nested, loc, state.acc); });
  Value vTile = load(v, key);
  Value output = tile::MmaAsyncOp::create(b, tile::TokenType::get(b.getContext(), outputType), operand, vTile,
                                          rescale.getResult(0), ones, /*transpose_b=*/false);
  return State{tile::MmaWaitOp::create(b, outputType, output, /*pending=*/0), max, sum};
}

/// 2^(factor * s + offset), of all scores.
Value KernelBuilder::emitExponentials(Value scores, Value offset, double factor) {
  auto type = cast<RankedTensorType>(scores.getType());
  if (schedule.fmaExponentials > 0)
    return tile::Exp2Op::create(b, scores, offset, b.getF32FloatAttr(static_cast<float>(factor)),
                                b.getI64IntegerAttr(schedule.fmaExponentials));
  return math::Exp2Op::create(
      b, math::FmaOp::create(b, scores, splat(type, factor), tile::BroadcastOp::create(b, type, offset)));
}

FailureOr<Value> KernelBuilder::emitScores(Value visit, Value key, Value scores) {
  if (needsScoreMap()) {
    FailureOr<Value> mapped = emitScoreRegion(key, scores);
    if (failed(mapped))
      return failure();
    scores = *mapped;
  }
  if (!visits.hasMask())
    return scores;
  if (!visits.hasFull())
    return emitMask(key, scores);
  Value isMasked = visits.emitIsMasked(b, visit);
  auto branch = scf::IfOp::create(b, scores.getType(), isMasked, /*addThenBlock=*/true, /*addElseBlock=*/true);
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(branch.thenBlock());
  FailureOr<Value> masked = emitMask(key, scores);
  if (failed(masked))
    return failure();
  scf::YieldOp::create(b, *masked);
  b.setInsertionPointToStart(branch.elseBlock());
  scf::YieldOp::create(b, scores);
  return branch.getResult(0);
}

/// Makes a tile.map over `scores` and puts the insertion point into it; what `region` computes of i alone is known there.
tile::MapOp KernelBuilder::beginMap(Value scores, Value key, Region *region) {
  SmallVector<Value> tiles;
  SmallVector<Type> types{cast<RankedTensorType>(scores.getType()).getElementType(), b.getIndexType(), b.getIndexType()};
  for (const RowValue &value : rowValues)
    if (value.region == region) {
      tiles.push_back(value.tile);
      types.push_back(value.inL1.getType());
    }
  auto map = tile::MapOp::create(b, scores.getType(), scores, tiles, row, key);
  Block *body = b.createBlock(&map.getBody(), {}, types, SmallVector<Location>(types.size(), b.getLoc()));
  unsigned argument = 3;
  for (const RowValue &value : rowValues)
    if (value.region == region)
      scalars.map(value.inL1, body->getArgument(argument++));
  return map;
}

FailureOr<Value> KernelBuilder::emitScoreRegion(Value key, Value scores) {
  OpBuilder::InsertionGuard guard(b);
  tile::MapOp map = beginMap(scores, key, plan.score);
  ValueRange position = map.getBody().getArguments();
  Value score = arith::MulFOp::create(b, position[0], scalar(plan.getOp().getScale().convertToFloat()));
  if (plan.score)
    score = scalars.cloneRegion(b, *plan.score, {score, batch, head, position[1], position[2]});
  if (!score)
    return failure();
  tile::YieldOp::create(b, score);
  remainingScale = simplifyScoreMap(map);
  return map.getResult();
}

FailureOr<Value> KernelBuilder::emitMask(Value key, Value scores) {
  OpBuilder::InsertionGuard guard(b);
  tile::MapOp map = beginMap(scores, key, plan.mask);
  ValueRange position = map.getBody().getArguments();
  Value result = scalar(kMasked);
  if (plan.mask) {
    Value keep = scalars.cloneRegion(b, *plan.mask, {batch, head, position[1], position[2]});
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

/// o = acc / sum, lse = (max * factor + log2(sum)) * ln 2; 0 and -inf in a row that has seen no key.
void KernelBuilder::emitOutputs(State state) {
  RankedTensorType rowType = tile::getRowType(b.getF32Type());
  double factor = llvm::numbers::log2e * remainingScale;
  Value acc = state.acc, sum;
  if (ones) {
    auto split = tile::SplitSumsOp::create(b, tile::getAccType(plan.valueDim, b.getF32Type()), rowType, acc);
    acc = split.getColumns(), sum = split.getSums();
  } else {
    sum = tile::CombineOp::create(b, rowType, state.sum);
  }
  // A score region may give -inf where the mask keeps something.
  Value isDead;
  if (!plan.finalize.getNoEmptyRows() || plan.score)
    isDead = arith::CmpFOp::create(b, arith::CmpFPredicate::OLE, state.max, splat(rowType, kDead));
  Value inverse = arith::DivFOp::create(b, splat(rowType, 1.0), sum);
  if (isDead)
    inverse = arith::SelectOp::create(b, isDead, splat(rowType, 0.0), inverse);
  Value output = tile::ScaleRowsOp::create(b, acc.getType(), acc, inverse);
  Value lse = arith::AddFOp::create(b, arith::MulFOp::create(b, state.max, splat(rowType, factor)),
                                    math::Log2Op::create(b, sum));
  lse = arith::MulFOp::create(b, lse, splat(rowType, llvm::numbers::ln2));
  if (isDead)
    lse = arith::SelectOp::create(b, isDead, splat(rowType, -std::numeric_limits<double>::infinity()), lse);
  bool isStored = false;
  for (const Output &out : plan.outputs) {
    if (!out.isLse && schedule.tmaStore && !std::exchange(isStored, true)) { // a second copy has no slot to go through
      Value map = signature.getTensorMap(out.argument, tile::kTileRows);
      if (outputSlot)
        tile::StoreWaitOp::create(b, /*all=*/true);
      tile::StoreAsyncOp::create(b, output, map, batch, head, row, outputSlot ? outputSlot : qTile);
      continue;
    }
    // tile.store writes the output 16 bytes at a time.
    Value dest = signature.getMemRef(out.argument, /*alignment=*/out.isLse ? 0 : 16);
    tile::StoreOp::create(b, out.isLse ? lse : output, dest, batch, head, row, numQueries);
  }
}
