//===- Softmax.cpp - the exponentials of a tile of scores ---------------------------------------------------------===//
//
// The part of a forward step between its two products: masks, the running maximum, exponentials.
//
//===--------------------------------------------------------------------------------------------------------------===//

#include "Regions/ScoreMap.h"
#include "Steps/ForwardStep.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

using namespace mlir;
using namespace flashc;

/// The logarithm to the base 2 of the factor by which probabilities p may exceed 1 because the maximum is stale. p is
/// then at most 2^8, and sums of p stay well inside of f32.
static constexpr double kRescaleThreshold = 8.0;

/// Maxima up to about this magnitude are subtracted within one multiply-add. This rounds the maximum times log2(e),
/// with an error of at most 2^-2 that is the same for all scores of a row.
static constexpr double kFar = 0x1p20;

/// Checks that the schedule's max=unified is possible: the exponential of any score, and sums of exponentials, must
/// stay well inside the ranges of bf16 and f32.
LogicalResult ForwardStep::checkUnifiedMax() {
  if (schedule.max == Max::Running)
    return success();
  Operation *op = nest.getStep();
  if (!nest.elementType.isBF16())
    return op->emitError() << "schedule: expected bf16 for max=unified, got " << nest.elementType;
  std::optional<double> bound = nest.score ? getScoreBound(*nest.score) : std::nullopt;
  if (!bound)
    return op->emitError() << "schedule: expected a score region whose values have a known bound for max=unified";
  if (*bound > kUnifiedMaxBound)
    return op->emitError() << "schedule: expected scores of at most " << kUnifiedMaxBound << " for max=unified, got "
                           << *bound;
  return success();
}

/// Emits the exponentials of a tile's scores, and the new running maximum.
FailureOr<ForwardStep::Softmax> ForwardStep::emitSoftmax(Value visit, Value key, Value rawScores, Value oldMax) {
  FailureOr<Scores> scores =
      frame.regions.hasScoreMap() ? emitScoreRegion(visit, key, rawScores) : FailureOr<Scores>(Scores{rawScores});
  if (failed(scores))
    return failure();
  Softmax result;
  if (schedule.max == Max::Unified) {
    Value exponentials = scores->isExponential ? scores->tile : emitExponentials(scores->tile, /*offset=*/Value());
    FailureOr<Scores> masked = emitMasked(visit, key, Scores{exponentials}, 0.0);
    if (failed(masked))
      return failure();
    result.probabilities = masked->tile;
    return result;
  }
  FailureOr<Exponents> exponents = scores->asWritten ? emitSplitOrAsWritten(visit, key, *scores, oldMax, result)
                                                     : emitRescaledExponents(visit, key, *scores, oldMax, result);
  if (failed(exponents))
    return failure();
  result.probabilities = emitExponentials(exponents->tile, exponents->offset);
  return result;
}

/// Emits the exponents of the scores. If a term may be large, they are computed from the scores that the score region
/// yields (`scores.asWritten`), otherwise from scores without the split terms.
FailureOr<ForwardStep::Exponents> ForwardStep::emitSplitOrAsWritten(Value visit, Value key, Scores scores, Value oldMax,
                                                                    Softmax &result) {
  RankedTensorType rowType = frame.getRowType();
  Type types[] = {scores.tile.getType(), scores.offset.getType(), rowType, rowType, b.getI1Type()};
  auto branch = scf::IfOp::create(b, types, hasLargeTerms, /*addThenBlock=*/true, /*addElseBlock=*/true);
  auto fill = [&](Block *block, Operation *map, auto emit) -> LogicalResult {
    OpBuilder::InsertionGuard guard(b);
    map->moveBefore(block, block->begin());
    b.setInsertionPointToEnd(block);
    FailureOr<Exponents> exponents = emit();
    if (succeeded(exponents))
      scf::YieldOp::create(
          b, ValueRange{exponents->tile, exponents->offset, result.max, result.rescaleFactor, result.needsRescale});
    return exponents;
  };
  if (failed(fill(branch.thenBlock(), scores.asWritten,
                  [&] { return emitAsWritten(visit, key, scores, oldMax, result); })) ||
      failed(fill(branch.elseBlock(), scores.tile.getDefiningOp(),
                  [&] { return emitRescaledExponents(visit, key, scores, oldMax, result); })))
    return failure();
  result.max = branch.getResult(2), result.rescaleFactor = branch.getResult(3);
  result.needsRescale = branch.getResult(4);
  return Exponents{branch.getResult(0), branch.getResult(1)};
}

/// Emits the exponents of the scores that the score region yields (`scores.asWritten`). These scores, and so their
/// maximum, already include the factor `remainingScale`.
FailureOr<ForwardStep::Exponents> ForwardStep::emitAsWritten(Value visit, Value key, Scores scores, Value oldMax,
                                                             Softmax &result) {
  FailureOr<Scores> masked = emitMasked(visit, key, Scores{scores.asWritten.getResult()}, kNegInf);
  if (failed(masked))
    return failure();
  emitNewMaximum(*masked, oldMax, llvm::numbers::log2e, result);
  Value differences = emitDifferences(*masked, result.max, /*growth=*/1.0);
  return Exponents{scale(differences, 1.0 / remainingScale),
                   splat(cast<RankedTensorType>(scores.offset.getType()), 0.0)};
}

/// Emits exponents. If the new maximum of a row exceeds the old one by at most kRescaleThreshold, the row keeps the old
/// maximum, and the row's exponents, acc and sum stay relative to it. In most tiles no score of the warp's rows exceeds
/// the old maximum by more than that. Then the lanes exchange nothing.
FailureOr<ForwardStep::Exponents> ForwardStep::emitRescaledExponents(Value visit, Value key, Scores scores,
                                                                     Value oldMax, Softmax &result) {
  FailureOr<Scores> masked = emitMasked(visit, key, scores, kNegInf);
  if (failed(masked))
    return failure();
  RankedTensorType rowType = frame.getRowType();
  Type types[] = {masked->tile.getType(), masked->offset ? masked->offset.getType() : rowType, rowType, rowType,
                  b.getI1Type()};
  auto branch = scf::IfOp::create(b, types, emitMayExceed(*masked, oldMax), /*addThenBlock=*/true,
                                  /*addElseBlock=*/true);
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(branch.thenBlock());
  emitNewMaximum(*masked, oldMax, getExponentFactor(), result);
  Exponents exponents = emitExponents(*masked, result.max);
  scf::YieldOp::create(
      b, ValueRange{exponents.tile, exponents.offset, result.max, result.rescaleFactor, result.needsRescale});
  b.setInsertionPointToStart(branch.elseBlock());
  Value no = arith::ConstantOp::create(b, b.getBoolAttr(false));
  Value offset = scale(emitShift(*masked, oldMax), getExponentFactor());
  scf::YieldOp::create(b, ValueRange{masked->tile, offset, oldMax, splat(rowType, 1.0), no});
  result.max = branch.getResult(2), result.rescaleFactor = branch.getResult(3);
  result.needsRescale = branch.getResult(4);
  return Exponents{branch.getResult(0), branch.getResult(1)};
}

/// Emits the value that must be added to a score to make its exponent: the score's offset, if it has one, minus the
/// maximum. (Offset and maximum may both be large, so their difference is taken before anything is rounded at their
/// size.)
Value ForwardStep::emitShift(Scores scores, Value max) {
  if (!scores.offset)
    return arith::NegFOp::create(b, max);
  return arith::SubFOp::create(b, scores.offset, tile::BroadcastOp::create(b, scores.offset.getType(), max));
}

/// Emits the new maximum of scores. A score times `factor` is an exponent to the base 2.
void ForwardStep::emitNewMaximum(Scores scores, Value oldMax, double factor, Softmax &result) {
  RankedTensorType rowType = frame.getRowType();
  Value newMax = emitMaximum(scores);
  Value increase = scale(arith::SubFOp::create(b, newMax, oldMax), factor);
  Value isStale = arith::CmpFOp::create(b, arith::CmpFPredicate::OGT, increase, splat(rowType, kRescaleThreshold));
  result.max = arith::SelectOp::create(b, isStale, newMax, oldMax);
  Value decay = math::Exp2Op::create(b, arith::NegFOp::create(b, increase));
  result.rescaleFactor = arith::SelectOp::create(b, isStale, decay, splat(rowType, 1.0));
  result.needsRescale = tile::VoteAnyOp::create(b, b.getI1Type(), isStale);
}

/// Emits exponents. Usually one multiply-add scales a score and subtracts the scaled maximum. The scaled maximum is
/// rounded, with the same error for all scores of a row. If this error may be large (a maximum beyond kFar), the
/// maximum is subtracted from each score before the difference is scaled. In a row without keys the maximum and all
/// scores are -inf; then 0 is subtracted.
ForwardStep::Exponents ForwardStep::emitExponents(Scores scores, Value max) {
  Value distance = math::AbsFOp::create(b, emitShift(scores, max));
  auto type = cast<RankedTensorType>(distance.getType());
  auto is = [&](arith::CmpFPredicate predicate, double limit) {
    return arith::CmpFOp::create(b, predicate, distance, splat(type, limit)).getResult();
  };
  Value isFar = arith::AndIOp::create(b, is(arith::CmpFPredicate::OGT, 2 * kFar / remainingScale),
                                      is(arith::CmpFPredicate::OLT, -kNegInf));
  Value isAnyFar = tile::VoteAnyOp::create(b, b.getI1Type(), isFar);
  auto branch = scf::IfOp::create(b, TypeRange{scores.tile.getType(), type}, isAnyFar, /*addThenBlock=*/true,
                                  /*addElseBlock=*/true);
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(branch.thenBlock());
  scf::YieldOp::create(b, ValueRange{emitDifferences(scores, max, std::max(1.0, remainingScale)), splat(type, 0.0)});
  b.setInsertionPointToStart(branch.elseBlock());
  Value offset = scale(emitShift(scores, replaceNegInf(max)), getExponentFactor());
  scf::YieldOp::create(b, ValueRange{scores.tile, offset});
  return {branch.getResult(0), branch.getResult(1)};
}

/// Emits (s * growth - max * growth) / growth, where s is a score with its offset. If `growth` is above 1, the result
/// is rounded at the size of s * growth, and is infinite if s * growth is.
Value ForwardStep::emitDifferences(Scores scores, Value max, double growth) {
  Value tile = scores.tile;
  if (scores.offset)
    tile = arith::AddFOp::create(b, tile, tile::BroadcastOp::create(b, tile.getType(), scores.offset));
  Value base = replaceNegInf(scale(max, growth));
  Value difference = arith::SubFOp::create(b, scale(tile, growth), tile::BroadcastOp::create(b, tile.getType(), base));
  return scale(difference, 1.0 / growth);
}

/// Emits whether a term that was split from the scores is large for one of this warp's rows. The terms are affine in
/// the key, so only the first and the last key are tested. A sum of large numbers depends on their order. So scores
/// with large terms are computed in the order of the score region.
LogicalResult ForwardStep::emitHasLargeTerms(tile::MapOp split) {
  auto loop = split->getParentOfType<scf::ForOp>();
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPoint(loop);
  Value numKeys = frame.emitExtent("k");
  if (!numKeys)
    return failure();
  RankedTensorType type = frame.getLanePartialType();
  Value limit = splat(type, kFar / remainingScale), isLarge;
  for (Value key : {frame.index(0), numKeys}) {
    IRMapping mapping; // replaces the values that exist only inside of the loop
    mapping.map(split.getCol(), key);
    mapping.map(split.getSource(), splat(cast<RankedTensorType>(split.getSource().getType()), 0.0));
    auto terms = cast<tile::MapOp>(b.clone(*split, mapping));
    auto yield = cast<tile::YieldOp>(terms.getBody().front().getTerminator());
    yield.getValueMutable().assign(terms.getBody().getArgument(0));
    for (Operation &op : llvm::make_early_inc_range(llvm::reverse(terms.getBody().front())))
      if (isOpTriviallyDead(&op))
        op.erase();
    Value is = arith::CmpFOp::create(b, arith::CmpFPredicate::UGT, math::AbsFOp::create(b, terms.getOffset()), limit);
    isLarge = isLarge ? arith::OrIOp::create(b, isLarge, is).getResult() : is;
  }
  hasLargeTerms = tile::VoteAnyOp::create(b, b.getI1Type(), isLarge);
  if (slopes) // the score region must not get the product's bias
    slopes = arith::SelectOp::create(b, hasLargeTerms, splat(cast<RankedTensorType>(slopes.getType()), 0.0), slopes);
  return success();
}

/// Emits whether a score of the warp's rows may exceed the row's maximum by kRescaleThreshold. The result is true if a
/// score exceeds it by that much, and sometimes even if no score does. It is always true if the limit, which is the
/// maximum plus the threshold, is negative, or if the maximum is far from 0 (emitExponents).
Value ForwardStep::emitMayExceed(Scores scores, Value oldMax) {
  RankedTensorType rowType = frame.getRowType(), partialType = frame.getLanePartialType();
  Value limit = arith::AddFOp::create(b, oldMax, splat(rowType, kRescaleThreshold / getExponentFactor()));
  limit = tile::BroadcastOp::create(b, partialType, limit);
  if (scores.offset)
    limit = arith::SubFOp::create(b, limit, scores.offset);
  // One instruction takes the maximum of three integers, but only of two floats. As integers, the bits of floats have
  // the right maximum unless all scores are negative. Then the integer maximum is some negative score, which is below
  // every limit that is not negative. A negative limit is replaced by -inf, which makes the result true. As an unsigned
  // integer, a negative number or NaN is above all other numbers. So one comparison finds the limits to replace:
  // negative ones, and those that are far from 0.
  Value most = tile::RowReduceOp::create(b, partialType, tile::ReduceKind::MaxOfBits, scores.tile);
  RankedTensorType bitsType = partialType.clone(b.getI32Type());
  int32_t farBits = llvm::bit_cast<int32_t>(static_cast<float>(kFar / remainingScale));
  Value far = arith::ConstantOp::create(b, DenseElementsAttr::get(bitsType, b.getI32IntegerAttr(farBits).getValue()));
  Value isOther =
      arith::CmpIOp::create(b, arith::CmpIPredicate::ugt, arith::BitcastOp::create(b, bitsType, limit), far);
  limit = arith::SelectOp::create(b, isOther, splat(partialType, kNegInf), limit);
  Value mayExceed = arith::CmpFOp::create(b, arith::CmpFPredicate::UGE, most, limit); // also true for NaN
  return tile::VoteAnyOp::create(b, b.getI1Type(), mayExceed);
}

/// Emits the maximum of a tile's scores for each row and lane, without the offset.
Value ForwardStep::emitLaneMaximum(Scores scores) {
  return tile::RowReduceOp::create(b, frame.getLanePartialType(), tile::ReduceKind::Max, scores.tile);
}

/// Emits the maximum of a tile's scores for each row.
Value ForwardStep::emitMaximum(Scores scores) {
  RankedTensorType rowType = frame.getRowType();
  tile::ReduceKind kind = tile::ReduceKind::Max;
  if (scores.offset)
    return tile::CombineOp::create(b, rowType, kind, arith::AddFOp::create(b, emitLaneMaximum(scores), scores.offset));
  return tile::RowReduceOp::create(b, rowType, kind, scores.tile);
}

/// Emits 2^(factor * s + offset) for all scores s. If `offset` is null, it counts as 0.
Value ForwardStep::emitExponentials(Value scores, Value offset) {
  auto type = cast<RankedTensorType>(scores.getType());
  double factor = getExponentFactor();
  if (!offset)
    return math::Exp2Op::create(b, arith::MulFOp::create(b, scores, splat(type, factor)));
  return math::Exp2Op::create(
      b, math::FmaOp::create(b, scores, splat(type, factor), tile::BroadcastOp::create(b, type, offset)));
}

/// Rescales `acc` to the new maximum if any row of the warp has a new one.
Value ForwardStep::emitRescale(Value acc, const Softmax &softmax) {
  auto rescale = scf::IfOp::create(
      b, softmax.needsRescale,
      [&](OpBuilder &nested, Location loc) {
        Value scaled = tile::ScaleRowsOp::create(nested, loc, acc.getType(), acc, softmax.rescaleFactor);
        scf::YieldOp::create(nested, loc, scaled);
      },
      [&](OpBuilder &nested, Location loc) { scf::YieldOp::create(nested, loc, acc); });
  return rescale.getResult(0);
}

/// Emits the scores of a tile. Scores that the mask does not keep become `masked`.
FailureOr<ForwardStep::Scores> ForwardStep::emitMasked(Value visit, Value key, Scores source, double masked) {
  auto getValues = [](Scores scores) {
    SmallVector<Value> values{scores.tile};
    if (scores.offset)
      values.push_back(scores.offset);
    return values;
  };
  FailureOr<SmallVector<Value>> values =
      frame.emitWhereMasked(visit, getValues(source), [&]() -> FailureOr<SmallVector<Value>> {
        FailureOr<Scores> kept = emitMaskedScores(key, source, masked);
        if (failed(kept))
          return failure();
        return getValues(*kept);
      });
  if (failed(values))
    return failure();
  return Scores{values->front(), source.offset ? values->back() : Value()};
}

/// Masks the scores of a masked tile. If all columns that a thread has in a row are masked, the thread uses 0 in place
/// of the row's offset: the offset may be NaN or infinite, and must have no effect on a row without keys.
FailureOr<ForwardStep::Scores> ForwardStep::emitMaskedScores(Value key, Scores source, double masked) {
  Value kept = frame.regions.emitMask(source.tile, key, masked);
  if (!kept)
    return failure();
  Scores result{kept};
  if (!source.offset)
    return result;
  auto type = cast<RankedTensorType>(source.offset.getType());
  Value isEmpty = arith::CmpFOp::create(b, arith::CmpFPredicate::OEQ, emitLaneMaximum(result), splat(type, kNegInf));
  result.offset = arith::SelectOp::create(b, isEmpty, splat(type, 0.0), source.offset);
  return result;
}
