//===- IndexPasses.h - passes for indices into arrays; described in IndexPasses.td --------------------------------===//
#ifndef FLASHC_DIALECT_FLASH_TRANSFORMS_INDEXPASSES_H
#define FLASHC_DIALECT_FLASH_TRANSFORMS_INDEXPASSES_H

#include "mlir/Pass/Pass.h"

namespace mlir::func {
class FuncOp;
} // namespace mlir::func

namespace mlir::flash {
#define GEN_PASS_DECL
#define GEN_PASS_REGISTRATION
#include "flashc/Dialect/Flash/Transforms/IndexPasses.h.inc"

/// Replaces every flash.wrap_index inside of `root` (flash-wrap-indices). Returns how many were replaced by the index
/// itself, since the index is never negative, and how many by a select.
std::pair<int64_t, int64_t> wrapIndices(Operation *root);

} // namespace mlir::flash

#endif // FLASHC_DIALECT_FLASH_TRANSFORMS_INDEXPASSES_H
