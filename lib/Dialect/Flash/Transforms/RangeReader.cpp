//===- RangeReader.cpp - interval arithmetic on the mask of one tile ----------------------------------------------===//

#include "RangeReader.h"
#include "flashc/Dialect/Flash/IR/SortedData.h"
#include "flashc/Dialect/Flash/IR/TileTables.h"
#include "flashc/Support/CloneSlice.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/Matchers.h"

using namespace mlir;
using namespace mlir::flash;

using Predicate = arith::CmpIPredicate;

/// A flash.tile_range runs operations for all positions of a tile; a kernel repeats them for each position that a lane
/// has. So one mask may have at most `kMostRangeOps` such operations. `kExchangeOps` is the number of operations by
/// which a flash.tile_range exchanges values between lanes.
static constexpr int64_t kMostRangeOps = 400, kExchangeOps = 10;

RangeReader::RangeReader(Region &mask, ImplicitLocOpBuilder &b, Operation *anchor, Value batch, Value head,
                         Tile queries, Tile keys)
    : mask(mask), b(b), anchor(anchor), queries(queries), keys(keys) {
  uniform.map(mask.getArgument(0), batch);
  uniform.map(mask.getArgument(1), head);
  if (static_cast<int64_t>(llvm::range_size(mask.front())) > kMostRangeOps)
    numRangeOps = kMostRangeOps; // a long mask has no flash.tile_range
}

//===--------------------------------------------------------------------------------------------------------------===//
// Values that are the same for all pairs
//===--------------------------------------------------------------------------------------------------------------===//

/// Whether `leaf` is captured from outside of `anchor`, or is the batch or the head.
static bool isUniformLeaf(Value leaf, Region &mask, Operation *anchor) {
  if (mask.isAncestor(leaf.getParentRegion())) // an argument
    return leaf != mask.getArgument(2) && leaf != mask.getArgument(3);
  return !anchor->isAncestor(leaf.getParentRegion()->getParentOp());
}

bool RangeReader::isUniform(Value value) {
  return isComputedFrom(value, mask, [&](Value leaf) { return isUniformLeaf(leaf, mask, anchor); }, knownUniform);
}

Value RangeReader::copyUniform(Value value) {
  return flashc::cloneSlice(
      b, value, uniform, [&](Value outside) { return mask.isAncestor(outside.getParentRegion()) ? Value() : outside; });
}

std::optional<Interval64> RangeReader::getUniform(Value value) {
  Value copy = emitRangedElement(b, copyUniform(value));
  APInt number;
  bool isConstant = matchPattern(value, m_ConstantInt(&number));
  return Interval64{copy, copy, value.getType().isInteger(1) || (isConstant && !number.isNegative())};
}

//===--------------------------------------------------------------------------------------------------------------===//
// Leaves
//===--------------------------------------------------------------------------------------------------------------===//

std::optional<Interval64> RangeReader::getPosition(const Tile &tile) {
  Value first = arith::IndexCastOp::create(b, b.getI64Type(), tile.first);
  return Interval64{first, b.createOrFold<arith::AddIOp>(first, constant(tile.size - 1)), /*isNatural=*/true};
}

/// Whether `value` ascends, or descends, with the position of the query or of the key, and depends on nothing else that
/// differs between the pairs of a tile.
bool RangeReader::isMonotone(Value value) {
  if (value == mask.getArgument(2) || value == mask.getArgument(3))
    return true;
  Operation *op = value.getDefiningOp();
  if (!op || !mask.isAncestor(op->getParentRegion()))
    return false;
  if (isa<arith::IndexCastOp, arith::ExtSIOp, arith::TruncIOp>(op))
    return isMonotone(op->getOperand(0));
  if (op->getNumOperands() != 2)
    return false;
  Value x = op->getOperand(0), y = op->getOperand(1);
  if (isa<arith::AddIOp, arith::SubIOp, arith::MinSIOp, arith::MaxSIOp>(op))
    return (isMonotone(x) && isUniform(y)) || (isUniform(x) && isMonotone(y));
  return isa<arith::MulIOp, arith::DivSIOp, arith::FloorDivSIOp, arith::ShRSIOp>(op) && matchPattern(y, m_Constant()) &&
         isMonotone(x);
}

/// Emits a flash.tile_range, which computes the range of `value` over all positions of the tile. None if `value`
/// depends on both the query and the key, or if too many operations would run for all positions.
std::optional<Interval64> RangeReader::getByRunning(Value value) {
  auto isOf = [&](unsigned position, DenseMap<Value, bool> &known) {
    auto isLeaf = [&](Value leaf) { return leaf == mask.getArgument(position) || isUniformLeaf(leaf, mask, anchor); };
    return isComputedFrom(value, mask, isLeaf, known);
  };
  bool isOfQuery = isOf(2, ofQuery);
  if (!isOfQuery && !isOf(3, ofKey))
    return std::nullopt;
  const Tile &tile = isOfQuery ? queries : keys;
  auto range = TileRangeOp::create(b, uniform.lookup(mask.getArgument(0)), uniform.lookup(mask.getArgument(1)),
                                   tile.first, tile.extent, tile.size);
  OpBuilder::InsertionGuard guard(b);
  Block *body =
      b.createBlock(&range.getBody(), {}, SmallVector<Type>(3, b.getIndexType()), SmallVector<Location>(3, b.getLoc()));
  IRMapping mapping;
  mapping.map(mask.getArguments().take_front(2), body->getArguments().take_front(2));
  mapping.map(mask.getArgument(isOfQuery ? 2 : 3), body->getArgument(2));
  Value copy = flashc::cloneSlice(
      b, value, mapping, [&](Value outside) { return mask.isAncestor(outside.getParentRegion()) ? Value() : outside; });
  numRangeOps += llvm::range_size(*body) + kExchangeOps;
  if (!copy || numRangeOps > kMostRangeOps) {
    range.erase();
    return std::nullopt;
  }
  Interval64 result{range.getLeast(), range.getGreatest(), /*isNatural=*/value.getType().isInteger(1)};
  for (Operation &op : *body)
    if (std::optional<ElementRead> read = getElementRead(&op)) {
      auto sorted = read->array.getDefiningOp<AssumeSortedOp>();
      result.arrays.insert(sorted ? sorted.getSource() : read->array);
    }
  if (result.arrays.empty())
    result.arrays.insert(value); // without a read, too, a sum of products or bits may wrap around
  unsigned width = getWidth(value.getType());
  if (width > 32)
    copy = emitRangedElement(b, copy);
  else if (width > 1 && width < 32)
    copy = arith::ExtSIOp::create(b, b.getI32Type(), copy);
  YieldOp::create(b, copy);
  b.setInsertionPoint(range);
  for (unsigned number : {0, 1}) // an unused batch or head becomes 0
    if (body->getArgument(number).use_empty())
      range.setOperand(number, arith::ConstantIndexOp::create(b, 0));
  return result;
}

/// Returns the range of an element of an array. In a tile where the indices of the read are the same for all pairs, the
/// range is this one element; in other tiles it is all values of the type. None if `op` is not a read, or if the range
/// of an index is not known.
std::optional<Interval64> RangeReader::getElement(Operation *op) {
  std::optional<ElementRead> read = getElementRead(op);
  bool isRead = read && isa<tensor::ExtractOp, memref::LoadOp>(op) && op->getResult(0).getType().isIntOrIndex() &&
                getWidth(op->getResult(0).getType()) <= 64;
  if (!isRead)
    return std::nullopt;
  Value array = read->array;
  if (auto sorted = array.getDefiningOp<AssumeSortedOp>())
    array = sorted.getSource(); // the mask may contain the declaration
  if (mask.isAncestor(array.getParentRegion()) || !isUniform(array))
    return std::nullopt;
  Interval64 result;
  SmallVector<Interval64> places;
  Value isOne;
  for (Value index : read->indices.getAsOperandRange()) {
    Range place = getRange(index);
    if (!place)
      return std::nullopt;
    if (!isUniform(index))
      isOne = both(isOne, compare(Predicate::eq, place->lo, place->hi));
    places.push_back(*place);
    result.arrays = unite(result.arrays, place->arrays);
  }
  if (!isOne)
    isOne = arith::ConstantOp::create(b, b.getBoolAttr(true));
  SmallVector<Value> indices;
  for (const Interval64 &place : places) { // element 0 exists, since the mask reads an element
    Value index = b.createOrFold<arith::SelectOp>(isOne, place.lo, constant(0));
    indices.push_back(arith::IndexCastOp::create(b, b.getIndexType(), index));
  }
  Type type = op->getResult(0).getType();
  Value element = emitRangedElement(b, readElement(b, b.getLoc(), array, indices));
  bool isFlag = type.isInteger(1);
  auto orElse = [&](int64_t value) -> Value {
    return b.createOrFold<arith::SelectOp>(isOne, element, constant(value));
  };
  result.lo = orElse(isFlag ? 0 : llvm::minIntN(getWidth(type)));
  result.hi = orElse(isFlag ? 1 : llvm::maxIntN(getWidth(type)));
  result.isNatural = isFlag;
  result.arrays.insert(array);
  return result;
}

//===--------------------------------------------------------------------------------------------------------------===//
// Conditions
//===--------------------------------------------------------------------------------------------------------------===//

ConditionRange RangeReader::getComparison(arith::CmpIOp op) {
  Range x = getRange(op.getLhs()), y = getRange(op.getRhs());
  if (!x || !y)
    return {};
  ConditionRange result;
  result.arrays = unite(x->arrays, y->arrays);
  Predicate predicate = op.getPredicate();
  if (predicate == Predicate::eq || predicate == Predicate::ne) {
    result.mayHold = both(compare(Predicate::sle, x->lo, y->hi), compare(Predicate::sle, y->lo, x->hi));
    // The sides are known to be equal if x.lo = y.hi and x.hi = y.lo: then each side has only one value.
    result.mayFail = either(compare(Predicate::ne, x->lo, y->hi), compare(Predicate::ne, x->hi, y->lo));
    if (predicate == Predicate::ne)
      std::swap(result.mayHold, result.mayFail);
    return result;
  }
  bool isUnsigned = predicate >= Predicate::ult;
  bool isStrict = llvm::is_contained({Predicate::slt, Predicate::sgt, Predicate::ult, Predicate::ugt}, predicate);
  if (llvm::is_contained({Predicate::sgt, Predicate::sge, Predicate::ugt, Predicate::uge}, predicate))
    std::swap(x, y);
  result.mayHold = compare(isStrict ? Predicate::slt : Predicate::sle, x->lo, y->hi);
  result.mayFail = compare(isStrict ? Predicate::sge : Predicate::sgt, x->hi, y->lo);
  if (isUnsigned && !(x->isNatural && y->isNatural)) {
    Value isNegative = compare(Predicate::slt, min(x->lo, y->lo), constant(0));
    result.mayHold = either(result.mayHold, isNegative);
    result.mayFail = either(result.mayFail, isNegative);
  }
  return result;
}

ConditionRange RangeReader::getEqual(const ConditionRange &x, const ConditionRange &y, bool areEqual) {
  ConditionRange result;
  result.mayHold = either(both(x.mayHold, y.mayHold), both(x.mayFail, y.mayFail));
  result.mayFail = either(both(x.mayHold, y.mayFail), both(x.mayFail, y.mayHold));
  if (!areEqual)
    std::swap(result.mayHold, result.mayFail);
  result.arrays = unite(x.arrays, y.arrays);
  return result;
}

/// Whether the first and the last position of the tile decide a comparison: one side is monotone, and the other side is
/// the same for all pairs.
bool RangeReader::isOfEnds(Operation *op) {
  auto comparison = dyn_cast<arith::CmpIOp>(op);
  if (!comparison || llvm::is_contained({Predicate::eq, Predicate::ne}, comparison.getPredicate()))
    return false;
  Value x = comparison.getLhs(), y = comparison.getRhs();
  return (isMonotone(x) && isUniform(y)) || (isUniform(x) && isMonotone(y));
}

ConditionRange RangeReader::computeCondition(Value condition) {
  if (isUniform(condition)) {
    Value holds = copyUniform(condition);
    Value yes = arith::ConstantOp::create(b, b.getBoolAttr(true));
    return {holds, b.createOrFold<arith::XOrIOp>(holds, yes)};
  }
  Operation *op = condition.getDefiningOp();
  if (!op)
    return {};
  auto toCondition = [&](const Interval64 &flag) -> ConditionRange {
    return {compare(Predicate::ne, flag.hi, constant(0)), compare(Predicate::eq, flag.lo, constant(0)), flag.arrays};
  };
  if (Range flag = isOfEnds(op) ? Range() : getByRunning(condition))
    return toCondition(*flag);
  if (isa<arith::AndIOp, arith::OrIOp, arith::XOrIOp>(op)) {
    ConditionRange x = getCondition(op->getOperand(0)), y = getCondition(op->getOperand(1));
    if (isa<arith::XOrIOp>(op))
      return getEqual(x, y, /*areEqual=*/false);
    if (isa<arith::AndIOp>(op))
      return {both(x.mayHold, y.mayHold), either(x.mayFail, y.mayFail), unite(x.arrays, y.arrays)};
    return {either(x.mayHold, y.mayHold), both(x.mayFail, y.mayFail), unite(x.arrays, y.arrays)};
  }
  if (auto select = dyn_cast<arith::SelectOp>(op)) {
    ConditionRange c = getCondition(select.getCondition());
    ConditionRange x = getCondition(select.getTrueValue()), y = getCondition(select.getFalseValue());
    return {either(both(c.mayHold, x.mayHold), both(c.mayFail, y.mayHold)),
            either(both(c.mayHold, x.mayFail), both(c.mayFail, y.mayFail)), unite(c.arrays, unite(x.arrays, y.arrays))};
  }
  if (auto compare = dyn_cast<arith::CmpIOp>(op)) {
    if (!compare.getLhs().getType().isInteger(1))
      return getComparison(compare);
    bool isEqual = compare.getPredicate() == Predicate::eq;
    if (!isEqual && compare.getPredicate() != Predicate::ne)
      return {};
    return getEqual(getCondition(compare.getLhs()), getCondition(compare.getRhs()), isEqual);
  }
  Range element = getElement(op);
  return element ? toCondition(*element) : ConditionRange();
}

ConditionRange RangeReader::getCondition(Value condition) {
  if (auto found = conditions.find(condition); found != conditions.end())
    return found->second;
  ConditionRange result = computeCondition(condition);
  conditions[condition] = result;
  return result;
}
