//===- RowFunctions.cpp - what a mask computes for a query --------------------------------------------------------===//

#include "flashc/Analysis/RowFunctions.h"
#include "flashc/Dialect/Flash/IR/SortedData.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/Dialect/Utils/StaticValueUtils.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace mlir::flash;

//===--------------------------------------------------------------------------------------------------------------===//
// Elements of sorted arrays
//===--------------------------------------------------------------------------------------------------------------===//

static Value getUndeclared(Value array) { return array.getDefiningOp<AssumeSortedOp>().getSource(); }

static bool isSameLine(Value a, ValueRange aIndices, Value b, ValueRange bIndices) {
  return getUndeclared(a) == getUndeclared(b) && llvm::equal(aIndices, bIndices);
}

bool SortedElement::isInLineOf(const SortedElement &other) const {
  return isSameLine(array, indices, other.array, other.indices);
}

std::optional<SortedElement> mlir::flash::matchSortedElement(Value value) {
  while (Operation *op = value.getDefiningOp()) {
    if (!isa<arith::ExtSIOp, arith::IndexCastOp>(op))
      break;
    auto isNarrowing = [](Type from, Type to) {
      auto getWidth = [](Type type) { return type.isIndex() ? 32 : type.getIntOrFloatBitWidth(); };
      return getWidth(to) < std::min(getWidth(from), 32u);
    };
    if (isNarrowing(op->getOperand(0).getType(), value.getType()))
      return std::nullopt;
    value = op->getOperand(0);
  }
  if (auto nth = value.getDefiningOp<NthOp>())
    return SortedElement{nth.getSorted(), SmallVector<Value, 2>(nth.getIndices()), nth.getPosition()};
  Operation *op = value.getDefiningOp();
  std::optional<ElementRead> read = op ? getElementRead(op) : std::nullopt;
  if (!read || isa<CountLeOp>(op) || !read->array.getDefiningOp<AssumeSortedOp>())
    return std::nullopt;
  SmallVector<Value, 2> indices(read->indices.getAsOperandRange());
  Value position = stripTileClamp(indices.pop_back_val());
  return SortedElement{read->array, indices, position};
}

//===--------------------------------------------------------------------------------------------------------------===//
// Trends
//===--------------------------------------------------------------------------------------------------------------===//

static Trend flip(Trend trend) {
  return trend == Trend::Ascending ? Trend::Descending : trend == Trend::Descending ? Trend::Ascending : trend;
}

/// Returns the trend of a sum, a minimum or a maximum of values with the trends `a` and `b`.
static Trend join(Trend a, Trend b) {
  if (a == Trend::Constant || a == b)
    return b;
  return b == Trend::Constant ? a : Trend::Unknown;
}

Trend RowFunctions::get(Value value) {
  if (value == pinned)
    return Trend::Constant;
  if (value == query)
    return Trend::Ascending;
  if (value == key)
    return Trend::Unknown;
  Operation *op = value.getDefiningOp();
  if (!op || !region.isAncestor(op->getParentRegion()))
    return Trend::Constant;
  if (auto found = known.find(value); found != known.end())
    return found->second;
  Trend trend = compute(value);
  known[value] = trend;
  return trend;
}

Trend RowFunctions::computeElement(Value array, ValueRange indices, Value position) {
  if (!llvm::all_of(indices, [&](Value index) { return get(index) == Trend::Constant; }))
    return Trend::Unknown;
  if (array.getDefiningOp<AssumeSortedOp>())
    return get(position);
  auto table = array.getDefiningOp<RowTableOp>();
  Trend ofRows = table ? RowFunctions(table.getBody()).get(table.getValue()) : Trend::Unknown;
  if (ofRows == Trend::Ascending || ofRows == Trend::Descending)
    return ofRows == Trend::Ascending ? get(position) : flip(get(position));
  return ofRows;
}

/// Looks through index casts.
static Value stripCasts(Value value) {
  while (auto cast = value.getDefiningOp<arith::IndexCastOp>())
    value = cast.getIn();
  return value;
}

/// Returns the quotient if `value` is `(x floordiv d) * d`, else null.
static arith::FloorDivSIOp matchMultiple(Value value) {
  auto product = value.getDefiningOp<arith::MulIOp>();
  if (!product)
    return {};
  auto quotient = stripCasts(product.getLhs()).getDefiningOp<arith::FloorDivSIOp>();
  bool isMultiple = quotient && stripCasts(quotient.getRhs()) == stripCasts(product.getRhs());
  return isMultiple ? quotient : arith::FloorDivSIOp();
}

/// Returns the trend of `value`, the result of an op in the region.
Trend RowFunctions::compute(Value value) {
  Operation *op = value.getDefiningOp();
  bool onlyReads = isMemoryEffectFree(op) || hasSingleEffect<MemoryEffects::Read>(op);
  if (!onlyReads || op->getNumRegions() > 0)
    return Trend::Unknown;
  if (llvm::all_of(op->getOperands(), [&](Value operand) { return get(operand) == Trend::Constant; }))
    return Trend::Constant;
  bool isNarrow = isa<IntegerType>(value.getType()) && value.getType().getIntOrFloatBitWidth() < 32;
  auto getConstant = [&](unsigned operand) { return getConstantIntValue(op->getOperand(operand)); };
  auto byPositive = [&]() { return getConstant(1).value_or(0) > 0 ? get(op->getOperand(0)) : Trend::Unknown; };
  return TypeSwitch<Operation *, Trend>(op)
      .Case<tensor::ExtractOp, memref::LoadOp>([&](auto read) {
        return computeElement(op->getOperand(0), read.getIndices().drop_back(), read.getIndices().back());
      })
      .Case([&](NthOp nth) { return computeElement(nth.getSorted(), nth.getIndices(), nth.getPosition()); })
      .Case([&](CountLeOp count) { return computeElement(count.getSorted(), count.getIndices(), count.getValue()); })
      .Case([&](arith::ExtSIOp extend) { return get(extend.getIn()); })
      .Case([&](arith::IndexCastOp cast) { return isNarrow ? Trend::Unknown : get(cast.getIn()); })
      .Case<arith::MinSIOp, arith::MaxSIOp>([&](auto) {
        Trend trend = join(get(op->getOperand(0)), get(op->getOperand(1)));
        return trend == Trend::Unknown && isSegmentClamp(op) ? Trend::Ascending : trend;
      })
      .Case<arith::FloorDivSIOp, arith::CeilDivSIOp, arith::DivSIOp>([&](auto) { return byPositive(); })
      .Case([&](arith::ShRSIOp) { return getConstant(1).value_or(-1) >= 0 ? get(op->getOperand(0)) : Trend::Unknown; })
      .Case<arith::AddIOp, arith::SubIOp>([&](auto) {
        Trend second = get(op->getOperand(1));
        second = isa<arith::SubIOp>(op) ? flip(second) : second;
        return isNarrow ? Trend::Unknown : join(get(op->getOperand(0)), second);
      })
      .Case([&](arith::SelectOp select) {
        bool isOneOfThem = get(select.getCondition()) == Trend::Constant;
        return isOneOfThem ? join(get(select.getTrueValue()), get(select.getFalseValue())) : Trend::Unknown;
      })
      .Case([&](arith::MulIOp) {
        // `(x floordiv d) * d` has the trend of x. This holds for a negative d, too: the quotient then has the opposite
        // trend, and the product with d turns it around again.
        if (arith::FloorDivSIOp quotient = isNarrow ? arith::FloorDivSIOp() : matchMultiple(value))
          if (get(quotient.getRhs()) == Trend::Constant)
            return get(quotient.getLhs());
        std::optional<int64_t> factor = getConstant(1);
        if (isNarrow || !factor)
          return Trend::Unknown;
        return *factor < 0 ? flip(get(op->getOperand(0))) : get(op->getOperand(0));
      })
      .Default(Trend::Unknown);
}

/// Matches an element of a sorted array plus a constant. Returns both.
static std::optional<std::pair<SortedElement, int64_t>> matchShiftedElement(Value value) {
  LinearExpr expr = LinearExpr::get(value);
  Value shifted = expr.getShifted();
  std::optional<SortedElement> element = shifted ? matchSortedElement(shifted) : std::nullopt;
  return element ? std::optional(std::make_pair(*element, expr.getConstant())) : std::nullopt;
}

/// Matches `min(max(x, s[p - 1] + c), s[p] + c)` for a sorted array s, a constant c and an ascending p. Let p differ
/// between two queries: then the upper limit of the first query is at most the lower limit of the second one, so the
/// value does not descend between them. Therefore x has to ascend only between queries with the same p.
bool RowFunctions::isSegmentClamp(Operation *op) {
  auto max = isa<arith::MinSIOp>(op) ? op->getOperand(0).getDefiningOp<arith::MaxSIOp>() : arith::MaxSIOp();
  auto low = max ? matchShiftedElement(max.getRhs()) : std::nullopt;
  auto high = max ? matchShiftedElement(op->getOperand(1)) : std::nullopt;
  if (!low || !high || low->second != high->second || !low->first.isInLineOf(high->first))
    return false;
  LinearExpr position = LinearExpr::get(high->first.position);
  bool isNext = (position - LinearExpr::get(low->first.position)).isConstant(1);
  Value segment = position.getShifted();
  if (!isNext || !segment || pinned ||
      computeElement(high->first.array, high->first.indices, segment) != Trend::Ascending)
    return false;
  Trend inside = RowFunctions(region, segment).get(max.getLhs());
  return inside == Trend::Constant || inside == Trend::Ascending;
}

bool RowFunctions::isSearched(Value value) {
  if (get(value) != Trend::Ascending)
    return false;
  SmallVector<Value> worklist{value};
  llvm::SmallDenseSet<Value> seen;
  while (!worklist.empty()) {
    Value next = worklist.pop_back_val();
    if (next == query || get(next) == Trend::Constant) // for example the length of a batch
      continue;
    Operation *op = next.getDefiningOp();
    auto quotient = dyn_cast<arith::FloorDivSIOp>(op);
    if (getElementRead(op) || (quotient && !getConstantIntValue(quotient.getRhs())))
      return true;
    for (Value operand : op->getOperands())
      if (seen.insert(operand).second)
        worklist.push_back(operand);
  }
  return false;
}

//===--------------------------------------------------------------------------------------------------------------===//
// Comparisons with the query
//===--------------------------------------------------------------------------------------------------------------===//

/// Matches the begin or the end of the block of d positions that contains i. With `m = (i floordiv d) * d`, the block
/// begins at `m` and ends at `m + d` if d > 0; if d < 0, it begins at `m + d + 1` and ends at `m + 1`.
static std::optional<Side> compareBlockWithQuery(arith::SelectOp select, const LinearExpr &query) {
  auto isPositive = select.getCondition().getDefiningOp<arith::CmpIOp>();
  if (!isPositive || isPositive.getPredicate() != arith::CmpIPredicate::sgt ||
      getConstantIntValue(isPositive.getRhs()) != 0)
    return std::nullopt;
  LinearExpr size = LinearExpr::get(isPositive.getLhs()), one(1);
  LinearExpr ifPositive = LinearExpr::get(select.getTrueValue()), ifNegative = LinearExpr::get(select.getFalseValue());
  for (const LinearExpr::Term &term : ifPositive.getTerms()) {
    arith::FloorDivSIOp quotient = matchMultiple(term.value);
    if (!quotient || !(LinearExpr::get(quotient.getRhs()) == size))
      continue;
    LinearExpr begin = LinearExpr::symbol(term.value) - (LinearExpr::get(quotient.getLhs()) - query);
    if (ifPositive == begin && ifNegative == begin + size + one)
      return Side::AtMost;
    if (ifPositive == begin + size && ifNegative == begin + one)
      return Side::Above;
  }
  return std::nullopt;
}

/// If `value` is read from the query's own row of a flash.row_table, returns the table, else null.
static RowTableOp matchOwnRow(Value value, Region &mask) {
  auto row = stripCasts(value).getDefiningOp<tensor::ExtractOp>();
  bool isOwn = row && stripTileClamp(row.getIndices().back()) == mask.getArgument(2);
  return isOwn ? row.getTensor().getDefiningOp<RowTableOp>() : RowTableOp();
}

std::optional<Side> mlir::flash::compareWithQuery(Value value, Region &mask) {
  if (RowTableOp table = matchOwnRow(value, mask))
    return compareWithQuery(stripCasts(table.getValue()), table.getBody());
  LinearExpr query = LinearExpr::symbol(mask.getArgument(2));
  if (auto select = value.getDefiningOp<arith::SelectOp>())
    return compareBlockWithQuery(select, query);
  // In a sorted array s, more than i elements are at most s[i], and at most i elements are less than s[i].
  if (auto count = value.getDefiningOp<CountLeOp>()) {
    auto element = matchShiftedElement(count.getValue());
    bool isOwn = element &&
                 isSameLine(element->first.array, element->first.indices, count.getSorted(), count.getIndices()) &&
                 LinearExpr::get(element->first.position) == query;
    if (!isOwn)
      return std::nullopt;
    return element->second >= count.getStrict() ? Side::Above : Side::AtMost;
  }
  // Let c be the number of elements of a sorted array s that are at most i. Then s[c] is above i, and s[c - 1] is at
  // most i.
  std::optional<SortedElement> element = matchSortedElement(value);
  if (!element)
    return std::nullopt;
  LinearExpr position = LinearExpr::get(element->position);
  Value shifted = position.getShifted();
  auto count = shifted ? shifted.getDefiningOp<CountLeOp>() : CountLeOp();
  bool isOwn = count && !count.getStrict() &&
               isSameLine(element->array, element->indices, count.getSorted(), count.getIndices()) &&
               LinearExpr::get(count.getValue()) == query;
  if (!isOwn)
    return std::nullopt;
  return position.getConstant() >= 0 ? Side::Above : Side::AtMost;
}
