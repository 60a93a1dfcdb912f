//===- RangeIntegers.cpp - interval arithmetic on integers of a mask ----------------------------------------------===//

#include "RangeReader.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/IR/Matchers.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace mlir::flash;

using Predicate = arith::CmpIPredicate;
using Arrays = llvm::SetVector<Value>;

Value RangeReader::isModerate(const Interval64 &range, int64_t factor) {
  int64_t limit = ((int64_t(1) << 62) - 1) / factor; // so that the sum of two products fits 64 bits
  return both(compare(Predicate::sge, range.lo, constant(-limit)), compare(Predicate::sle, range.hi, constant(limit)));
}

/// Returns the range of an integer of `type` that may wrap around. Without that, the integer would be in `range`. Where
/// it may wrap around, its range is all values of `type`. With less than 64 bits, it may wrap around where `range`
/// exceeds the type. With 64 bits, it may wrap around where `isSafe` does not hold. Integers of 32 bits or more that
/// are computed from positions alone are assumed not to wrap around.
std::optional<Interval64> RangeReader::wrap(Type type, Interval64 range, Value isSafe) {
  unsigned width = getWidth(type);
  if (range.arrays.empty() && width >= 32)
    return range;
  Value least = constant(llvm::minIntN(width)), most = constant(llvm::maxIntN(width));
  if (width < 64)
    isSafe = both(compare(Predicate::sge, range.lo, least), compare(Predicate::sle, range.hi, most));
  if (!isSafe)
    return range;
  range.lo = b.createOrFold<arith::SelectOp>(isSafe, range.lo, least);
  range.hi = b.createOrFold<arith::SelectOp>(isSafe, range.hi, most);
  range.isNatural = false;
  return range;
}

std::optional<Interval64> RangeReader::getSum(Operation *op) {
  Range x = getRange(op->getOperand(0)), y = getRange(op->getOperand(1));
  if (!x || !y)
    return std::nullopt;
  bool isSum = isa<arith::AddIOp>(op);
  Interval64 sum;
  sum.lo = isSum ? b.createOrFold<arith::AddIOp>(x->lo, y->lo) : b.createOrFold<arith::SubIOp>(x->lo, y->hi);
  sum.hi = isSum ? b.createOrFold<arith::AddIOp>(x->hi, y->hi) : b.createOrFold<arith::SubIOp>(x->hi, y->lo);
  sum.isNatural = isSum && x->isNatural && y->isNatural;
  sum.arrays = unite(x->arrays, y->arrays);
  return wrap(op->getResult(0).getType(), sum, both(isModerate(*x, 1), isModerate(*y, 1)));
}

std::optional<Interval64> RangeReader::getProduct(arith::MulIOp op) {
  for (auto [x, y] : {std::pair(op.getLhs(), op.getRhs()), std::pair(op.getRhs(), op.getLhs())}) {
    APInt number;
    Range range = matchPattern(y, m_ConstantInt(&number)) && number.getSignificantBits() <= 31 ? getRange(x) : Range();
    if (!range)
      continue;
    int64_t factor = number.getSExtValue();
    Value isSafe = isModerate(*range, std::max<int64_t>(std::abs(factor), 1));
    range->lo = b.createOrFold<arith::MulIOp>(range->lo, constant(factor));
    range->hi = b.createOrFold<arith::MulIOp>(range->hi, constant(factor));
    if (factor < 0)
      std::swap(range->lo, range->hi);
    range->isNatural &= factor >= 0;
    return wrap(op.getType(), *range, isSafe);
  }
  return std::nullopt;
}

/// Returns the range of a minimum, of a maximum, or of an absolute value (the maximum of a value and its negative).
std::optional<Interval64> RangeReader::getExtremum(Operation *op) {
  Range x = getRange(op->getOperand(0));
  if (!x)
    return std::nullopt;
  if (isa<math::AbsIOp>(op)) {
    Value isSafe = isModerate(*x, 1), zero = constant(0);
    Value negative = b.createOrFold<arith::SubIOp>(zero, x->hi), opposite = b.createOrFold<arith::SubIOp>(zero, x->lo);
    Interval64 result{max(zero, max(x->lo, negative)), max(x->hi, opposite), /*isNatural=*/true, x->arrays};
    return wrap(op->getResult(0).getType(), result, isSafe);
  }
  Range y = getRange(op->getOperand(1));
  if (!y)
    return std::nullopt;
  bool isMin = isa<arith::MinSIOp>(op);
  return Interval64{isMin ? min(x->lo, y->lo) : max(x->lo, y->lo), isMin ? min(x->hi, y->hi) : max(x->hi, y->hi),
                    isMin ? x->isNatural && y->isNatural : x->isNatural || y->isNatural, unite(x->arrays, y->arrays)};
}

std::optional<Interval64> RangeReader::getSelect(arith::SelectOp op) {
  Range x = getRange(op.getTrueValue()), y = getRange(op.getFalseValue());
  if (!x || !y)
    return std::nullopt;
  return Interval64{min(x->lo, y->lo), max(x->hi, y->hi), x->isNatural && y->isNatural, unite(x->arrays, y->arrays)};
}

/// Returns the range of an op whose second operand is a constant that is not negative. Quotients and shifts to the
/// right are monotone; remainders and bit masks lie between two constants. None for other ops.
std::optional<Interval64> RangeReader::getByConstant(Operation *op) {
  APInt number;
  if (op->getNumOperands() != 2 || !matchPattern(op->getOperand(1), m_ConstantInt(&number)) ||
      number.getSignificantBits() > 31 || number.isNegative())
    return std::nullopt;
  int64_t divisor = number.getSExtValue();
  Range x = getRange(op->getOperand(0));
  Arrays arrays = x ? x->arrays : Arrays();
  if (isa<arith::AndIOp>(op))
    return Interval64{constant(0), constant(divisor), true, arrays};
  if (divisor > 0 && isa<arith::RemUIOp>(op))
    return Interval64{constant(0), constant(divisor - 1), true, arrays};
  if (divisor > 0 && isa<arith::RemSIOp>(op))
    return Interval64{constant(x && x->isNatural ? 0 : 1 - divisor), constant(divisor - 1), x && x->isNatural, arrays};
  auto map = [&](auto create) -> Range { return Interval64{create(x->lo), create(x->hi), x->isNatural, arrays}; };
  if (!x || (isa<arith::DivUIOp, arith::ShRUIOp>(op) && !x->isNatural))
    return std::nullopt;
  if (isa<arith::ShRSIOp, arith::ShRUIOp>(op) && divisor < getWidth(op->getResult(0).getType()))
    return map([&](Value value) { return b.createOrFold<arith::ShRSIOp>(value, constant(divisor)); });
  if (divisor > 0 && isa<arith::FloorDivSIOp>(op))
    return map([&](Value value) { return b.createOrFold<arith::FloorDivSIOp>(value, constant(divisor)); });
  if (divisor > 0 && isa<arith::DivSIOp, arith::DivUIOp>(op))
    return map([&](Value value) { return b.createOrFold<arith::DivSIOp>(value, constant(divisor)); });
  return std::nullopt;
}

/// Returns the range of an unsigned cast. A condition becomes 0 or 1. Where the operand is not negative, its range
/// stays; elsewhere the result may be any value. None if the operand has 64 bits and may be negative.
std::optional<Interval64> RangeReader::getUnsigned(Operation *op) {
  Value operand = op->getOperand(0);
  if (operand.getType().isInteger(1)) {
    ConditionRange condition = getCondition(operand);
    Value one = constant(1), zero = constant(0);
    return Interval64{condition.mayFail ? b.createOrFold<arith::SelectOp>(condition.mayFail, zero, one) : zero,
                      condition.mayHold ? b.createOrFold<arith::SelectOp>(condition.mayHold, one, zero) : one,
                      /*isNatural=*/true, condition.arrays};
  }
  Range x = getRange(operand);
  unsigned width = getWidth(operand.getType());
  if (!x || x->isNatural || width == 64)
    return x && x->isNatural ? x : std::nullopt;
  Value isNatural = compare(Predicate::sge, x->lo, constant(0));
  x->lo = max(x->lo, constant(0));
  x->hi = b.createOrFold<arith::SelectOp>(isNatural, x->hi, constant(int64_t(llvm::maxUIntN(width))));
  x->isNatural = true;
  return x;
}

std::optional<Interval64> RangeReader::computeRange(Value value) {
  if (value == mask.getArgument(2) || value == mask.getArgument(3))
    return getPosition(value == mask.getArgument(2) ? queries : keys);
  if (!value.getType().isIntOrIndex() || getWidth(value.getType()) > 64)
    return std::nullopt;
  if (isUniform(value))
    return getUniform(value);
  Operation *op = value.getDefiningOp();
  if (!op || !mask.isAncestor(op->getParentRegion()))
    return std::nullopt;
  if (Range range = isMonotone(value) ? Range() : getByRunning(value))
    return range;
  if (isa<arith::AddIOp, arith::SubIOp>(op))
    return getSum(op);
  if (auto product = dyn_cast<arith::MulIOp>(op))
    return getProduct(product);
  if (isa<arith::MinSIOp, arith::MaxSIOp, math::AbsIOp>(op))
    return getExtremum(op);
  if (auto select = dyn_cast<arith::SelectOp>(op))
    return getSelect(select);
  if (isa<arith::ExtUIOp, arith::IndexCastUIOp>(op))
    return getUnsigned(op);
  if (isa<arith::ExtSIOp, arith::IndexCastOp, arith::TruncIOp>(op)) {
    Range x = getRange(op->getOperand(0));
    return x ? wrap(value.getType(), *x) : std::nullopt;
  }
  if (Range element = getElement(op))
    return element;
  return getByConstant(op);
}

std::optional<Interval64> RangeReader::getRange(Value value) {
  if (auto found = ranges.find(value); found != ranges.end())
    return found->second;
  Range range = computeRange(value);
  ranges[value] = range;
  return range;
}
