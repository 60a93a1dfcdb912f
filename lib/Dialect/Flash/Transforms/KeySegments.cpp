//===- KeySegments.cpp - the loops that the bounds of a mask ask for ----------------------------------------------===//

#include "KeySegments.h"
#include "mlir/Dialect/Affine/IR/AffineOps.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Arith/Utils/Utils.h"
#include "mlir/Dialect/Utils/StaticValueUtils.h"
#include "mlir/IR/IRMapping.h"

using namespace mlir;
using namespace mlir::flash;

//===--------------------------------------------------------------------------------------------------------------===//
// Values of bounds
//===--------------------------------------------------------------------------------------------------------------===//

namespace {
/// Turns the expressions of LoopBounds into IR in front of a loop.
class BoundsEmitter {
public:
  BoundsEmitter(OnlineAttentionOp op, scf::ForOp loop, OpFoldResult numQueries, const LoopBounds &bounds)
      : op(op), bounds(bounds), b(loop), loc(loop.getLoc()) {
    for (IRMapping &mapping : hoisted) {
      mapping.map(op.getMask().getArgument(0), op.getB0());
      mapping.map(op.getMask().getArgument(1), op.getH0());
    }
    symbols = {getAsOpFoldResult(loop.getLowerBound()), getAsOpFoldResult(loop.getUpperBound()),
               getAsOpFoldResult(op.getI0()), numQueries};
    mapRows();
    for (const CapturedValue &captured : bounds.captured)
      symbols.push_back(getAsOpFoldResult(makeIndex(hoist(captured.value, hoisted[unsigned(captured.at)]))));
  }

protected:
  static bool isSame(OpFoldResult x, OpFoldResult y) { return isEqualConstantIntOrValue(x, y); }

  AffineExpr symbol(unsigned position) const { return getAffineSymbolExpr(position, b.getContext()); }

  /// Where the loop ends, rounded to tiles from where it begins.
  AffineExpr getEnd(bool isCeil) const {
    AffineExpr begin = symbol(LoopBounds::Begin), length = symbol(LoopBounds::End) - begin;
    return begin + (isCeil ? length.ceilDiv(bounds.tileSize) : length.floorDiv(bounds.tileSize)) * bounds.tileSize;
  }

  OpFoldResult reduce(ArrayRef<AffineExpr> exprs, bool isMin) {
    AffineMap map = AffineMap::get(0, symbols.size(), exprs, b.getContext());
    if (exprs.size() == 1)
      return affine::makeComposedFoldedAffineApply(b, loc, map, symbols);
    return isMin ? affine::makeComposedFoldedAffineMin(b, loc, map, symbols)
                 : affine::makeComposedFoldedAffineMax(b, loc, map, symbols);
  }

  OpFoldResult clamp(OpFoldResult value, OpFoldResult limit, bool isMin) {
    if (isSame(value, limit))
      return value;
    AffineMap map = AffineMap::getMultiDimIdentityMap(2, b.getContext());
    return isMin ? affine::makeComposedFoldedAffineMin(b, loc, map, {value, limit})
                 : affine::makeComposedFoldedAffineMax(b, loc, map, {value, limit});
  }

  /// `value` if all conditions are >= 0, else `otherwise`.
  OpFoldResult unless(ArrayRef<AffineExpr> conditions, OpFoldResult value, OpFoldResult otherwise) {
    if (conditions.empty() || isSame(value, otherwise))
      return value;
    OpFoldResult least = reduce(conditions, /*isMin=*/true);
    if (std::optional<int64_t> constant = getConstantIntValue(least))
      return *constant >= 0 ? value : otherwise;
    // One statement each: the order in which arguments are evaluated depends on the compiler.
    Value zero = arith::ConstantIndexOp::create(b, loc, 0);
    Value bound = getValueOrCreateConstantIndexOp(b, loc, least);
    Value holds = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::sge, bound, zero);
    Value chosen = getValueOrCreateConstantIndexOp(b, loc, value);
    Value rejected = getValueOrCreateConstantIndexOp(b, loc, otherwise);
    return arith::SelectOp::create(b, loc, holds, chosen, rejected).getResult();
  }

  /// `end`, but at most as far behind `begin` as an interval has room.
  OpFoldResult clampRooms(const TileInterval &interval, OpFoldResult begin, OpFoldResult end) {
    if (interval.rooms.empty())
      return end;
    SmallVector<AffineExpr> exprs{b.getAffineDimExpr(0)};
    SmallVector<OpFoldResult> operands{end, begin};
    operands.append(symbols);
    // What is captured may be large, as an offset that does not exist: times the tile it has to fit 32 bits.
    AffineExpr largest = b.getAffineConstantExpr((int64_t(1) << 29) / bounds.tileSize);
    for (AffineExpr room : interval.rooms) {
      bool isCaptured = false;
      for (unsigned position = LoopBounds::FirstCaptured; position < symbols.size(); ++position)
        isCaptured |= room.isFunctionOfSymbol(position);
      if (isCaptured) {
        operands.push_back(reduce({room, largest}, /*isMin=*/true));
        room = symbol(operands.size() - 3);
      }
      exprs.push_back(b.getAffineDimExpr(1) + (room + 1) * bounds.tileSize);
    }
    return affine::makeComposedFoldedAffineMin(
        b, loc, AffineMap::get(2, operands.size() - 2, exprs, b.getContext()), operands);
  }

  const LoopBounds &getBounds() const { return bounds; }

  SmallVector<OpFoldResult> symbols;

private:
  /// Row functions are evaluated at the first and the last query.
  void mapRows() {
    auto isAt = [&](MaskSpace::At at) {
      return llvm::any_of(bounds.captured, [&](const CapturedValue &captured) { return captured.at == at; });
    };
    Value row = op.getMask().getArgument(2);
    hoisted[unsigned(MaskSpace::At::FirstRow)].map(row, op.getI0());
    if (!isAt(MaskSpace::At::LastRow))
      return;
    AffineExpr last = symbol(LoopBounds::First) + symbol(LoopBounds::Count) - 1;
    OpFoldResult position = affine::makeComposedFoldedAffineApply(b, loc, AffineMap::get(0, 4, last), symbols);
    hoisted[unsigned(MaskSpace::At::LastRow)].map(row, getValueOrCreateConstantIndexOp(b, loc, position));
  }

  /// Copies what computes a value inside the mask region to the front of the loop.
  Value hoist(Value value, IRMapping &mapping) {
    if (Value known = mapping.lookupOrNull(value))
      return known;
    Operation *def = value.getDefiningOp();
    if (!def || !op.getMask().isAncestor(def->getParentRegion()))
      return value;
    for (Value operand : def->getOperands())
      mapping.map(operand, hoist(operand, mapping));
    b.clone(*def, mapping);
    return mapping.lookup(value);
  }

  Value makeIndex(Value value) {
    if (value.getType().isInteger(1))
      return arith::IndexCastUIOp::create(b, loc, b.getIndexType(), value);
    return getValueOrCreateCastToIndexLike(b, loc, b.getIndexType(), value);
  }

  OnlineAttentionOp op;
  const LoopBounds &bounds;

protected:
  OpBuilder b;
  Location loc;

private:
  IRMapping hoisted[3];
};

//===--------------------------------------------------------------------------------------------------------------===//
// One interval with cuts at its ends
//===--------------------------------------------------------------------------------------------------------------===//

/// Most masks: masked, full, masked.
class SingleInterval : BoundsEmitter {
public:
  using BoundsEmitter::BoundsEmitter;

  static bool matches(const LoopBounds &bounds) {
    return bounds.kept.size() == 1 && llvm::all_of(bounds.cut, [](const TileInterval &cut) {
             return cut.begin.size() + cut.end.size() + cut.conditions.size() <= 1;
           });
  }

  SmallVector<KeySegment> emit() {
    const TileInterval &kept = getBounds().kept.front();
    SmallVector<AffineExpr> beginExprs{symbol(LoopBounds::Begin)}, endExprs{getEnd(/*isCeil=*/true)};
    beginExprs.append(kept.begin);
    endExprs.append(kept.end);
    OpFoldResult end = reduce(endExprs, /*isMin=*/true);
    OpFoldResult begin = reduce(beginExprs, /*isMin=*/false);
    if (beginExprs.size() > 1)
      begin = clamp(begin, end, /*isMin=*/true);
    end = clampRooms(kept, begin, end);
    if (!isSame(begin, symbols[LoopBounds::Begin]) || endExprs.size() > 1)
      end = clamp(end, begin, /*isMin=*/false);
    end = unless(kept.conditions, end, begin);
    collectCuts();
    if (!hasFull)
      return {{begin, end, false}};
    OpFoldResult fullBegin = begin;
    if (!prefixes.empty())
      fullBegin = clamp(clamp(reduce(prefixes, /*isMin=*/false), begin, /*isMin=*/false), end, /*isMin=*/true);
    OpFoldResult fullEnd = clamp(reduce(suffixes, /*isMin=*/true), end, /*isMin=*/true);
    fullEnd = unless(fullIf, clamp(fullEnd, fullBegin, /*isMin=*/false), fullBegin);
    return {{begin, fullBegin, false}, {fullBegin, fullEnd, true}, {fullEnd, end, false}};
  }

private:
  void collectCuts() {
    // The last tile may stick out of the loop: then it is not whole.
    suffixes.push_back(getEnd(/*isCeil=*/false));
    for (const TileInterval &cut : getBounds().cut) {
      prefixes.append(cut.end);
      suffixes.append(cut.begin);
      for (AffineExpr condition : cut.conditions)
        fullIf.push_back(-condition - 1);
      hasFull &= !(cut.begin.empty() && cut.end.empty() && cut.conditions.empty());
    }
  }

  SmallVector<AffineExpr> prefixes, suffixes, fullIf;
  bool hasFull = true;
};

//===--------------------------------------------------------------------------------------------------------------===//
// Several intervals
//===--------------------------------------------------------------------------------------------------------------===//

/// Bounds in tiles, of which all apply.
struct Alternative {
  SmallVector<MaskExpr, 2> bounds;
  SmallVector<MaskExpr, 1> facts;
};
/// Bounds of which one applies. Without one nothing is known.
using Alternatives = std::vector<Alternative>;

/// A tile boundary as a value, and what it is at least and at most.
struct Point {
  OpFoldResult value;
  Alternatives least, most;
};

/// What is compared at compile time is not compared at run time, and segments that are empty for every tile are not
/// made.
class SeveralIntervals : BoundsEmitter {
public:
  SeveralIntervals(OnlineAttentionOp op, scf::ForOp loop, OpFoldResult numQueries, const LoopBounds &bounds,
                   MaskSpace &space)
      : BoundsEmitter(op, loop, numQueries, bounds), prover(space, bounds.facts) {
    MaskExpr length = bounds.end - bounds.begin;
    loopBegin = makePoint(symbol(LoopBounds::Begin), MaskExpr(0));
    loopEnd = makePoint(getEnd(/*isCeil=*/true), space.ceilDiv(length, bounds.tileSize));
    wholeEnd = makePoint(getEnd(/*isCeil=*/false), space.floorDiv(length, bounds.tileSize));
  }

  SmallVector<KeySegment> emit() {
    collectKept();
    collectCuts();
    for (size_t n = 0; n < kept.begins.size(); ++n)
      emitSegments(kept.begins[n], kept.ends[n]);
    return std::move(segments);
  }

private:
  /// Intervals [begins[n], ends[n]).
  struct Intervals {
    SmallVector<Point, 0> begins, ends;
  };

  //===------------------------------------------------------------------------------------------------------------===//
  // Points
  //===------------------------------------------------------------------------------------------------------------===//

  static Alternatives both(const Alternatives &a, const Alternatives &b) {
    constexpr size_t kMaxAlternatives = 8;
    if (a.size() * b.size() > kMaxAlternatives)
      return a.size() < b.size() ? a : b;
    Alternatives result;
    for (const Alternative &x : a)
      for (const Alternative &y : b) {
        result.push_back(x);
        result.back().bounds.append(y.bounds);
        result.back().facts.append(y.facts);
      }
    return result;
  }

  static Alternatives either(const Alternatives &a, const Alternatives &b) {
    Alternatives result = a;
    result.insert(result.end(), b.begin(), b.end());
    return result;
  }

  static Alternatives assume(Alternatives alternatives, const MaskExpr &fact) {
    for (Alternative &alternative : alternatives)
      alternative.facts.push_back(fact);
    return alternatives;
  }

  Point makePoint(AffineExpr expr, const MaskExpr &tiles) {
    Alternatives exactly{{{tiles}, {}}};
    return {reduce(expr, /*isMin=*/true), exactly, exactly};
  }

  /// Whether `a <= b`, always.
  bool isOrdered(const Point &a, const Point &b) const {
    if (isSame(a.value, b.value))
      return true;
    auto valueA = getConstantIntValue(a.value), valueB = getConstantIntValue(b.value);
    if (valueA && valueB)
      return *valueA <= *valueB;
    SmallVector<MaskExpr> rows;
    for (const Alternative &low : b.least)
      for (const Alternative &high : a.most) {
        rows.assign(low.facts);
        rows.append(high.facts);
        for (const MaskExpr &x : low.bounds)
          for (const MaskExpr &y : high.bounds)
            rows.push_back(y - x - 1);
        if (!prover.isEmpty(rows))
          return false;
      }
    return true;
  }

  Point least(const Point &a, const Point &b) {
    if (isOrdered(a, b))
      return a;
    if (isOrdered(b, a))
      return b;
    return {clamp(a.value, b.value, /*isMin=*/true), either(a.least, b.least), both(a.most, b.most)};
  }

  Point most(const Point &a, const Point &b) {
    if (isOrdered(a, b))
      return b;
    if (isOrdered(b, a))
      return a;
    return {clamp(a.value, b.value, /*isMin=*/false), both(a.least, b.least), either(a.most, b.most)};
  }

  /// `point` if the conditions of the interval hold, else `otherwise`; `value` is that already, as far as rooms go.
  Point choose(const TileInterval &interval, Point point, const Point &otherwise, OpFoldResult value) {
    if (interval.conditionExprs.empty())
      return point;
    for (const MaskExpr &condition : interval.conditionExprs) {
      point.least = assume(std::move(point.least), condition);
      point.most = assume(std::move(point.most), condition);
    }
    Point result = point;
    result.value = unless(interval.conditions, value, otherwise.value);
    for (const MaskExpr &condition : interval.conditionExprs) {
      result.least = either(result.least, assume(otherwise.least, condition * -1 - 1));
      result.most = either(result.most, assume(otherwise.most, condition * -1 - 1));
    }
    return result;
  }

  Point getBegin(const TileInterval &interval) {
    Point point = loopBegin;
    for (auto [expr, tiles] : llvm::zip(interval.begin, interval.beginTiles))
      point = most(point, makePoint(expr, tiles));
    return point;
  }

  /// Never before `begin`.
  Point getEnd(const TileInterval &interval, const Point &begin) {
    Point point = loopEnd;
    for (auto [expr, tiles] : llvm::zip(interval.end, interval.endTiles))
      point = least(point, makePoint(expr, tiles));
    point = most(point, begin);
    OpFoldResult clamped = clampRooms(interval, begin.value, point.value);
    return choose(interval, point, begin, clamp(clamped, begin.value, /*isMin=*/false));
  }
  using BoundsEmitter::getEnd;

  //===------------------------------------------------------------------------------------------------------------===//
  // Intervals
  //===------------------------------------------------------------------------------------------------------------===//

  void sort(MutableArrayRef<Point> points) {
    for (size_t n = 1; n < points.size(); ++n)
      for (size_t m = n; m-- > 0;) {
        if (isOrdered(points[m], points[m + 1]))
          continue;
        Point low = least(points[m], points[m + 1]), high = most(points[m], points[m + 1]);
        points[m] = low;
        points[m + 1] = high;
      }
  }

  /// Orders the intervals: at any position, as many begins as ends have been passed as before, so their union is the
  /// same. Beyond a few, one interval takes their place that covers them all.
  void order(Intervals &intervals) {
    if (intervals.begins.size() > LoopBounds::kMaxIntervals) {
      for (size_t n = 1; n < intervals.begins.size(); ++n) {
        intervals.begins[0] = least(intervals.begins[0], intervals.begins[n]);
        intervals.ends[0] = most(intervals.ends[0], intervals.ends[n]);
      }
      // Where an empty one is does not matter otherwise: it may be behind the loop.
      intervals.begins[0] = least(intervals.begins[0], loopEnd);
      intervals.ends[0] = least(intervals.ends[0], loopEnd);
      intervals.begins.truncate(1);
      intervals.ends.truncate(1);
    }
    sort(intervals.begins);
    sort(intervals.ends);
  }

  void collectKept() {
    SmallVector<ArrayRef<AffineExpr>> known;
    for (const TileInterval &interval : getBounds().kept) {
      Point begin = getBegin(interval), end = getEnd(interval, begin);
      auto *same = llvm::find(known, ArrayRef(interval.begin));
      if (same != known.end()) { // the same begin: only the later end counts
        Point &other = kept.ends[same - known.begin()];
        other = most(other, end);
        continue;
      }
      known.push_back(interval.begin);
      kept.begins.push_back(begin);
      kept.ends.push_back(end);
    }
    order(kept);
    // Where two overlap, the later one has the tiles.
    for (size_t n = 0; n + 1 < kept.begins.size(); ++n)
      kept.ends[n] = least(kept.ends[n], kept.begins[n + 1]);
  }

  void collectCuts() {
    prefixEnd = loopBegin;
    suffixBegin = wholeEnd;
    for (const TileInterval &cut : getBounds().cut) {
      Point begin = getBegin(cut), end = getEnd(cut, begin);
      if (cut.isPrefix() && (!cut.isSuffix() || cut.conditions.empty())) {
        prefixEnd = most(prefixEnd, end);
      } else if (cut.isSuffix()) {
        suffixBegin = least(suffixBegin, choose(cut, begin, loopEnd, begin.value));
      } else {
        inner.begins.push_back(begin);
        inner.ends.push_back(end);
      }
    }
    order(inner);
  }

  //===------------------------------------------------------------------------------------------------------------===//
  // Segments
  //===------------------------------------------------------------------------------------------------------------===//

  /// The segments of a kept interval: cut, full and cut in turns.
  void emitSegments(const Point &begin, Point end) {
    if (isOrdered(end, begin))
      return;
    Point cursor = least(most(prefixEnd, begin), end);
    Point fullEnd = most(least(suffixBegin, end), cursor);
    addSegment(begin, cursor, false);
    for (auto [innerBegin, innerEnd] : llvm::zip(inner.begins, inner.ends)) {
      Point cutBegin = least(most(innerBegin, cursor), fullEnd);
      addSegment(cursor, cutBegin, true);
      Point cutEnd = least(most(innerEnd, cutBegin), fullEnd);
      addSegment(cutBegin, cutEnd, false);
      cursor = cutEnd;
    }
    addSegment(cursor, fullEnd, true);
    addSegment(fullEnd, end, false);
  }

  /// Adds [begin, end), which is never negative; if it is empty `end` becomes `begin`, so that neighbours are seen.
  void addSegment(const Point &begin, Point &end, bool isFull) {
    if (isOrdered(end, begin)) {
      end = begin;
      return;
    }
    if (!segments.empty() && segments.back().isFull == isFull && isSame(segments.back().end, begin.value))
      segments.back().end = end.value;
    else
      segments.push_back({begin.value, end.value, isFull});
  }

  MaskProver prover;
  Point loopBegin, loopEnd, wholeEnd;
  Intervals kept, inner;
  Point prefixEnd, suffixBegin; // everything before is cut, everything from there on is cut
  SmallVector<KeySegment> segments;
};
} // namespace

SmallVector<KeySegment> mlir::flash::emitKeySegments(OnlineAttentionOp op, scf::ForOp loop, OpFoldResult numQueries,
                                                     const LoopBounds &bounds, MaskSpace &space) {
  if (SingleInterval::matches(bounds))
    return SingleInterval(op, loop, numQueries, bounds).emit();
  return SeveralIntervals(op, loop, numQueries, bounds, space).emit();
}
