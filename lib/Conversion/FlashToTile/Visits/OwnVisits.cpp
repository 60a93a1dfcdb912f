//===- OwnVisits.cpp - the key tiles of a warpgroup's own rows ----------------------------------------------------===//

#include "Visits/VisitsEmitter.h"
#include "flashc/Dialect/Flash/IR/SortedData.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace flashc;

/// Makes a value of level L1 that stands for the first row of the warpgroup. The row is known only in the kernel.
Value Visits::Emitter::getOwnRowInL1(OpBuilder &inL1) {
  Location loc = nest.end->getLoc();
  Value zeroInL1 = arith::ConstantIndexOp::create(inL1, loc, 0);
  Value row = UnrealizedConversionCastOp::create(inL1, loc, b.getIndexType(), zeroInL1).getResult(0);
  scalars.map(row, ownRow);
  return row;
}

/// Makes the number of a visit uniform. Minima and maxima have computed the number in general registers, so ptxas would
/// assume that it differs between threads (see tile.uniform).
Value Visits::Emitter::makeUniform(Value visit) {
  bool isPlain = visit == visits.total || getConstantIntValue(visit);
  return isPlain ? visit : tile::UniformOp::create(b, visit).getResult();
}

/// Returns the number of the visit to the tile that contains position `key` - 1. The first tile begins at `begin`, and
/// the last tile is visited first. If `key` is at or before `begin`, returns `visits.total`.
Value Visits::Emitter::getVisitAt(Value key, Value begin) {
  return sub(visits.total, countTiles(max(sub(key, begin), zero)));
}

/// Emits the visits of some rows from the rows' bounds. `getVisit` returns, for a key, the number of the visit to the
/// tile that contains the position before this key. Fails after an error.
FailureOr<Visits::Emitter::RowVisits> Visits::Emitter::emitRowVisits(const flash::RowBounds &bounds,
                                                                     llvm::function_ref<Value(OpFoldResult)> getVisit) {
  Value first = getVisit(bounds.end), last = getVisit(bounds.begin);
  Value fullBegin = getVisit(bounds.fullEnd), fullEnd = getVisit(bounds.fullBegin);
  if (!first || !last || !fullBegin || !fullEnd)
    return failure();
  return RowVisits{first, last, fullBegin, fullEnd};
}

/// Lets a warpgroup make only the last visit if all its rows are after the last query, so that they have no output.
LogicalResult Visits::Emitter::leaveOutMissingRows(Value &first, Value &last) {
  std::optional<int64_t> constant = getConstantIntValue(nest.resident.extent);
  if (constant && *constant % nest.residentTile == 0)
    return success();
  Value extent = bound(nest.resident.extent);
  if (!extent)
    return failure();
  Value isMissing = arith::CmpIOp::create(b, arith::CmpIPredicate::sge, ownRow, extent);
  first = arith::SelectOp::create(b, isMissing, sub(visits.total, one), first);
  if (last != visits.total)
    last = arith::SelectOp::create(b, isMissing, visits.total, last);
  return success();
}

/// Emits the visits of the warpgroup's rows. Returns false if the mask has no bounds for them. If the rows see no key,
/// the warpgroup visits one tile, the first or the last of the CTA's tiles, whose elements are all masked.
FailureOr<bool> Visits::Emitter::emitOwn(Value begin, Value end) {
  OpBuilder inL1(nest.end);
  std::optional<flash::RowBounds> bounds = flash::emitRowBounds(inL1, getMaskedOp(), nest.segments.front().begin,
                                                                nest.segments.back().end, getOwnRowInL1(inL1), ownRows);
  bool isListed = !bounds;
  if (isListed && (!hasList || getConstantIntValue(visits.total) == 1))
    return false;
  FailureOr<RowVisits> own =
      isListed ? emitReadVisits(begin, end, inL1) : emitRowVisits(*bounds, [&](OpFoldResult key) {
        Value copy = bound(key);
        return copy ? getVisitAt(copy, begin) : Value();
      });
  if (failed(own))
    return failure();
  if (!own->first)
    return false;
  if (getConstantIntValue(own->first) != 0)
    own->first = min(own->first, sub(visits.total, one));
  if (own->last != visits.total)
    own->last = max(own->last, add(own->first, one));
  if (!isListed && failed(leaveOutMissingRows(own->first, own->last))) // a work list handles missing rows
    return failure();
  own->first = makeUniform(own->first), own->last = makeUniform(own->last);
  visits.fullBegin = makeUniform(own->fullBegin), visits.fullEnd = makeUniform(own->fullEnd);
  visits.own = tile::OwnVisitsOp::create(b, own->first, own->last, visits.total, isListed);
  return true;
}

/// The end of the existing rows.
OpFoldResult Visits::Emitter::getEndOfRows(OpBuilder &inL1) {
  if (!nest.segmentTile)
    return nest.resident.extent;
  return arith::AddIOp::create(inL1, nest.end->getLoc(), nest.segmentTile.getBegin(), nest.segmentTile.getSize())
      .getResult();
}

/// Emits visits from bounds that read arrays. The kernel takes the numbers of these visits from the work list, and they
/// are uniform. Returns null values if the mask has no such bounds.
FailureOr<Visits::Emitter::RowVisits> Visits::Emitter::emitReadVisits(Value begin, Value end, OpBuilder &inL1) {
  Segment &front = nest.segments.front();
  flash::RowRange rows{getOwnRowInL1(inL1), getEndOfRows(inL1), ownRows, /*isFullInFront=*/!front.isMasked()};
  std::optional<flash::RowBounds> bounds =
      flash::emitReadRowBounds(inL1, getMaskedOp(), front.begin, nest.segments.back().end, rows);
  if (!bounds)
    return RowVisits();
  return emitRowVisits(*bounds, [&](OpFoldResult key) -> Value {
    if (isEqualConstantIntOrValue(key, front.begin))
      return visits.total;
    Value copy = scalars.get(b, b.getLoc(), key);
    return copy ? getVisitAt(min(copy, end), begin) : Value();
  });
}

//===--------------------------------------------------------------------------------------------------------------===//
// Own visits if there are several runs
//===--------------------------------------------------------------------------------------------------------------===//

/// Returns the last run: the consecutive segments that end with the last one.
static MutableArrayRef<Segment> getLastRun(MutableArrayRef<Segment> segments) {
  size_t begin = segments.size() - 1;
  while (begin > 0 && isEqualConstantIntOrValue(segments[begin - 1].end, segments[begin].begin))
    --begin;
  return segments.drop_front(begin);
}

/// Places the visits of the other runs among those of the last run. All warpgroups make the visits of the other runs,
/// at the place where the CTA's first 64 rows begin their visits (or full visits) of the last run. If bounds ascend
/// with the rows, every warpgroup has begun its own visits of the last run there. A warpgroup has not yet ended its
/// visits there if its rows see at least as many keys as the CTA has rows. Otherwise the visits of the warpgroup are
/// extended to that place; the added visits are masked.
LogicalResult Visits::Emitter::emitMovingRun(OpFoldResult fixedEnd) {
  MovingRun run;
  run.segments = getLastRun(nest.segments);
  auto others = MutableArrayRef(nest.segments).drop_back(run.segments.size());
  emitConstants();
  run.begin = bound(run.segments.front().begin), run.end = bound(run.segments.back().end);
  run.fixedEnd = bound(fixedEnd);
  if (!run.begin || !run.end || !run.fixedEnd)
    return failure();
  run.end = max(run.end, run.begin);
  SmallVector<Piece> counted;
  run.numMasked = run.numFull = zero;
  if (failed(emitPiecesOf(others, /*isMasked=*/true, counted, run.numMasked)) ||
      failed(emitPiecesOf(others, /*isMasked=*/false, counted, run.numFull)))
    return failure();
  Value numOthers = add(run.numMasked, run.numFull);
  Value count = add(divideExactly(sub(run.end, run.begin)), numOthers);
  bool mayBeEmpty;
  setTotal(count, mayBeEmpty);
  if (!getConstantIntValue(visits.total)) // must be uniform: a warpgroup counts left-out visits in its rings, too
    visits.total = tile::UniformOp::create(b, visits.total);
  FailureOr<Value> place = emitPlace(run);
  if (failed(place))
    return failure();
  run.place = *place;

  // All warpgroups share one list of pieces: they differ in which visits are masked, but not in the keys of a visit.
  visits.isBackwards = true;
  auto getKey = [&](Value numOthers) { return sub(add(run.end, mul(numOthers, step)), step); };
  visits.masked.push_back({zero, getKey(zero)});
  Value next = run.place;
  if (failed(emitPiecesOf(others, /*isMasked=*/true, visits.masked, next)) ||
      failed(emitPiecesOf(others, /*isMasked=*/false, visits.masked, next)))
    return failure();
  if (!others.empty())
    visits.masked.push_back({next, getKey(sub(next, run.place))});
  if (mayBeEmpty) // see emitPieces
    visits.masked.back().key = arith::SelectOp::create(b, isEmpty(count), zero, visits.masked.back().key);
  return emitOwn(run);
}

/// Divides `distance`, a multiple of the size of a streamed tile, by this size. `distance` may be negative.
Value Visits::Emitter::divideExactly(Value distance) {
  if (!llvm::isPowerOf2_64(nest.streamedTile))
    return b.createOrFold<arith::DivSIOp>(distance, step);
  return b.createOrFold<arith::ShRSIOp>(distance, index(llvm::Log2_64(nest.streamedTile)));
}

/// Emits the visits of 64 rows in the last run. If the rows see none of the run's keys, the visits lie outside of the
/// run. The bounds are computed as for a loop over all keys and not over the last run alone: a loop over all keys
/// begins at a constant more often.
FailureOr<Visits::Emitter::RowVisits> Visits::Emitter::emitVisitsOf(const MovingRun &run, Value firstRow,
                                                                    OpBuilder &inL1) {
  std::optional<flash::RowBounds> bounds = flash::emitRowBounds(
      inL1, getMaskedOp(), nest.segments.front().begin, inL1.getIndexAttr(flash::kFarPosition), firstRow, ownRows);
  return emitRowVisits(*bounds, [&](OpFoldResult key) {
    Value copy = bound(key);
    return copy ? divideExactly(sub(run.end, copy)) : Value();
  });
}

/// Emits the place of the visits of the other runs (MovingRun::place). It is before the full visits of the CTA's first
/// rows, so that these and the full visits of the other runs are one interval.
FailureOr<Value> Visits::Emitter::emitPlace(const MovingRun &run) {
  OpBuilder inL1(nest.end);
  FailureOr<RowVisits> first = emitVisitsOf(run, getMaskedOp().getI0(), inL1);
  if (failed(first))
    return failure();
  Value place = getConstantIntValue(run.numFull) == 0 ? first->first : first->fullBegin;
  // The run's tiles that all rows must visit (those before `fixedEnd`) are visited last, after the other runs.
  place = min(place, divideExactly(sub(run.end, max(run.fixedEnd, run.begin))));
  place = max(place, zero);
  return min(place, sub(visits.total, one));
}

/// Emits the visits of the warpgroup's rows, with the visits of the other runs among them. All queries see the keys
/// before `fixedEnd`. If the last run has such keys, they are in its first tiles, which are visited last. Then every
/// warpgroup makes the visits up to the very last one.
LogicalResult Visits::Emitter::emitOwn(const MovingRun &run) {
  OpBuilder inL1(nest.end);
  FailureOr<RowVisits> own = emitVisitsOf(run, getOwnRowInL1(inL1), inL1);
  if (failed(own))
    return failure();
  Value numOthers = add(run.numMasked, run.numFull);
  // There is at least one visit.
  Value leastEnd = add(run.place, max(numOthers, one));
  Value reaches = arith::CmpIOp::create(b, arith::CmpIPredicate::sgt, run.fixedEnd, run.begin);
  leastEnd = arith::SelectOp::create(b, reaches, visits.total, leastEnd);
  Value fullBegin = add(max(own->fullBegin, run.place), numOthers);
  if (getConstantIntValue(run.numFull) != 0) {
    Value isBehind = arith::CmpIOp::create(b, arith::CmpIPredicate::sgt, own->fullBegin, run.place);
    fullBegin = arith::SelectOp::create(b, isBehind, fullBegin, add(run.place, run.numMasked));
  }
  visits.fullBegin = makeUniform(fullBegin);
  visits.fullEnd = makeUniform(add(own->fullEnd, numOthers));
  Value first = max(min(own->first, run.place), zero);
  Value last = min(max(add(own->last, numOthers), leastEnd), visits.total);
  if (failed(leaveOutMissingRows(first, last)))
    return failure();
  visits.own = tile::OwnVisitsOp::create(b, makeUniform(first), makeUniform(last), visits.total);
  return success();
}
