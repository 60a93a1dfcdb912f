//===- Tangent.cpp - derivatives of values, and their scalar code -------------------------------------------------===//

#include "Tangent.h"
#include "mlir/IR/Matchers.h"
#include <cmath>

using namespace mlir;
using namespace mlir::flash;

Type mlir::flash::getTangentType(Type type) {
  if (!isa<FloatType>(type) || type.getIntOrFloatBitWidth() > 64)
    return {};
  return type.isF64() ? type : Float32Type::get(type.getContext());
}

//===--------------------------------------------------------------------------------------------------------------===//
// Scalars
//===--------------------------------------------------------------------------------------------------------------===//

Value TangentCode::number(double value) { return arith::ConstantOp::create(*this, getFloatAttr(type, value)); }
Value TangentCode::add(Value x, Value y) { return createOrFold<arith::AddFOp>(x, y); }
Value TangentCode::sub(Value x, Value y) { return createOrFold<arith::SubFOp>(x, y); }
Value TangentCode::mul(Value x, Value y) { return createOrFold<arith::MulFOp>(x, y); }
Value TangentCode::div(Value x, Value y) { return createOrFold<arith::DivFOp>(x, y); }

Value TangentCode::select(Value condition, Value x, Value y) { return createOrFold<arith::SelectOp>(condition, x, y); }

Value TangentCode::compare(arith::CmpFPredicate predicate, Value x, Value y) {
  return createOrFold<arith::CmpFOp>(predicate, x, y);
}

Value TangentCode::convert(Value x) {
  unsigned from = x.getType().getIntOrFloatBitWidth(), to = type.getIntOrFloatBitWidth();
  if (from == to)
    return x;
  return from < to ? createOrFold<arith::ExtFOp>(type, x) : createOrFold<arith::TruncFOp>(type, x);
}

static std::optional<double> getConstant(Value x) {
  FloatAttr constant;
  if (!matchPattern(x, m_Constant(&constant)))
    return std::nullopt;
  return constant.getValueAsDouble();
}

//===--------------------------------------------------------------------------------------------------------------===//
// Tangents
//===--------------------------------------------------------------------------------------------------------------===//

Tangent TangentCode::convert(Tangent t) {
  if (t.value)
    t.value = convert(t.value);
  if (t.divisor)
    t.divisor = convert(t.divisor);
  return t;
}

Tangent TangentCode::scale(Tangent t, double factor) {
  if (t.isZero() || factor == 0.0)
    return {};
  t.factor *= factor;
  return t;
}

Tangent TangentCode::times(Tangent t, Value x) {
  if (t.isZero())
    return {};
  if (std::optional<double> constant = getConstant(x))
    return scale(t, *constant);
  if (t.divisor == x)
    return {t.factor, t.value};
  t.value = t.value ? mul(t.value, x) : x;
  return t;
}

Tangent TangentCode::over(Tangent t, Value x) {
  if (t.isZero())
    return {};
  if (std::optional<double> constant = getConstant(x))
    return scale(t, 1.0 / *constant);
  if (t.divisor)
    return {1.0, emit(t), x};
  t.divisor = x;
  return t;
}

Tangent TangentCode::sum(Tangent a, Tangent b) {
  if (a.isZero() || b.isZero())
    return a.isZero() ? b : a;
  if (a.value == b.value && a.divisor == b.divisor)
    return {a.factor + b.factor, a.value, a.divisor};
  if (a.factor < 0.0 && b.factor > 0.0)
    std::swap(a, b);
  double factor = std::copysign(1.0, a.factor);
  bool isDifference = factor * b.factor < 0.0;
  a.factor = std::abs(a.factor), b.factor = std::abs(b.factor);
  Value divisor;
  if (a.divisor == b.divisor)
    divisor = std::exchange(a.divisor, b.divisor = Value());
  if (a.value && b.value && a.factor == b.factor && !a.divisor && !b.divisor)
    factor *= std::exchange(a.factor, b.factor = 1.0);
  Value x = emit(a), y = emit(b);
  return {factor, isDifference ? sub(x, y) : add(x, y), divisor};
}

Tangent TangentCode::choose(Value condition, Tangent a, Tangent b) {
  if (a == b)
    return a;
  Value x = emit(a), y = emit(b);
  return {1.0, select(condition, x, y)};
}

Value TangentCode::emit(Tangent t) {
  double factor = type.isF32() ? static_cast<float>(t.factor) : t.factor;
  Value result = t.value;
  if (!result)
    result = number(factor);
  else if (factor == -1.0)
    result = createOrFold<arith::NegFOp>(result);
  else if (factor != 1.0)
    result = mul(result, number(factor));
  return t.divisor ? div(result, t.divisor) : result;
}
