//===- RangeReader.cpp - a mask of one tile, by intervals ---------------------------------------------------------===//

#include "RangeReader.h"
#include "flashc/Dialect/Flash/IR/SortedData.h"
#include "flashc/Dialect/Flash/IR/TileTables.h"
#include "flashc/Support/CloneSlice.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/Matchers.h"

using namespace mlir;
using namespace mlir::flash;

using Predicate = arith::CmpIPredicate;

RangeReader::RangeReader(Region &mask, ImplicitLocOpBuilder &b, Operation *anchor, Value batch, Value head,
                         Tile queries, Tile keys)
    : mask(mask), b(b), anchor(anchor), queries(queries), keys(keys) {
  uniform.map(mask.getArgument(0), batch);
  uniform.map(mask.getArgument(1), head);
}

//===--------------------------------------------------------------------------------------------------------------===//
// What is the same for all pairs
//===--------------------------------------------------------------------------------------------------------------===//

bool RangeReader::isUniform(Value value) {
  auto isLeaf = [&](Value leaf) {
    if (mask.isAncestor(leaf.getParentRegion())) // an argument
      return leaf != mask.getArgument(2) && leaf != mask.getArgument(3);
    return !anchor->isAncestor(leaf.getParentRegion()->getParentOp());
  };
  return isComputedFrom(value, mask, isLeaf, knownUniform);
}

Value RangeReader::copyUniform(Value value) {
  return flashc::cloneSlice(b, value, uniform, [&](Value outside) {
    return mask.isAncestor(outside.getParentRegion()) ? Value() : outside;
  });
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

Value RangeReader::getTable(Value array, int64_t dim, int64_t tile) {
  Value &table = known[{array, {dim, tile}}];
  if (table)
    return table;
  auto type = cast<ShapedType>(array.getType());
  SmallVector<int64_t> shape(type.getShape());
  if (!type.isDynamicDim(dim))
    shape[dim] = llvm::divideCeil(shape[dim], tile);
  shape.push_back(2);
  OpBuilder tables(b.getInsertionBlock()->getParentOp());
  table = TileMinMaxOp::create(tables, b.getLoc(), RankedTensorType::get(shape, b.getI64Type()), array, dim, tile);
  return table;
}

/// An element at the position of the query or the key, and at indices that do not depend on either.
std::optional<Interval64> RangeReader::getElement(Operation *op) {
  std::optional<ElementRead> read = getElementRead(op);
  bool isRead = read && isa<tensor::ExtractOp, memref::LoadOp>(op) && op->getResult(0).getType().isIntOrIndex() &&
                getWidth(op->getResult(0).getType()) <= 64;
  if (!isRead)
    return std::nullopt;
  Value array = read->array;
  if (auto sorted = array.getDefiningOp<AssumeSortedOp>())
    array = sorted.getSource(); // a declaration may stand in the mask, where tables do not
  // Rows of a table are bounds of the loop already.
  if (array.getDefiningOp<RowTableOp>() || mask.isAncestor(array.getParentRegion()) || !isUniform(array))
    return std::nullopt;
  const Tile *tile = nullptr;
  int64_t dim = 0;
  SmallVector<Value> indices(read->indices.getAsOperandRange());
  for (auto [number, index] : llvm::enumerate(indices)) {
    Value position = stripTileClamp(index);
    if (isUniform(index))
      continue;
    bool isQuery = position == mask.getArgument(2);
    if (tile || (!isQuery && position != mask.getArgument(3)))
      return std::nullopt;
    tile = isQuery ? &queries : &keys, dim = number;
  }
  if (!tile)
    return std::nullopt;
  Value table = getTable(array, dim, tile->size);
  for (int64_t number = 0, rank = indices.size(); number < rank; ++number)
    indices[number] = number == dim ? b.createOrFold<arith::DivUIOp>(
                                          tile->first, arith::ConstantIndexOp::create(b, tile->size).getResult())
                                    : copyUniform(indices[number]);
  auto readEnd = [&](int64_t end) -> Value {
    SmallVector<Value> place(indices);
    place.push_back(arith::ConstantIndexOp::create(b, end));
    return tensor::ExtractOp::create(b, table, place);
  };
  Interval64 result{readEnd(0), readEnd(1)};
  result.isNatural = op->getResult(0).getType().isInteger(1);
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
    // All of one tile are the same, and the same as all of the other.
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

ConditionRange RangeReader::computeCondition(Value condition) {
  if (isUniform(condition)) {
    Value holds = copyUniform(condition);
    Value yes = arith::ConstantOp::create(b, b.getBoolAttr(true));
    return {holds, b.createOrFold<arith::XOrIOp>(holds, yes)};
  }
  Operation *op = condition.getDefiningOp();
  if (!op)
    return {};
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
  if (Range element = getElement(op))
    return {compare(Predicate::ne, element->hi, constant(0)), compare(Predicate::eq, element->lo, constant(0)),
            element->arrays};
  return {};
}

ConditionRange RangeReader::getCondition(Value condition) {
  if (auto found = conditions.find(condition); found != conditions.end())
    return found->second;
  ConditionRange result = computeCondition(condition);
  conditions[condition] = result;
  return result;
}
