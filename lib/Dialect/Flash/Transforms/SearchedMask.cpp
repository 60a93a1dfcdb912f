//===- SearchedMask.cpp - bounds on the key from a mask over sorted data ------------------------------------------===//

#include "flashc/Dialect/Flash/Transforms/SearchedMask.h"
#include "DividedKeys.h"
#include "EmitLinear.h"
#include "flashc/Analysis/RowFunctions.h"
#include "flashc/Dialect/Flash/IR/SortedData.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"

using namespace mlir;
using namespace mlir::flash;

using Predicate = arith::CmpIPredicate;

//===--------------------------------------------------------------------------------------------------------------===//
// Elements at positions that depend on the key
//===--------------------------------------------------------------------------------------------------------------===//

namespace {
/// The comparison `element <predicate> limit`. The position of the element depends on the key; `limit` does not depend
/// on the key.
struct KeyComparison {
  SortedElement element;
  Value limit;
  Predicate predicate;
};
} // namespace

static std::optional<KeyComparison> matchKeyComparison(arith::CmpIOp op, Region &mask) {
  RowFunctions rows(mask);
  auto match = [&](Value side, Value limit, Predicate predicate) -> std::optional<KeyComparison> {
    std::optional<SortedElement> element = matchSortedElement(side);
    if (!element || !dependsOn(element->position, mask.getArguments().back(), mask))
      return std::nullopt;
    auto isConstant = [&](Value index) { return rows.get(index) == Trend::Constant; };
    if (!llvm::all_of(element->indices, isConstant) || rows.get(limit) == Trend::Unknown)
      return std::nullopt;
    return KeyComparison{*element, limit, predicate};
  };
  if (auto comparison = match(op.getLhs(), op.getRhs(), op.getPredicate()))
    return comparison;
  return match(op.getRhs(), op.getLhs(), swapSides(op.getPredicate()));
}

/// Emits the comparison as bounds on the element's position or, where possible, on the key. Null if the comparison is
/// unsigned. Adds to `searches` the searches that the bounds on the element's position use.
static Value emitSearch(ImplicitLocOpBuilder &b, const KeyComparison &comparison, Region &mask,
                        SmallVectorImpl<CountLeOp> &searches) {
  // The search counts the elements that are at most the limit. If `isStrict`, it counts those that are less than the
  // limit.
  auto compare = [&](Predicate predicate, bool isStrict) -> Value {
    auto count = CountLeOp::create(b, b.getIndexType(), comparison.limit, comparison.element.array,
                                   comparison.element.indices, isStrict);
    auto bound = arith::CmpIOp::create(b, predicate, comparison.element.position, count);
    if (Value onKey = boundKeyByCount(b, bound, mask))
      return onKey;
    searches.push_back(count);
    return bound;
  };
  return emitSigned(
      b, b.getLoc(), comparison.predicate, [&](bool isStrict) { return compare(Predicate::slt, isStrict); },
      [&](bool isStrict) { return compare(Predicate::sge, !isStrict); });
}

SmallVector<CountLeOp> mlir::flash::searchKeys(Region &mask) {
  SmallVector<CountLeOp> searches;
  SmallVector<arith::CmpIOp> compares(mask.getOps<arith::CmpIOp>());
  for (arith::CmpIOp op : compares) {
    ImplicitLocOpBuilder b(op.getLoc(), op);
    Value keep = boundKeyByCount(b, op, mask);
    if (std::optional<KeyComparison> comparison = keep ? std::nullopt : matchKeyComparison(op, mask))
      keep = emitSearch(b, *comparison, mask, searches);
    if (keep)
      op.replaceAllUsesWith(keep);
  }
  return searches;
}

//===--------------------------------------------------------------------------------------------------------------===//
// Bounds inside a segment
//===--------------------------------------------------------------------------------------------------------------===//

namespace {
/// A conjunct `j >= limit` (a lower bound) or `j <= limit` (an upper bound). A lower bound has an `element` if `limit`
/// is an element of a sorted array, and an upper bound if `limit + 1` is one.
struct KeyBound {
  bool isLower;
  LinearExpr limit;
  std::optional<SortedElement> element;
};

/// The conjuncts of one condition.
class Conjunction {
public:
  Conjunction(arith::AndIOp root, Region &mask) : root(root), mask(mask) { collect(root); }

  /// If two of the bounds are those of a segment, clamps other bounds to this segment. A bound is clamped if it is not
  /// known to ascend or descend with the query, but ascends with the query once it is clamped.
  void clamp() {
    for (const std::optional<KeyBound> &low : bounds)
      for (const std::optional<KeyBound> &high : bounds)
        if (low && high && low->isLower && !high->isLower && isSegment(*low, *high))
          return clampTo(*low, *high);
  }

private:
  void collect(Value condition) {
    if (auto both = condition.getDefiningOp<arith::AndIOp>()) {
      collect(both.getLhs());
      collect(both.getRhs());
      return;
    }
    conjuncts.push_back(condition);
    auto compare = condition.getDefiningOp<arith::CmpIOp>();
    bounds.push_back(compare ? getBound(compare) : std::nullopt);
  }

  std::optional<KeyBound> getBound(arith::CmpIOp op) {
    Value lhs = op.getLhs(), rhs = op.getRhs();
    if (op.getPredicate() == Predicate::sle || op.getPredicate() == Predicate::slt)
      std::swap(lhs, rhs);
    else if (op.getPredicate() != Predicate::sge && op.getPredicate() != Predicate::sgt)
      return std::nullopt;
    bool isStrict = op.getPredicate() == Predicate::slt || op.getPredicate() == Predicate::sgt;
    Value key = mask.getArguments().back();
    LinearExpr natural = LinearExpr::get(lhs) - LinearExpr::get(rhs) - LinearExpr(isStrict);
    int64_t factor = natural.getCoefficient(key);
    if (std::abs(factor) != 1)
      return std::nullopt;
    KeyBound bound{factor > 0, natural.without(key) * -factor, std::nullopt};
    LinearExpr edge = bound.limit + LinearExpr(!bound.isLower);
    if (Value limit = edge.getShifted(); limit && edge.getConstant() == 0)
      bound.element = matchSortedElement(limit);
    return bound;
  }

  static bool isSegment(const KeyBound &low, const KeyBound &high) {
    return low.element && high.element && low.element->isInLineOf(*high.element) &&
           (LinearExpr::get(high.element->position) - LinearExpr::get(low.element->position)).isConstant(1);
  }

  Trend getTrend(const LinearExpr &expr) {
    RowFunctions rows(mask);
    bool isUp = false, isDown = false;
    for (const LinearExpr::Term &term : expr.getTerms()) {
      Trend trend = rows.get(term.value);
      if (trend == Trend::Unknown)
        return trend;
      if (trend != Trend::Constant)
        ((trend == Trend::Ascending) == (term.coefficient > 0) ? isUp : isDown) = true;
    }
    return isUp && isDown ? Trend::Unknown : isDown ? Trend::Descending : isUp ? Trend::Ascending : Trend::Constant;
  }

  void clampTo(const KeyBound &low, const KeyBound &high) {
    ImplicitLocOpBuilder b(root.getLoc(), root);
    Value key = mask.getArguments().back();
    bool isChanged = false;
    for (auto [conjunct, bound] : llvm::zip(conjuncts, bounds)) {
      if (!bound || getTrend(bound->limit) != Trend::Unknown)
        continue;
      // The limit of a lower bound is clamped to [begin, end] of the segment, and that of an upper bound to [begin - 1,
      // end - 1]. At one end of this range the bound keeps no key of the segment.
      LinearExpr shift(bound->isLower ? 0 : -1);
      Value limit = emitLinear(b, bound->limit), least = emitLinear(b, low.limit + shift);
      Value most = emitLinear(b, high.limit + LinearExpr(1) + shift);
      Value clamped = arith::MaxSIOp::create(b, limit, least);
      clamped = arith::MinSIOp::create(b, clamped, most);
      if (RowFunctions(mask).get(clamped) != Trend::Ascending)
        continue;
      conjunct = arith::CmpIOp::create(b, bound->isLower ? Predicate::sge : Predicate::sle, key, clamped);
      isChanged = true;
    }
    if (!isChanged)
      return;
    Value all = conjuncts.front();
    for (Value conjunct : ArrayRef(conjuncts).drop_front())
      all = arith::AndIOp::create(b, all, conjunct);
    root.replaceAllUsesWith(all);
  }

  arith::AndIOp root;
  Region &mask;
  SmallVector<Value> conjuncts;
  SmallVector<std::optional<KeyBound>> bounds;
};
} // namespace

static void clampToSegments(Region &mask) {
  auto isPart = [](Operation *user) { return isa<arith::AndIOp>(user); };
  SmallVector<arith::AndIOp> roots;
  for (auto op : mask.getOps<arith::AndIOp>())
    if (op.getType().isInteger(1) && !llvm::all_of(op->getUsers(), isPart))
      roots.push_back(op);
  for (arith::AndIOp root : roots)
    Conjunction(root, mask).clamp();
}

//===--------------------------------------------------------------------------------------------------------------===//
// The region
//===--------------------------------------------------------------------------------------------------------------===//

static bool readsSortedArray(Region &mask) {
  return mask
      .walk([](Operation *op) {
        std::optional<ElementRead> read = getElementRead(op);
        return read && read->array.getDefiningOp<AssumeSortedOp>() ? WalkResult::interrupt() : WalkResult::advance();
      })
      .wasInterrupted();
}

/// Exchanges i and j in the code of a mask.
static void exchangePositions(Region &mask) {
  BlockArgument query = mask.getArgument(2), key = mask.getArgument(3);
  SmallVector<OpOperand *> ofQuery(llvm::make_pointer_range(query.getUses()));
  key.replaceAllUsesWith(query);
  for (OpOperand *use : ofQuery)
    use->set(key);
}

SearchedMask::SearchedMask(Region &mask)
    : mask(mask), isSearched(readsSortedArray(mask)), isDivided(dividesByCaptured(mask)) {
  if (!isSearched && !isDivided)
    return;
  copyMask();
  search();
}

SearchedMask::SearchedMask(StepOpInterface op, MaskView view)
    : mask(op.getMask()), view(view), isSearched(readsSortedArray(mask)), isDivided(dividesByCaptured(mask)) {
  if (!isSearched && !isDivided && view == MaskView::Primal)
    return;
  copyMask();
  if (view == MaskView::Dual)
    exchangePositions(mask);
  if (view == MaskView::Primal) // all queries of the tile are in one segment, which the flash.segment_tile has found
    forEachSegmentCount(op, mask, [&](CountLeOp count) {
      count.replaceAllUsesWith(op.getPositionIn(StepDim::I).getDefiningOp<SegmentTileOp>().getSegment());
    });
  search();
}

void SearchedMask::copyMask() {
  original.takeBody(mask);
  IRMapping mapping;
  original.cloneInto(&mask, mapping);
}

void SearchedMask::search() {
  if (isDivided)
    boundDividedKeys(mask);
  if (!isSearched)
    return;
  searchKeys(mask);
  clampToSegments(mask);
}

void SearchedMask::keepSearches() {
  if (original.empty() || !isSearched)
    return restore();
  if (view == MaskView::Dual)
    exchangePositions(mask);
  original.dropAllReferences();
  original.getBlocks().clear();
}

void SearchedMask::restore() {
  if (!original.empty())
    mask.takeBody(original);
}
