//===- MaskProver.h - what follows from constraints ---------------------------------------------------------------===//
#ifndef FLASHC_ANALYSIS_MASKPROVER_H
#define FLASHC_ANALYSIS_MASKPROVER_H

#include "flashc/Analysis/MaskSet.h"

namespace mlir::flash {

/// Proves that constraints contradict each other, by the rational simplex of MLIR's Presburger library. Only the answer
/// `true` is proven; `false` means unknown. After the space's budget is spent, nothing is proven.
class MaskProver {
public:
  explicit MaskProver(const MaskSpace &space, ArrayRef<MaskExpr> facts = {}) : space(space), facts(facts) {}

  /// Whether no integers satisfy all of the constraints, the facts and the definitions of quotients.
  bool isEmpty(ArrayRef<MaskExpr> constraints) const;
  /// Whether `conclusion >= 0` wherever the constraints hold.
  bool implies(ArrayRef<MaskExpr> constraints, const MaskExpr &conclusion) const;
  bool isNatural(const MaskExpr &expr) const { return implies({}, expr); }
  /// Returns an upper bound of `expr` where the constraints hold (the maximum over the rationals), or nullopt if there
  /// is none.
  std::optional<int64_t> getMost(ArrayRef<MaskExpr> constraints, const MaskExpr &expr) const;

private:
  const MaskSpace &space;
  ArrayRef<MaskExpr> facts;
};

/// Returns the greatest number of keys that a query sees, if constants in the mask determine it, as in a sliding window
/// or a chunk. Returns nullopt otherwise.
std::optional<int64_t> getMostKeys(const MaskSet &mask);

} // namespace mlir::flash

#endif // FLASHC_ANALYSIS_MASKPROVER_H
