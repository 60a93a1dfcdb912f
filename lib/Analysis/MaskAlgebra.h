//===- MaskAlgebra.h - unions of conjunctions, and piecewise linear values ----------------------------------------===//
#ifndef FLASHC_LIB_ANALYSIS_MASKALGEBRA_H
#define FLASHC_LIB_ANALYSIS_MASKALGEBRA_H

#include "flashc/Analysis/MaskProver.h"

namespace mlir::flash {

/// Operations on unions, and on piecewise linear values, over the space of one mask. A result that grows too large
/// becomes unknown.
class MaskAlgebra {
public:
  using Union = std::vector<MaskConjunct>;

  /// A piece of a piecewise value: the value is `value` where `guard` holds. The guards of all pieces together cover
  /// all pairs.
  struct Piece {
    MaskConjunct guard;
    MaskExpr value;
  };
  using Pieces = SmallVector<Piece, 1>;

  /// `owner` is added to `set.opaque` if something is unknown and no other op is the reason.
  MaskAlgebra(MaskSet &set, Operation *owner) : set(set), owner(owner) {}

  //===------------------------------------------------------------------------------------------------------------===//
  // Unions
  //===------------------------------------------------------------------------------------------------------------===//

  static Union everything() { return {MaskConjunct()}; }
  static Union nothing() { return {}; }
  /// Returns a union that is not known, and adds `op` (or, if `op` is null, the owner) to the opaque ops.
  Union unknown(Operation *op);
  /// Returns the pairs for which an expression is >= 0.
  static Union require(const MaskExpr &expr);

  Union conjoin(const Union &a, const Union &b);
  Union disjoin(Union a, const Union &b);

  /// Drops each conjunct that is a subset of another one.
  Union simplify(Union all) const;
  /// Drops each conjunct that is a subset of the union of two others. For example, the complement of `x and y or not(x)
  /// and z` is read as three conjuncts. One of them, `not(y) and not(z)`, is redundant; without dropping it, its bounds
  /// would spoil the bounds of the two others.
  static Union dropCases(Union all);

  //===------------------------------------------------------------------------------------------------------------===//
  // Piecewise values; nullopt stands for a result that is too large
  //===------------------------------------------------------------------------------------------------------------===//

  static std::optional<Pieces> make(const MaskExpr &expr);
  /// Returns `onTrue` where the condition `holds`, and `onFalse` where it `fails`.
  std::optional<Pieces> select(const Union &holds, const Pieces &onTrue, const Union &fails, const Pieces &onFalse);
  /// Applies a function of two values to each pair of pieces.
  std::optional<Pieces> combine(const Pieces &a, const Pieces &b,
                                function_ref<MaskExpr(const MaskExpr &, const MaskExpr &)> compute);
  std::optional<Pieces> getExtremum(const Pieces &a, const Pieces &b, bool isMin);
  /// Applies `ifNatural` to values that are >= 0, and `ifNegative` to negative values.
  std::optional<Pieces> getBySign(const Pieces &pieces, function_ref<MaskExpr(const MaskExpr &)> ifNatural,
                                  function_ref<MaskExpr(const MaskExpr &)> ifNegative);

private:
  Union limit(Union all);
  static std::optional<Pieces> limit(Pieces pieces);
  bool isEmpty(const MaskConjunct &conjunct) const;
  bool isSubset(const MaskConjunct &a, const MaskConjunct &b) const;

  MaskSet &set;
  Operation *owner;
};

} // namespace mlir::flash

#endif // FLASHC_LIB_ANALYSIS_MASKALGEBRA_H
