//===- MaskAlgebra.h - unions of conjunctions, and piecewise linear values ----------------------------------------===//
#ifndef FLASHC_LIB_ANALYSIS_MASKALGEBRA_H
#define FLASHC_LIB_ANALYSIS_MASKALGEBRA_H

#include "flashc/Analysis/MaskProver.h"

namespace mlir::flash {

/// What a mask is computed with, over the space of one set. Results that grow too large are taken as not understood.
class MaskAlgebra {
public:
  using Union = std::vector<MaskConjunct>;

  /// A value where a guard holds. The pieces of a value cover everything.
  struct Piece {
    MaskConjunct guard;
    MaskExpr value;
  };
  using Pieces = SmallVector<Piece, 1>;

  /// `owner` is the op that is noted in `set` as not understood where no other one is known.
  MaskAlgebra(MaskSet &set, Operation *owner) : set(set), owner(owner) {}

  //===------------------------------------------------------------------------------------------------------------===//
  // Unions
  //===------------------------------------------------------------------------------------------------------------===//

  static Union everything() { return {MaskConjunct()}; }
  static Union nothing() { return {}; }
  /// What is not understood may hold and may not.
  Union unknown(Operation *op);
  /// Where an expression is >= 0.
  static Union require(const MaskExpr &expr);

  Union conjoin(const Union &a, const Union &b);
  Union disjoin(Union a, const Union &b);

  /// Drops conjuncts that are inside others.
  Union simplify(Union all) const;
  /// Drops conjuncts that are inside two others together. The complement of `x and y or not(x) and z` is read as three,
  /// of which one, `not(y) and not(z)`, says nothing new, but would have bounds that fit neither case.
  static Union dropCases(Union all);

  //===------------------------------------------------------------------------------------------------------------===//
  // Values; nothing for what is too large
  //===------------------------------------------------------------------------------------------------------------===//

  static std::optional<Pieces> make(const MaskExpr &expr);
  /// `onTrue` where `holds`, `onFalse` where `fails`.
  std::optional<Pieces> select(const Union &holds, const Pieces &onTrue, const Union &fails, const Pieces &onFalse);
  /// A function of two values.
  std::optional<Pieces> combine(const Pieces &a, const Pieces &b,
                                function_ref<MaskExpr(const MaskExpr &, const MaskExpr &)> compute);
  std::optional<Pieces> getExtremum(const Pieces &a, const Pieces &b, bool isMin);
  /// One function where a value is >= 0, another one where it is negative.
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
