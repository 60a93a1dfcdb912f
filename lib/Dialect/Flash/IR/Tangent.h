//===- Tangent.h - derivatives of values, and their scalar code ---------------------------------------------------===//
#ifndef FLASHC_LIB_DIALECT_FLASH_IR_TANGENT_H
#define FLASHC_LIB_DIALECT_FLASH_IR_TANGENT_H

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"

namespace mlir::flash {

/// The derivative of a value with respect to the seed: `factor * value / divisor`, where a null value counts as 1. The
/// three are kept apart so that constants are folded and the divisor of `c * f(x / c)` cancels.
struct Tangent {
  double factor = 0.0;
  Value value = {}, divisor = {};

  bool isZero() const { return factor == 0.0; }
  bool operator==(const Tangent &other) const {
    return factor == other.factor && value == other.value && divisor == other.divisor;
  }
};

/// The type of the tangent of a value of type `type`: f64 for f64, f32 for narrower floats, null for other types.
Type getTangentType(Type type);

/// Emits tangents of one type, and scalar code of that type. At most one argument of a call may create an op: C++ does
/// not fix the order in which arguments are evaluated, and so the order of the ops.
class TangentCode : public ImplicitLocOpBuilder {
public:
  TangentCode(Location loc, OpBuilder &builder, Type type) : ImplicitLocOpBuilder(loc, builder), type(type) {}

  Value number(double value);
  Value add(Value x, Value y);
  Value sub(Value x, Value y);
  Value mul(Value x, Value y);
  Value div(Value x, Value y);
  Value select(Value condition, Value x, Value y);
  Value compare(arith::CmpFPredicate predicate, Value x, Value y);
  Value equal(Value x, Value y) { return compare(arith::CmpFPredicate::OEQ, x, y); }
  Value isZero(Value x) { return equal(x, number(0.0)); }
  Value square(Value x) { return mul(x, x); }
  Value add(Value x, double y) { return add(x, number(y)); }
  Value sub(Value x, double y) { return sub(x, number(y)); }
  Value sub(double x, Value y) { return sub(number(x), y); }
  /// Returns the float `x` in `type`.
  Value convert(Value x);

  Tangent convert(Tangent t);
  Tangent scale(Tangent t, double factor);
  Tangent times(Tangent t, Value x);
  Tangent over(Tangent t, Value x);
  Tangent sum(Tangent a, Tangent b);
  Tangent difference(Tangent a, Tangent b) { return sum(a, scale(b, -1.0)); }
  /// `a` where `condition` holds, and else `b`.
  Tangent choose(Value condition, Tangent a, Tangent b);
  /// The tangent as one value.
  Value emit(Tangent t);

protected:
  Type type;
};

/// Returns the tangent of a value that is computed before.
using GetTangent = llvm::function_ref<Tangent(Value)>;

/// The tangents of the results of `op`, whose operands have some, in code at the insertion point of `builder`. Fails,
/// without a diagnostic, if there is no rule for the op.
FailureOr<SmallVector<Tangent>> applyDerivativeRule(OpBuilder &builder, Operation *op, GetTangent getTangent);

} // namespace mlir::flash

#endif // FLASHC_LIB_DIALECT_FLASH_IR_TANGENT_H
