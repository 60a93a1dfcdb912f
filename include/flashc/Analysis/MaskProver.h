//===- MaskProver.h - what follows from constraints ---------------------------------------------------------------===//
#ifndef FLASHC_ANALYSIS_MASKPROVER_H
#define FLASHC_ANALYSIS_MASKPROVER_H

#include "flashc/Analysis/MaskSet.h"

namespace mlir::flash {

/// Proves that constraints contradict each other, by the rational simplex of MLIR's Presburger library. What is not
/// proven may still be true: no answer but `true` says anything. When the space's budget is spent nothing is proven.
class MaskProver {
public:
  explicit MaskProver(const MaskSpace &space, ArrayRef<MaskExpr> facts = {}) : space(space), facts(facts) {}

  /// Whether no integers satisfy all constraints, the facts and the definitions of quotients.
  bool isEmpty(ArrayRef<MaskExpr> constraints) const;
  /// Whether `conclusion >= 0` wherever the constraints hold.
  bool implies(ArrayRef<MaskExpr> constraints, const MaskExpr &conclusion) const;
  bool isNatural(const MaskExpr &expr) const { return implies({}, expr); }
  /// What `expr` is at most where the constraints hold, by the rationals; nothing if it has no bound.
  std::optional<int64_t> getMost(ArrayRef<MaskExpr> constraints, const MaskExpr &expr) const;

private:
  const MaskSpace &space;
  ArrayRef<MaskExpr> facts;
};

/// How many keys any one query sees at most (a sliding window's, a chunk's), if the mask's constants say so.
std::optional<int64_t> getMostKeys(const MaskSet &mask);

} // namespace mlir::flash

#endif // FLASHC_ANALYSIS_MASKPROVER_H
