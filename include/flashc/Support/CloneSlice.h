//===- CloneSlice.h - a copy of what computes a value -------------------------------------------------------------===//
#ifndef FLASHC_SUPPORT_CLONESLICE_H
#define FLASHC_SUPPORT_CLONESLICE_H

#include "mlir/IR/Builders.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/Transforms/RegionUtils.h"

namespace flashc {

/// Returns the copy of `value` in `mapping`. If there is none yet, clones the ops that compute `value` at the builder's
/// insertion point, and adds the copies to `mapping`. If `leaf` returns a value for an operand of such an op, the clone
/// uses this value, and the ops that compute the operand are not cloned. Returns null if an operand is a block argument
/// for which `leaf` returns null.
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
