//===- Tangent.h - derivatives of values, and their scalar code ---------------------------------------------------===//
#ifndef FLASHC_LIB_DIALECT_FLASH_IR_TANGENT_H
#define FLASHC_LIB_DIALECT_FLASH_IR_TANGENT_H

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"

namespace mlir::flash {

/// The derivative of a value with respect to the seed, the variable of the differentiation: `factor * value / divisor`.
/// A null `value` or `divisor` counts as 1. The three parts are kept apart so that constant factors are multiplied at
/// compile time, and so that the divisor cancels in the derivative of `c * f(x / c)`.
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

/// Emits tangents of one type, and scalar code of this type. In a call of these functions, at most one argument may be
/// an expression that creates ops: C++ does not fix the order in which arguments are evaluated, so that the order of
/// the ops would depend on the compiler.
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
  /// Converts the float `x` to `type`.
  Value convert(Value x);

  Tangent convert(Tangent t);
  Tangent scale(Tangent t, double factor);
  Tangent times(Tangent t, Value x);
  Tangent over(Tangent t, Value x);
  Tangent sum(Tangent a, Tangent b);
  Tangent difference(Tangent a, Tangent b) { return sum(a, scale(b, -1.0)); }
  /// Returns `a` where `condition` holds, and `b` elsewhere.
  Tangent choose(Value condition, Tangent a, Tangent b);
  /// Emits the tangent as one value.
  Value emit(Tangent t);

protected:
  Type type;
};

/// Returns the tangent of a value that is defined before the op whose rule is applied.
using GetTangent = llvm::function_ref<Tangent(Value)>;

/// Emits the tangents of the results of `op` at the insertion point of `builder`. `getTangent` returns the tangents of
/// the operands. Fails, without a diagnostic, if there is no rule for `op`.
FailureOr<SmallVector<Tangent>> applyDerivativeRule(OpBuilder &builder, Operation *op, GetTangent getTangent);

} // namespace mlir::flash

#endif // FLASHC_LIB_DIALECT_FLASH_IR_TANGENT_H
