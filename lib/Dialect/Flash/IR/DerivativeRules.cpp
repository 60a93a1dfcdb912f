//===- DerivativeRules.cpp - the derivative of each operation -----------------------------------------------------===//
//
// In this file, x and y are the operands of an op, and r is its result; dx, dy and dr are their tangents.
// docs/backward.md has a table of the rules.
//
//===--------------------------------------------------------------------------------------------------------------===//

#include "Tangent.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/IR/Matchers.h"
#include "llvm/ADT/TypeSwitch.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace mlir::flash;
using Predicate = arith::CmpFPredicate;
using llvm::numbers::inv_sqrtpi, llvm::numbers::ln10, llvm::numbers::ln2;

namespace {

/// The derivative of one op. Each family of ops has a function, which returns none for ops of other families.
class Rule : TangentCode {
public:
  using Result = std::optional<Tangent>;
  using Switch = llvm::TypeSwitch<Operation *, Result>;

  Rule(OpBuilder &builder, Operation *op, Type type, GetTangent getTangent)
      : TangentCode(op->getLoc(), builder, type), op(op), getTangent(getTangent) {
    auto widen = [&](Value value) { return isa<FloatType>(value.getType()) ? convert(value) : value; };
    operands = llvm::map_to_vector(op->getOperands(), widen);
    results = llvm::map_to_vector(op->getResults(), widen);
  }

  /// Returns the derivative of the op, which has one result. None if there is no rule for it.
  Result get() {
    for (auto family : {&Rule::getOfArithmetic, &Rule::getOfChoice, &Rule::getOfExponential, &Rule::getOfPower,
                        &Rule::getOfAngle, &Rule::getOfHyperbola})
      if (Result result = (this->*family)())
        return result;
    return std::nullopt;
  }
  /// Returns the derivatives of the two results of the op, which is a math.sincos.
  SmallVector<Tangent> getOfBoth() {
    Tangent first = times(dx(), r(1)), second = scale(times(dx(), r(0)), -1.0);
    return {first, second};
  }

private:
  Result getOfArithmetic();
  Result getOfChoice();
  Result getOfExponential();
  Result getOfPower();
  Result getOfAngle();
  Result getOfHyperbola();

  Value x(unsigned operand = 0) { return operands[operand]; }
  Value y() { return x(1); }
  Value r(unsigned result = 0) { return results[result]; }
  Tangent d(Value value) { return convert(getTangent(value)); }
  Tangent dx(unsigned operand = 0) { return d(op->getOperand(operand)); }
  Tangent dy() { return dx(1); }

  /// Returns dx / sqrt(value).
  Tangent overRoot(Value value) { return times(dx(), createOrFold<math::RsqrtOp>(value)); }
  /// Emits 1 - x^2 as (1 - x) * (1 + x). This keeps digits of x that the square would drop.
  Value getComplement() {
    Value below = sub(1.0, x()), above = add(x(), 1.0);
    return mul(below, above);
  }
  Value getSign(Value value);
  Tangent getQuotient();
  Tangent chooseExtremum(Value isFirst, Value first, Value second, Tangent ofFirst, Tangent ofSecond);
  Tangent getExtremum(Predicate isFirst);
  Tangent getExtremumOfNumbers();
  Tangent getOfClamp();
  Tangent getOfLogarithm(Value value);
  Result getRelative(Value value);
  Result getRelativeOfSum(Operation *sum);
  Tangent getOfBase(Value base, Value exponent, llvm::function_ref<Value(Value)> getPower);
  Tangent getOfExponent(Value base, Value exponent, Value logarithm);
  Result getOfLogarithmicPower(bool isBinary);
  Tangent getOfExp(bool isBinary);
  Tangent getOfIntegerPower();

  Operation *op;
  GetTangent getTangent;
  SmallVector<Value> operands, results; // in the type of the tangents
};

} // namespace

//===--------------------------------------------------------------------------------------------------------------===//
// Arithmetic
//===--------------------------------------------------------------------------------------------------------------===//

/// Emits dx / y - r * dy / y, the tangent of x / y.
Tangent Rule::getQuotient() {
  if (dy().isZero())
    return over(dx(), y());
  if (Result relative = getRelative(op->getOperand(1))) {
    Tangent ofDividend = over(dx(), y());
    return difference(ofDividend, times(*relative, r()));
  }
  return over(difference(dx(), times(dy(), r())), y());
}

Rule::Result Rule::getOfArithmetic() {
  return Switch(op)
      .Case<arith::ExtFOp, arith::TruncFOp>([&](Operation *) { return dx(); })
      .Case([&](arith::NegFOp) { return scale(dx(), -1.0); })
      .Case([&](arith::AddFOp) { return sum(dx(), dy()); })
      .Case([&](arith::SubFOp) { return difference(dx(), dy()); })
      .Case([&](arith::MulFOp) {
        Tangent first = times(dx(), y());
        return sum(first, times(dy(), x()));
      })
      .Case([&](math::FmaOp) {
        Tangent first = times(dx(), y());
        return sum(sum(first, times(dy(), x())), dx(2));
      })
      .Case([&](arith::DivFOp) { return getQuotient(); })
      .Case([&](arith::RemFOp) {
        if (dy().isZero())
          return dx();
        Value whole = createOrFold<math::TruncOp>(div(x(), y()));
        return difference(dx(), times(dy(), whole));
      })
      .Default(std::nullopt);
}

//===--------------------------------------------------------------------------------------------------------------===//
// Choices
//===--------------------------------------------------------------------------------------------------------------===//

/// Emits the sign of `value`: -1, 0 or 1.
Value Rule::getSign(Value value) {
  Value zero = number(0.0), isZero = equal(value, zero), one = number(1.0);
  return select(isZero, zero, createOrFold<math::CopySignOp>(one, value));
}

/// Returns the tangent of an extremum of two values. `ofFirst` is the tangent of `first`, and `ofSecond` that of
/// `second`. The result is `ofFirst` where `isFirst` holds, and `ofSecond` elsewhere. Where the two values are equal,
/// the result is the mean of both tangents.
Tangent Rule::chooseExtremum(Value isFirst, Value first, Value second, Tangent ofFirst, Tangent ofSecond) {
  Tangent mean = scale(sum(ofFirst, ofSecond), 0.5), chosen = choose(isFirst, ofFirst, ofSecond);
  return choose(equal(first, second), mean, chosen);
}

Tangent Rule::getExtremum(Predicate isFirst) {
  return chooseExtremum(compare(isFirst, x(), y()), x(), y(), dx(), dy());
}

/// Where one operand is NaN, arith.minnumf and arith.maxnumf return the other operand. So x counts as the extremum
/// where the result is equal to x.
Tangent Rule::getExtremumOfNumbers() { return chooseExtremum(equal(r(), x()), x(), y(), dx(), dy()); }

/// MLIR defines math.clampf as max(min(x, y), z).
Tangent Rule::getOfClamp() {
  Value least = createOrFold<arith::MinimumFOp>(x(), y()), z = x(2);
  Tangent ofLeast = getExtremum(Predicate::OLT);
  return chooseExtremum(compare(Predicate::OGT, least, z), least, z, ofLeast, dx(2));
}

Rule::Result Rule::getOfChoice() {
  return Switch(op)
      .Case<math::FloorOp, math::CeilOp, math::TruncOp, math::RoundOp, math::RoundEvenOp>(
          [&](Operation *) { return Tangent(); })
      .Case([&](arith::SelectOp select) { return choose(select.getCondition(), dx(1), dx(2)); })
      .Case([&](arith::MaximumFOp) { return getExtremum(Predicate::OGT); })
      .Case([&](arith::MinimumFOp) { return getExtremum(Predicate::OLT); })
      .Case<arith::MaxNumFOp, arith::MinNumFOp>([&](Operation *) { return getExtremumOfNumbers(); })
      .Case([&](math::ClampFOp) { return getOfClamp(); })
      .Case([&](math::AbsFOp) { return times(dx(), getSign(x())); })
      .Case([&](math::CopySignOp) {
        if (dx().isZero())
          return Tangent();
        Value sign = getSign(x());
        return times(dx(), mul(sign, createOrFold<math::CopySignOp>(number(1.0), y())));
      })
      .Default(std::nullopt);
}

//===--------------------------------------------------------------------------------------------------------------===//
// Exponentials and logarithms
//===--------------------------------------------------------------------------------------------------------------===//

/// Returns the tangent of `value` divided by `value`. This quotient is finite even where an exponential is infinite.
/// `value` must be a constant (a value that does not depend on the seed), an exponential, a product or quotient of two
/// such values, or the sum or difference of a constant and such a value. None for other values.
Rule::Result Rule::getRelative(Value value) {
  if (d(value).isZero())
    return Tangent();
  Operation *def = value.getDefiningOp();
  if (!def)
    return std::nullopt;
  return Switch(def)
      .Case([&](math::ExpOp exp) { return d(exp.getOperand()); })
      .Case([&](math::Exp2Op exp) { return scale(d(exp.getOperand()), ln2); })
      .Case<arith::MulFOp, arith::DivFOp>([&](Operation *product) -> Result {
        Result first = getRelative(product->getOperand(0)), second = getRelative(product->getOperand(1));
        if (!first || !second)
          return std::nullopt;
        return sum(*first, scale(*second, isa<arith::MulFOp>(product) ? 1.0 : -1.0));
      })
      .Case<arith::AddFOp, arith::SubFOp>([&](Operation *sum) { return getRelativeOfSum(sum); })
      .Default(std::nullopt);
}

/// Returns dy / y for the result y of `sum`, an addition or subtraction. One operand must be a constant c; the other
/// operand is e. If y = c + e or y = c - e, then dy / y = (de / e) * (1 - c / y). If y = e - c, then dy / y = (de / e)
/// * (1 + c / y). None if no operand is a constant, or if getRelative has no result for e.
Rule::Result Rule::getRelativeOfSum(Operation *sum) {
  bool isFirst = d(sum->getOperand(1)).isZero();
  Value rest = sum->getOperand(isFirst ? 1 : 0);
  Result relative = d(rest).isZero() ? getRelative(sum->getOperand(isFirst ? 0 : 1)) : std::nullopt;
  if (!relative)
    return std::nullopt;
  Value ratio = div(convert(rest), convert(sum->getResult(0)));
  return times(*relative, isFirst && isa<arith::SubFOp>(sum) ? add(ratio, 1.0) : sub(1.0, ratio));
}

/// Returns the tangent of log(value), where `value` is an operand of the op.
Tangent Rule::getOfLogarithm(Value value) {
  if (Result relative = getRelative(value))
    return *relative;
  return over(d(value), convert(value));
}

Tangent Rule::getOfExp(bool isBinary) {
  if (Result power = getOfLogarithmicPower(isBinary))
    return *power;
  return scale(times(dx(), r()), isBinary ? ln2 : 1.0);
}

Rule::Result Rule::getOfExponential() {
  return Switch(op)
      .Case([&](math::ExpOp) { return getOfExp(/*isBinary=*/false); })
      .Case([&](math::Exp2Op) { return getOfExp(/*isBinary=*/true); })
      .Case([&](math::ExpM1Op) { return times(dx(), add(r(), 1.0)); })
      .Case([&](math::LogOp) { return getOfLogarithm(op->getOperand(0)); })
      .Case([&](math::Log2Op) { return scale(getOfLogarithm(op->getOperand(0)), 1.0 / ln2); })
      .Case([&](math::Log10Op) { return scale(getOfLogarithm(op->getOperand(0)), 1.0 / ln10); })
      .Case([&](math::Log1pOp) {
        Value sum = add(x(), 1.0);
        Result relative = getRelative(op->getOperand(0));
        return relative ? times(*relative, sub(1.0, div(number(1.0), sum))) : over(dx(), sum);
      })
      .Default(std::nullopt);
}

//===--------------------------------------------------------------------------------------------------------------===//
// Powers
//===--------------------------------------------------------------------------------------------------------------===//

/// Returns the part of the tangent of x^y that is due to the base x: y * x^(y - 1) * dx. `getPower` emits x to the
/// power of its argument.
Tangent Rule::getOfBase(Value base, Value exponent, llvm::function_ref<Value(Value)> getPower) {
  Tangent ofBase = d(base);
  FloatAttr constant;
  if (ofBase.isZero() || matchPattern(exponent, m_AnyZeroFloat()))
    return {};
  if (matchPattern(exponent, m_OneFloat()))
    return ofBase;
  bool isConstant = matchPattern(exponent, m_Constant(&constant));
  if (isConstant && constant.getValueAsDouble() == 2.0)
    return scale(times(ofBase, convert(base)), 2.0);
  Value wide = convert(exponent), power = getPower(sub(wide, number(1.0)));
  if (isConstant)
    return times(times(ofBase, power), wide);
  Value slope = mul(wide, power), zero = number(0.0);
  return times(ofBase, select(equal(wide, zero), zero, slope));
}

/// Returns the part of the tangent of r = x^y that is due to the exponent y: r * `logarithm` * dy, or 0 where x is 0.
/// `logarithm` is log(x), or log2(x) if the caller scales the result.
Tangent Rule::getOfExponent(Value base, Value exponent, Value logarithm) {
  if (d(exponent).isZero())
    return {};
  Value zero = number(0.0), isZero = equal(convert(base), zero);
  return times(d(exponent), select(isZero, zero, mul(r(), logarithm)));
}

/// Returns the tangent of exp(y * log(x)), or of exp2(y * log2(x)) if `isBinary`. Treats these values as the power x^y,
/// so that the tangent is also right where x is 0. None for other exponentials.
Rule::Result Rule::getOfLogarithmicPower(bool isBinary) {
  auto factors = op->getOperand(0).getDefiningOp<arith::MulFOp>();
  for (unsigned position : {0u, 1u}) {
    Operation *log = factors ? factors->getOperand(position).getDefiningOp() : nullptr;
    if (!log || !(isBinary ? isa<math::Log2Op>(log) : isa<math::LogOp>(log)) || d(log->getOperand(0)).isZero())
      continue;
    Value base = log->getOperand(0), exponent = factors->getOperand(1 - position);
    Value logarithm = convert(log->getResult(0));
    Tangent ofBase = getOfBase(base, exponent, [&](Value less) {
      Value scaled = mul(logarithm, less);
      return isBinary ? createOrFold<math::Exp2Op>(scaled) : createOrFold<math::ExpOp>(scaled);
    });
    Tangent ofExponent = getOfExponent(base, exponent, logarithm);
    return sum(ofBase, scale(ofExponent, isBinary ? ln2 : 1.0));
  }
  return std::nullopt;
}

/// Returns the tangent of x^n, where n is an integer: n * x^(n - 1) * dx, or 0 where n is 0.
Tangent Rule::getOfIntegerPower() {
  Value exponent = op->getOperand(1), zero = number(0.0);
  Value one = arith::ConstantOp::create(*this, getIntegerAttr(exponent.getType(), 1));
  Value none = arith::ConstantOp::create(*this, getIntegerAttr(exponent.getType(), 0));
  Value wide = createOrFold<arith::SIToFPOp>(type, exponent), less = createOrFold<arith::SubIOp>(exponent, one);
  Value slope = mul(createOrFold<math::FPowIOp>(x(), less), wide);
  Value isNone = createOrFold<arith::CmpIOp>(arith::CmpIPredicate::eq, exponent, none);
  return times(dx(), select(isNone, zero, slope));
}

Rule::Result Rule::getOfPower() {
  return Switch(op)
      .Case([&](math::SqrtOp) { return over(scale(dx(), 0.5), r()); })
      .Case([&](math::RsqrtOp) { return scale(times(dx(), mul(square(r()), r())), -0.5); })
      .Case([&](math::CbrtOp) { return over(scale(dx(), 1.0 / 3.0), square(r())); })
      .Case([&](math::FPowIOp) { return getOfIntegerPower(); })
      .Case([&](math::PowFOp power) {
        Value base = x();
        Tangent ofBase = getOfBase(power.getLhs(), power.getRhs(),
                                   [&](Value less) { return createOrFold<math::PowFOp>(base, less); });
        if (dy().isZero())
          return ofBase;
        return sum(ofBase, getOfExponent(power.getLhs(), power.getRhs(), createOrFold<math::LogOp>(base)));
      })
      .Default(std::nullopt);
}

//===--------------------------------------------------------------------------------------------------------------===//
// Trigonometric and hyperbolic functions
//===--------------------------------------------------------------------------------------------------------------===//

Rule::Result Rule::getOfAngle() {
  return Switch(op)
      .Case([&](math::SinOp) { return times(dx(), createOrFold<math::CosOp>(x())); })
      .Case([&](math::CosOp) { return scale(times(dx(), createOrFold<math::SinOp>(x())), -1.0); })
      .Case([&](math::TanOp) { return times(dx(), add(square(r()), 1.0)); })
      .Case([&](math::AsinOp) { return overRoot(getComplement()); })
      .Case([&](math::AcosOp) { return scale(overRoot(getComplement()), -1.0); })
      .Case([&](math::AtanOp) { return over(dx(), add(square(x()), 1.0)); })
      .Case([&](math::Atan2Op) { // atan2(height, width)
        Tangent ofHeight = times(dx(), y()), ofWidth = times(dy(), x());
        Value ofX = square(x()), ofY = square(y());
        return over(difference(ofHeight, ofWidth), add(ofX, ofY));
      })
      .Default(std::nullopt);
}

Rule::Result Rule::getOfHyperbola() {
  return Switch(op)
      .Case([&](math::SinhOp) { return times(dx(), createOrFold<math::CoshOp>(x())); })
      .Case([&](math::CoshOp) { return times(dx(), createOrFold<math::SinhOp>(x())); })
      .Case([&](math::TanhOp) { return times(dx(), sub(1.0, square(r()))); })
      .Case([&](math::AsinhOp) { return overRoot(add(square(x()), 1.0)); })
      .Case([&](math::AcoshOp) {
        Value below = sub(x(), 1.0), above = add(x(), 1.0);
        return overRoot(mul(below, above));
      })
      .Case([&](math::AtanhOp) { return over(dx(), getComplement()); })
      .Case<math::ErfOp, math::ErfcOp>([&](Operation *) {
        Value density = createOrFold<math::ExpOp>(createOrFold<arith::NegFOp>(square(x())));
        return scale(times(dx(), density), (isa<math::ErfOp>(op) ? 2.0 : -2.0) * inv_sqrtpi);
      })
      .Default(std::nullopt);
}

//===--------------------------------------------------------------------------------------------------------------===//
// All of them
//===--------------------------------------------------------------------------------------------------------------===//

/// Whether `op` maps floats to integers or conditions. The result of such an op is constant between its jumps, so its
/// tangent is 0.
static bool isTest(Operation *op) {
  return isa<arith::CmpFOp, arith::FPToSIOp, arith::FPToUIOp, math::IsFiniteOp, math::IsInfOp, math::IsNaNOp,
             math::IsNormalOp>(op);
}

FailureOr<SmallVector<Tangent>> mlir::flash::applyDerivativeRule(OpBuilder &builder, Operation *op,
                                                                 GetTangent getTangent) {
  if (isTest(op))
    return SmallVector<Tangent>(1);
  Type type = op->getNumResults() > 0 ? getTangentType(op->getResult(0).getType()) : Type();
  if (!type)
    return failure();
  Rule rule(builder, op, type, getTangent);
  if (isa<math::SincosOp>(op))
    return rule.getOfBoth();
  Rule::Result tangent = rule.get();
  if (!tangent)
    return failure();
  return SmallVector<Tangent>{*tangent};
}
