//===- LoopUtils.h - shared helpers of the loop passes ------------------------------------------------------------===//

#ifndef FLASHC_LIB_DIALECT_FLASH_TRANSFORMS_LOOPUTILS_H
#define FLASHC_LIB_DIALECT_FLASH_TRANSFORMS_LOOPUTILS_H

#include "flashc/Dialect/Flash/IR/Flash.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/IR/Operation.h"
#include "mlir/IR/PatternMatch.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/Twine.h"

namespace mlir::flash {

/// Reports why a pass cannot rewrite a loop nest, as in `static constexpr Refusal refuse{"swap loops"};`.
struct Refusal {
  StringLiteral action;

  /// Emits "cannot <action>: <reason>" as an error on `where`, with a note at `culprit`. Always returns a failure.
  LogicalResult operator()(Operation *where, const Twine &reason, Operation *culprit = nullptr) const {
    InFlightDiagnostic diag = where->emitError() << "cannot " << action << ": " << reason;
    if (culprit && culprit != where)
      diag.attachNote(culprit->getLoc()) << "see '" << culprit->getName() << "'";
    return diag;
  }
};

/// Applies `mapping` to the values among the offsets, sizes or strides of a slice. Constants stay.
inline SmallVector<OpFoldResult> remap(const IRMapping &mapping, ArrayRef<OpFoldResult> values) {
  return llvm::map_to_vector(values, [&](OpFoldResult value) -> OpFoldResult {
    if (auto dynamic = dyn_cast<Value>(value))
      return mapping.lookupOrDefault(dynamic);
    return value;
  });
}

/// Returns the loop around `op` if, in each iteration, `op` updates every value that the loop carries. Such a value is
/// a state of `op`. If a state moves with the streamed dimension, the value is a tensor of which `op` replaces one
/// slice. Null for other loops.
scf::ForOp getFoldingLoop(StepOpInterface op);

/// Replaces reads of extents of `view`, which is the result of an op that says its extents, by values that do not need
/// the op.
void replaceDims(RewriterBase &rewriter, OpResult view);

/// Whether the only effects of `op` and of its regions are reads.
inline bool onlyReads(Operation *op) {
  std::optional<SmallVector<MemoryEffects::EffectInstance>> effects = getEffectsRecursively(op);
  return effects && llvm::all_of(*effects, [](const auto &e) { return isa<MemoryEffects::Read>(e.getEffect()); });
}

} // namespace mlir::flash

#endif // FLASHC_LIB_DIALECT_FLASH_TRANSFORMS_LOOPUTILS_H
