//===- KeySegments.cpp - the loops over key tiles that the bounds of a mask give ----------------------------------===//

#include "KeySegments.h"
#include "BoundsEmitter.h"
#include "mlir/Dialect/Utils/StaticValueUtils.h"

using namespace mlir;
using namespace mlir::flash;

namespace {
//===--------------------------------------------------------------------------------------------------------------===//
// One interval with cuts at its ends
//===--------------------------------------------------------------------------------------------------------------===//

/// Emits the segments for a mask with one kept interval that is cut at its ends only. Most masks are of this kind. The
/// segments are a masked, a full and a masked one.
class SingleInterval : BoundsEmitter {
public:
  using BoundsEmitter::BoundsEmitter;

  SmallVector<KeySegment> emit() { return bounds.isMoved ? emitMoved() : emitOnGrid(); }

private:
  SmallVector<KeySegment> emitOnGrid() {
    const TileInterval &kept = bounds.kept.front();
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
    end = unless(getConditions(), end, begin);
    // The last tile is not full if it exceeds the loop's end.
    collectCuts(getEnd(/*isCeil=*/false));
    if (!hasFull)
      return {{begin, end, false}};
    OpFoldResult fullBegin = begin;
    if (!prefixes.empty())
      fullBegin = clamp(clamp(reduce(prefixes, /*isMin=*/false), begin, /*isMin=*/false), end, /*isMin=*/true);
    return makeSegments(begin, fullBegin, reduce(suffixes, /*isMin=*/true), end);
  }

  /// Emits the segments of moved tiles. The first tile begins at the first key that may be kept. So it has no masked
  /// part in front if all queries see that key. The last tile may exceed the interval and the loop. If the interval's
  /// end is before its begin, the interval is empty.
  SmallVector<KeySegment> emitMoved() {
    const TileInterval &kept = bounds.kept.front();
    SmallVector<AffineExpr> beginExprs{symbol(LoopBounds::Begin)}, endExprs{symbol(LoopBounds::End)};
    beginExprs.append(kept.begin);
    endExprs.append(kept.end);
    OpFoldResult behind = reduce(endExprs, /*isMin=*/true);
    OpFoldResult begin = clamp(reduce(beginExprs, /*isMin=*/false), behind, /*isMin=*/true);
    OpFoldResult end = unless(getConditions(), roundFrom(begin, behind, /*isCeil=*/true), begin);
    collectCuts(symbol(LoopBounds::End));
    if (!hasFull)
      return {{begin, end, false}};
    OpFoldResult fullBegin = begin;
    llvm::erase_if(prefixes, [&](AffineExpr expr) { return llvm::is_contained(kept.begin, expr); });
    if (!prefixes.empty()) {
      OpFoldResult first = clamp(reduce(prefixes, /*isMin=*/false), begin, /*isMin=*/false);
      fullBegin = clamp(roundFrom(begin, first, /*isCeil=*/true), end, /*isMin=*/true);
    }
    OpFoldResult cut = reduce(suffixes, /*isMin=*/true);
    return makeSegments(begin, fullBegin, roundFrom(begin, cut, /*isCeil=*/false), end);
  }

  /// Returns a masked segment from `begin` to `fullBegin`, a full one from there to `cut`, and a masked one from there
  /// to `end`. `cut` is clamped to [fullBegin, end]. The full segment is empty if a condition of `fullIf` fails.
  SmallVector<KeySegment> makeSegments(OpFoldResult begin, OpFoldResult fullBegin, OpFoldResult cut, OpFoldResult end) {
    OpFoldResult fullEnd = clamp(clamp(cut, end, /*isMin=*/true), fullBegin, /*isMin=*/false);
    fullEnd = unless(fullIf, fullEnd, fullBegin);
    return {{begin, fullBegin, false}, {fullBegin, fullEnd, true}, {fullEnd, end, false}};
  }

  /// Returns the conditions under which there are tiles to visit.
  SmallVector<AffineExpr> getConditions() const {
    SmallVector<AffineExpr> conditions = bounds.kept.front().conditions;
    if (mayHaveNoQuery())
      conditions.push_back(symbol(LoopBounds::Count) - 1);
    return conditions;
  }

  /// Collects where full tiles may begin (`prefixes`) and end (`suffixes`), and the conditions under which there are
  /// full tiles (`fullIf`). No tile that exceeds `end` is full.
  void collectCuts(AffineExpr end) {
    suffixes.push_back(end);
    for (const TileInterval &cut : bounds.cut) {
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

/// What holds for a tile boundary (Point) in one case: bounds on the boundary, counted in tiles, and conditions
/// (`facts`).
struct Alternative {
  SmallVector<MaskExpr, 2> bounds;
  SmallVector<MaskExpr, 1> facts;
};
/// All cases for a tile boundary. At least one case holds. The list is never empty.
using Alternatives = std::vector<Alternative>;

/// A tile boundary: its value, its lower bounds in each case (`least`), and its upper bounds in each case (`most`).
struct Point {
  OpFoldResult value;
  Alternatives least, most;
};

/// Emits the segments for several intervals, or for cuts inside of an interval. Comparisons that can be decided at
/// compile time are not emitted. Segments that are empty for every tile of queries are not emitted, either.
class SeveralIntervals : BoundsEmitter {
public:
  SeveralIntervals(StepOpInterface op, const KeyRange &range, const LoopBounds &bounds, MaskSpace &space)
      : BoundsEmitter(op, range, bounds), prover(space, bounds.facts) {
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
    if (mayHaveNoQuery()) // the proofs assume that the tile has a query
      for (KeySegment &segment : segments)
        segment.end = unless(symbol(LoopBounds::Count) - 1, segment.end, segment.begin);
    return std::move(segments);
  }

private:
  /// The intervals [begins[n], ends[n]).
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

  /// Whether `a <= b` is proven for every tile of queries.
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

  Point pick(const Point &a, const Point &b, bool isMin) {
    if (isOrdered(a, b))
      return isMin ? a : b;
    if (isOrdered(b, a))
      return isMin ? b : a;
    OpFoldResult value = clamp(a.value, b.value, isMin);
    if (isMin)
      return {value, either(a.least, b.least), both(a.most, b.most)};
    return {value, both(a.least, b.least), either(a.most, b.most)};
  }
  Point least(const Point &a, const Point &b) { return pick(a, b, /*isMin=*/true); }
  Point most(const Point &a, const Point &b) { return pick(a, b, /*isMin=*/false); }

  /// Returns `point` with the value `value` if the conditions of the interval hold, else `otherwise`. `value` is the
  /// value of `point`, limited by the interval's rooms.
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

  /// Returns the end of the interval, or `begin` if the end is before it.
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

  /// Sorts the begins and the ends separately. This changes neither the number of begins nor the number of ends up to
  /// any position, so the union of the intervals stays the same. If there are more than kMaxIntervals intervals, one
  /// interval that covers all of them takes their place.
  void order(Intervals &intervals) {
    if (intervals.begins.size() > LoopBounds::kMaxIntervals) {
      for (size_t n = 1; n < intervals.begins.size(); ++n) {
        intervals.begins[0] = least(intervals.begins[0], intervals.begins[n]);
        intervals.ends[0] = most(intervals.ends[0], intervals.ends[n]);
      }
      // An empty interval may lie after the loop's end. It must not extend the interval that replaces all intervals.
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
    for (const TileInterval &interval : bounds.kept) {
      Point begin = getBegin(interval), end = getEnd(interval, begin);
      auto *same = llvm::find(known, ArrayRef(interval.begin));
      if (same != known.end()) { // of intervals with equal begins, only the greatest end counts
        Point &other = kept.ends[same - known.begin()];
        other = most(other, end);
        continue;
      }
      known.push_back(interval.begin);
      kept.begins.push_back(begin);
      kept.ends.push_back(end);
    }
    order(kept);
    // If two intervals overlap, the first one ends where the next begins.
    for (size_t n = 0; n + 1 < kept.begins.size(); ++n)
      kept.ends[n] = least(kept.ends[n], kept.begins[n + 1]);
  }

  void collectCuts() {
    prefixEnd = loopBegin;
    suffixBegin = wholeEnd;
    for (const TileInterval &cut : bounds.cut) {
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

  /// Adds the segments of a kept interval: masked and full ones in turn.
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

  /// Adds the segment [begin, end), unless it is known to be empty. For an empty segment, sets `end` to `begin`, so
  /// that the next segment begins where the last one ended. Two neighbouring segments become one if both are full or
  /// both are masked.
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
  Point prefixEnd, suffixBegin; // tiles before prefixEnd, and from suffixBegin on, are masked
  SmallVector<KeySegment> segments;
};
} // namespace

bool mlir::flash::isOneInterval(const LoopBounds &bounds) {
  return bounds.kept.size() == 1 && llvm::all_of(bounds.cut, [](const TileInterval &cut) {
           return cut.begin.size() + cut.end.size() + cut.conditions.size() <= 1;
         });
}

SmallVector<KeySegment> mlir::flash::emitKeySegments(StepOpInterface op, const KeyRange &range,
                                                     const LoopBounds &bounds, MaskSpace &space) {
  if (isOneInterval(bounds))
    return SingleInterval(op, range, bounds).emit();
  return SeveralIntervals(op, range, bounds, space).emit();
}
