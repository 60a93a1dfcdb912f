//===- LinearExpr.h - a linear combination of SSA values ----------------------------------------------------------===//
// Index arithmetic as a sum `c0 + c1 * %v1 + c2 * %v2 + ...`: enough to recognise the offsets and sizes of tiles and
// the comparisons of a mask region in any spelling (arith or affine).
//===--------------------------------------------------------------------------------------------------------------===//
#ifndef FLASHC_ANALYSIS_LINEAREXPR_H
#define FLASHC_ANALYSIS_LINEAREXPR_H

#include "mlir/IR/AffineExpr.h"
#include "mlir/IR/OpDefinition.h"
#include "mlir/IR/Value.h"
#include <optional>

namespace mlir::flash {

/// A linear combination of values. It makes no IR, and it is valid as long as its values are.
///
/// Index arithmetic is read as if it did not overflow, which holds for positions in a tensor, also for arithmetic in
/// `i32` between two `arith.index_cast`. Arithmetic in narrower integers and constants of more than about 32 bits
/// become symbols.
class LinearExpr {
public:
  struct Term {
    Value value;
    int64_t coefficient; // never 0
  };

  LinearExpr(int64_t constant = 0) : constant(constant) {}

  /// The value itself, without looking at what defines it.
  static LinearExpr symbol(Value value);

  /// Looks through constants, arith.addi, subi, muli by a constant, shli by a constant, index_cast, extsi and linear
  /// affine.apply. Anything else becomes a symbol, so this always succeeds.
  static LinearExpr get(Value value);
  static LinearExpr get(OpFoldResult value);

  /// Reads one result of an affine map over `operands` (dimensions, then symbols); nullopt if it is not linear (mod,
  /// div).
  static std::optional<LinearExpr> get(AffineExpr expr, unsigned numDims, ValueRange operands);

  LinearExpr &operator+=(const LinearExpr &other) { return add(other, 1); }
  LinearExpr &operator-=(const LinearExpr &other) { return add(other, -1); }
  LinearExpr &operator*=(int64_t factor);
  friend LinearExpr operator+(LinearExpr a, const LinearExpr &b) { return a += b; }
  friend LinearExpr operator-(LinearExpr a, const LinearExpr &b) { return a -= b; }
  friend LinearExpr operator*(LinearExpr a, int64_t factor) { return a *= factor; }

  /// Whether the expressions are equal for all values of their symbols; two tensor.dim of the same dimension are one
  /// symbol.
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
