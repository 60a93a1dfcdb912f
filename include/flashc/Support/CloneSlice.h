//===- CloneSlice.h - a copy of what computes a value -------------------------------------------------------------===//
#ifndef FLASHC_SUPPORT_CLONESLICE_H
#define FLASHC_SUPPORT_CLONESLICE_H

#include "mlir/IR/Builders.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/Transforms/RegionUtils.h"

namespace flashc {

/// Clones the ops that compute `value` to the builder's insertion point, unless `mapping` already has `value`, and adds
/// it to `mapping`. The slice ends at values for which `leaf` returns a value: the replacement, or the value itself.
/// Returns null if it reaches a block argument that is no leaf.
inline mlir::Value cloneSlice(mlir::OpBuilder &b, mlir::Value value, mlir::IRMapping &mapping,
                              llvm::function_ref<mlir::Value(mlir::Value)> leaf) {
  if (mlir::Value known = mapping.lookupOrNull(value))
    return known;
  if (mlir::Value end = leaf(value)) {
    mapping.map(value, end);
    return end;
  }
  mlir::Operation *op = value.getDefiningOp();
  if (!op)
    return {};
  llvm::SetVector<mlir::Value> inputs(op->operand_begin(), op->operand_end());
  mlir::getUsedValuesDefinedAbove(op->getRegions(), inputs);
  for (mlir::Value input : inputs)
    if (!cloneSlice(b, input, mapping, leaf))
      return {};
  b.clone(*op, mapping);
  return mapping.lookup(value);
}

} // namespace flashc

#endif // FLASHC_SUPPORT_CLONESLICE_H
