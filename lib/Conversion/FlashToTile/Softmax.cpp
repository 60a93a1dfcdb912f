//===- Softmax.cpp - the exponentials of a tile of scores ---------------------------------------------------------===//
//
// The part of a kernel's step between its two products: masks, the running maximum, exponentials.
//
//===--------------------------------------------------------------------------------------------------------------===//

#include "KernelBuilder.h"
#include "ScoreMap.h"
#include "SmallTanh.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"

using namespace mlir;
using namespace flashc;

/// The maximum may be stale by this much, in log2: p stays below 2^8 and sums of p well inside f32.
static constexpr double kStale = 8.0;

/// Whether the schedule's fixed-max is possible: 2^x of any score, and sums of them, stay well inside bf16 and f32.
LogicalResult KernelBuilder::checkFixedMax() {
  if (!schedule.fixedMax)
    return success();
  Operation *op = plan.getOp();
  if (!plan.elementType.isBF16())
    return op->emitError() << "schedule: expected bf16 for fixed-max, got " << plan.elementType;
  std::optional<double> bound = plan.score ? getScoreBound(*plan.score) : std::nullopt;
  if (!bound)
    return op->emitError() << "schedule: expected a score region whose values have a known bound for fixed-max";
  if (*bound > kFixedMaxBound)
    return op->emitError() << "schedule: expected scores of at most " << kFixedMaxBound << " for fixed-max, got " << *bound;
  return success();
}

LogicalResult KernelBuilder::checkTanhTerms() {
  if (schedule.tanhTerms == 0 || (plan.score && isSoftCap(*plan.score)))
    return success();
  return plan.getOp()->emitError() << "schedule: expected a score region that is a constant times tanh for tanh-terms";
}

/// The exponentials of a tile's scores, and what becomes of the running maximum.
FailureOr<KernelBuilder::Softmax> KernelBuilder::emitSoftmax(Value visit, Value key, Value rawScores, Value oldMax) {
  FailureOr<Scores> scores =
      needsScoreMap() ? emitScoreRegion(visit, key, rawScores) : FailureOr<Scores>(Scores{rawScores});
  if (failed(scores))
    return failure();
  Softmax result;
  if (schedule.fixedMax) {
    Value exponentials = scores->isExponential ? scores->tile : emitExponentials(scores->tile, /*offset=*/Value());
    FailureOr<Scores> masked = emitMasked(visit, key, Scores{exponentials}, 0.0);
    if (failed(masked))
      return failure();
    result.probabilities = masked->tile;
    return result;
  }
  scores = emitMasked(visit, key, *scores, kMasked);
  if (failed(scores))
    return failure();

  emitRunningMaximum(*scores, oldMax, result);
  RankedTensorType rowType = tile::getRowType(b.getF32Type());
  double factor = getExponentFactor();
  Value offset;
  if (scores->offset) { // both may be large: subtracted before anything is rounded by their size
    Value max = tile::BroadcastOp::create(b, scores->offset.getType(), result.max);
    offset = arith::MulFOp::create(b, arith::SubFOp::create(b, scores->offset, max),
                                   splat(cast<RankedTensorType>(max.getType()), factor));
  } else {
    offset = arith::NegFOp::create(b, arith::MulFOp::create(b, result.max, splat(rowType, factor)));
  }
  result.probabilities = emitExponentials(scores->tile, offset);
  return result;
}

/// The maximum, kept while the new one exceeds it by less than kStale: acc and sum go by the same one. Hardly ever one
/// does, in any row of the warp; unless one may, nothing is exchanged between lanes. (Where the maximum is to see NaN
/// the question would cost as much as the answer.)
void KernelBuilder::emitRunningMaximum(Scores scores, Value oldMax, Softmax &result) {
  if (catchesNaN())
    return emitNewMaximum(scores, oldMax, result);
  RankedTensorType rowType = tile::getRowType(b.getF32Type());
  Value mayExceed = emitMayExceed(scores, oldMax);
  auto branch = scf::IfOp::create(b, TypeRange{rowType, rowType, b.getI1Type()}, mayExceed, /*addThenBlock=*/true,
                                  /*addElseBlock=*/true);
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(branch.thenBlock());
  emitNewMaximum(scores, oldMax, result);
  scf::YieldOp::create(b, ValueRange{result.max, result.decay, result.anyStale});
  b.setInsertionPointToStart(branch.elseBlock());
  Value no = arith::ConstantOp::create(b, b.getBoolAttr(false));
  scf::YieldOp::create(b, ValueRange{oldMax, splat(rowType, 1.0), no});
  result.max = branch.getResult(0), result.decay = branch.getResult(1), result.anyStale = branch.getResult(2);
}

void KernelBuilder::emitNewMaximum(Scores scores, Value oldMax, Softmax &result) {
  RankedTensorType rowType = tile::getRowType(b.getF32Type());
  Value factor = splat(rowType, getExponentFactor()), newMax = emitMaximum(scores);
  Value increase = arith::MulFOp::create(b, arith::SubFOp::create(b, newMax, oldMax), factor);
  Value isStale = arith::CmpFOp::create(b, catchesNaN() ? arith::CmpFPredicate::UGT : arith::CmpFPredicate::OGT,
                                        increase, splat(rowType, kStale));
  result.max = arith::SelectOp::create(b, isStale, newMax, oldMax);
  result.decay =
      math::Exp2Op::create(b, arith::MulFOp::create(b, arith::SubFOp::create(b, oldMax, result.max), factor));
  result.anyStale = tile::VoteAnyOp::create(b, b.getI1Type(), isStale);
}

/// Whether a score of the warp's rows may exceed the row's maximum by kStale: if one does, and sometimes if none does.
Value KernelBuilder::emitMayExceed(Scores scores, Value oldMax) {
  RankedTensorType rowType = tile::getRowType(b.getF32Type()), partialType = tile::getRowPartialType(b.getContext());
  Value limit = arith::AddFOp::create(b, oldMax, splat(rowType, kStale / getExponentFactor()));
  limit = tile::BroadcastOp::create(b, partialType, limit);
  if (scores.offset)
    limit = arith::SubFOp::create(b, limit, scores.offset);
  // The maximum of integers is one instruction for three, of floats one for two. The integers' is right unless all
  // scores are negative: whatever they give then is below a limit that is not. Other limits are for the floats.
  Value most = tile::RowReduceOp::create(b, partialType, tile::ReduceKind::MaxOfBits, scores.tile);
  Value isNegative = arith::CmpFOp::create(b, arith::CmpFPredicate::OLT, limit, splat(partialType, 0.0));
  Value lowest = splat(partialType, -std::numeric_limits<double>::infinity());
  limit = arith::SelectOp::create(b, isNegative, lowest, limit);
  Value mayExceed = arith::CmpFOp::create(b, arith::CmpFPredicate::UGE, most, limit); // also of NaN
  return tile::VoteAnyOp::create(b, b.getI1Type(), mayExceed);
}

/// A polynomial in place of an exponential does not know NaN: there the maximum does.
bool KernelBuilder::catchesNaN() const { return schedule.fmaExponentials > 0; }

tile::ReduceKind KernelBuilder::getMaximumKind() const {
  return catchesNaN() ? tile::ReduceKind::Maximum : tile::ReduceKind::Max;
}

/// The maximum of a tile's scores in each row and lane, without the offset.
Value KernelBuilder::emitMost(Scores scores) {
  return tile::RowReduceOp::create(b, tile::getRowPartialType(b.getContext()), getMaximumKind(), scores.tile);
}

/// The maximum of a tile's scores in each row.
Value KernelBuilder::emitMaximum(Scores scores) {
  RankedTensorType rowType = tile::getRowType(b.getF32Type());
  tile::ReduceKind kind = getMaximumKind();
  Value max;
  if (scores.offset)
    max = tile::CombineOp::create(b, rowType, kind, arith::AddFOp::create(b, emitMost(scores), scores.offset));
  else
    max = tile::RowReduceOp::create(b, rowType, kind, scores.tile);
  if (!plan.score)
    return max;
  Value masked = splat(rowType, kMasked); // a score may be -inf, which the running maximum could not bear
  return catchesNaN() ? arith::MaximumFOp::create(b, max, masked).getResult()
                      : arith::MaxNumFOp::create(b, max, masked).getResult();
}

/// 2^(factor * s + offset), of all scores; without an offset it is 0.
Value KernelBuilder::emitExponentials(Value scores, Value offset) {
  auto type = cast<RankedTensorType>(scores.getType());
  double factor = getExponentFactor();
  if (schedule.fmaExponentials > 0)
    return tile::Exp2Op::create(b, type, scores, offset, b.getF32FloatAttr(static_cast<float>(factor)),
                                b.getI64IntegerAttr(schedule.fmaExponentials));
  if (!offset)
    return math::Exp2Op::create(b, arith::MulFOp::create(b, scores, splat(type, factor)));
  return math::Exp2Op::create(
      b, math::FmaOp::create(b, scores, splat(type, factor), tile::BroadcastOp::create(b, type, offset)));
}

/// The output so far, by the new maximum, where any row of the warp has one.
Value KernelBuilder::emitRescale(Value acc, const Softmax &softmax) {
  auto rescale = scf::IfOp::create(
      b, softmax.anyStale,
      [&](OpBuilder &nested, Location loc) {
        Value scaled = tile::ScaleRowsOp::create(nested, loc, acc.getType(), acc, softmax.decay);
        scf::YieldOp::create(nested, loc, scaled);
      },
      [&](OpBuilder &nested, Location loc) { scf::YieldOp::create(nested, loc, acc); });
  return rescale.getResult(0);
}

/// The scores of a tile, with `masked` where the mask keeps nothing.
FailureOr<KernelBuilder::Scores> KernelBuilder::emitMasked(Value visit, Value key, Scores source, double masked) {
  if (!visits.hasMask())
    return source;
  if (!visits.hasFull())
    return emitKept(key, source, masked);
  Value isMasked = visits.emitIsMasked(b, visit);
  SmallVector<Type> types{source.tile.getType()};
  if (source.offset)
    types.push_back(source.offset.getType());
  auto branch = scf::IfOp::create(b, types, isMasked, /*addThenBlock=*/true, /*addElseBlock=*/true);
  auto yield = [&](Scores scores) {
    SmallVector<Value> values{scores.tile, scores.offset};
    scf::YieldOp::create(b, ArrayRef(values).take_front(types.size()));
  };
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(branch.thenBlock());
  FailureOr<Scores> kept = emitKept(key, source, masked);
  if (failed(kept))
    return failure();
  yield(*kept);
  b.setInsertionPointToStart(branch.elseBlock());
  yield(source);
  return Scores{branch.getResult(0), source.offset ? branch.getResult(1) : Value()};
}

/// In a masked tile. What a row adds to its scores may be NaN, or infinite, and must not reach a row that the mask
/// keeps nothing of: a thread whose columns are all masked leaves the offset out.
FailureOr<KernelBuilder::Scores> KernelBuilder::emitKept(Value key, Scores source, double masked) {
  FailureOr<Value> kept = emitMask(key, source.tile, masked);
  if (failed(kept))
    return failure();
  Scores result{*kept};
  if (!source.offset)
    return result;
  auto type = cast<RankedTensorType>(source.offset.getType());
  Value isEmpty = arith::CmpFOp::create(b, arith::CmpFPredicate::OLE, emitMost(result), splat(type, kDead));
  result.offset = arith::SelectOp::create(b, isEmpty, splat(type, 0.0), source.offset);
  return result;
}
