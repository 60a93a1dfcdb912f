//===- NamedShape.h - constraints that the verifiers of the flash ops share ---------------------------------------===//
#ifndef FLASHC_LIB_DIALECT_FLASH_IR_NAMEDSHAPE_H
#define FLASHC_LIB_DIALECT_FLASH_IR_NAMEDSHAPE_H

#include "mlir/IR/BuiltinTypes.h"

namespace mlir::flash {

/// A value, the names of its extents (B, Hq, Nq, D, ...), and its required element type. `element` is null if the
/// element type is verified elsewhere.
struct NamedShape {
  StringRef name;
  ShapedType type;
  SmallVector<StringRef, 5> extents;
  Type element = {};
};

inline bool isAttentionElement(Type type) { return type.isBF16() || type.isF16() || type.isF32(); }

/// Verifies C1: all values are tensors, or all are memrefs that are contiguous in the innermost dimension.
LogicalResult verifyBuffers(Operation *op, ArrayRef<NamedShape> values);
/// Verifies C2: the value has an extent for each name.
LogicalResult verifyRank(Operation *op, const NamedShape &value);
/// Verifies C3: the value has the required element type, if there is one.
LogicalResult verifyElement(Operation *op, const NamedShape &value);
/// Verifies that static extents of the same name are equal. `getConstraint` returns the number of the constraint on an
/// extent, for the error.
LogicalResult verifyExtents(Operation *op, ArrayRef<NamedShape> values,
                            function_ref<StringRef(StringRef extent)> getConstraint);
/// Verifies C10: an op on tensors returns its outputs as results, and an op on memrefs has its outputs as `outs`.
LogicalResult verifyNumOutputs(Operation *op, size_t numInputs, size_t numOutputs);

} // namespace mlir::flash

#endif // FLASHC_LIB_DIALECT_FLASH_IR_NAMEDSHAPE_H
