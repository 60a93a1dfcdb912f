//===- LinearExpr.h - a linear combination of SSA values ----------------------------------------------------------===//
// Index arithmetic as a sum `c0 + c1 * %v1 + c2 * %v2 + ...`. Such sums are enough to recognise the offsets and sizes
// of tiles, and the comparisons of a mask region. The code may use arith or affine ops.
//===--------------------------------------------------------------------------------------------------------------===//
#ifndef FLASHC_ANALYSIS_LINEAREXPR_H
#define FLASHC_ANALYSIS_LINEAREXPR_H

#include "mlir/IR/AffineExpr.h"
#include "mlir/IR/OpDefinition.h"
#include "mlir/IR/Value.h"
#include <optional>

namespace mlir::flash {

/// A linear combination of values. An expression creates no IR, and is valid as long as its values exist.
///
/// Index arithmetic is read as if it did not overflow. Positions in a tensor do not overflow, and neither does
/// arithmetic in `i32` on positions between two `arith.index_cast`. Arithmetic in narrower integers, and constants of
/// more than about 32 bits, are not taken apart: they become symbols.
class LinearExpr {
public:
  struct Term {
    Value value;
    int64_t coefficient; // never 0
  };

  LinearExpr(int64_t constant = 0) : constant(constant) {}

  /// Returns the expression that is `value` itself, without looking at the op that defines it.
  static LinearExpr symbol(Value value);

  /// Returns `value` as an expression. Looks through constants, arith.addi, subi, muli by a constant, shli by a
  /// constant, index_cast, extsi and linear affine.apply. Any other value becomes a symbol, so there is always a
  /// result.
  static LinearExpr get(Value value);
  static LinearExpr get(OpFoldResult value);

  /// Returns `expr`, one result of an affine map whose `operands` are first dimensions, then symbols. Returns nullopt
  /// if the result is not linear, as with mod or div.
  static std::optional<LinearExpr> get(AffineExpr expr, unsigned numDims, ValueRange operands);

  LinearExpr &operator+=(const LinearExpr &other) { return add(other, 1); }
  LinearExpr &operator-=(const LinearExpr &other) { return add(other, -1); }
  LinearExpr &operator*=(int64_t factor);
  friend LinearExpr operator+(LinearExpr a, const LinearExpr &b) { return a += b; }
  friend LinearExpr operator-(LinearExpr a, const LinearExpr &b) { return a -= b; }
  friend LinearExpr operator*(LinearExpr a, int64_t factor) { return a *= factor; }

  /// Whether the expressions are equal for all values of their symbols. Two tensor.dim of the same dimension count as
  /// one symbol.
  bool operator==(const LinearExpr &other) const { return (*this - other).isConstant(0); }

  ArrayRef<Term> getTerms() const { return terms; }
  int64_t getConstant() const { return constant; }
  std::optional<int64_t> getConstantValue() const;
  bool isConstant(int64_t value) const { return terms.empty() && constant == value; }

  /// Returns `v` if the expression is `v + constant`, or null.
  Value getShifted() const { return terms.size() == 1 && terms[0].coefficient == 1 ? terms[0].value : Value(); }

  /// Returns the coefficient of `value`, or 0.
  int64_t getCoefficient(Value value) const;
  /// Returns the expression with `value` set to zero.
  LinearExpr without(Value value) const;

private:
  LinearExpr &add(const LinearExpr &other, int64_t factor);

  SmallVector<Term, 2> terms;
  int64_t constant;
};

} // namespace mlir::flash

#endif // FLASHC_ANALYSIS_LINEAREXPR_H
