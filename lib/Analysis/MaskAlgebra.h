//===- MaskAlgebra.h - unions of conjunctions, and piecewise linear values ----------------------------------------===//
#ifndef FLASHC_LIB_ANALYSIS_MASKALGEBRA_H
#define FLASHC_LIB_ANALYSIS_MASKALGEBRA_H

#include "flashc/Analysis/MaskProver.h"

namespace mlir::flash {

/// Operations on unions and piecewise linear values over the space of one mask. Results that grow too large become
/// unknown.
class MaskAlgebra {
public:
  using Union = std::vector<MaskConjunct>;

  /// A piece of a piecewise value: it has this value where the guard holds. The guards of all pieces cover everything.
  struct Piece {
    MaskConjunct guard;
    MaskExpr value;
  };
  using Pieces = SmallVector<Piece, 1>;

  /// `owner` is the op that is added to `set.opaque` where no other op is the reason.
  MaskAlgebra(MaskSet &set, Operation *owner) : set(set), owner(owner) {}

  //===------------------------------------------------------------------------------------------------------------===//
  // Unions
  //===------------------------------------------------------------------------------------------------------------===//

  static Union everything() { return {MaskConjunct()}; }
  static Union nothing() { return {}; }
  /// Returns an unknown condition, and adds `op` (or the owner) to the opaque ops.
  Union unknown(Operation *op);
  /// Returns the pairs for which an expression is >= 0.
  static Union require(const MaskExpr &expr);

  Union conjoin(const Union &a, const Union &b);
  Union disjoin(Union a, const Union &b);

  /// Drops each conjunct that is a subset of another one.
  Union simplify(Union all) const;
  /// Drops each conjunct that is a subset of the union of two others. The complement of `x and y or not(x) and z` is
  /// read as three conjuncts, of which one, `not(y) and not(z)`, is redundant, but its bounds would fit neither case.
  static Union dropCases(Union all);

  //===------------------------------------------------------------------------------------------------------------===//
  // Values; nullopt for results that are too large
  //===------------------------------------------------------------------------------------------------------------===//

  static std::optional<Pieces> make(const MaskExpr &expr);
  /// Returns `onTrue` where `holds`, and `onFalse` where `fails`.
  std::optional<Pieces> select(const Union &holds, const Pieces &onTrue, const Union &fails, const Pieces &onFalse);
  /// Applies a function of two values to each pair of pieces.
  std::optional<Pieces> combine(const Pieces &a, const Pieces &b,
                                function_ref<MaskExpr(const MaskExpr &, const MaskExpr &)> compute);
  std::optional<Pieces> getExtremum(const Pieces &a, const Pieces &b, bool isMin);
  /// Applies one function where a value is >= 0, and another one where it is negative.
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
