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

private:
  const MaskSpace &space;
  ArrayRef<MaskExpr> facts;
};

} // namespace mlir::flash

#endif // FLASHC_ANALYSIS_MASKPROVER_H
