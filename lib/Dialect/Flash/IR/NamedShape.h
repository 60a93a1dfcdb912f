//===- NamedShape.h - constraints that the verifiers of the flash ops share ---------------------------------------===//
#ifndef FLASHC_LIB_DIALECT_FLASH_IR_NAMEDSHAPE_H
#define FLASHC_LIB_DIALECT_FLASH_IR_NAMEDSHAPE_H

#include "mlir/IR/BuiltinTypes.h"

namespace mlir::flash {

/// A value, the names of its extents (B, Hq, Nq, D, ...), and its required element type, or null if the element type is
/// verified elsewhere.
struct NamedShape {
  StringRef name;
  ShapedType type;
  SmallVector<StringRef, 5> extents;
  Type element = {};
};

inline bool isAttentionElement(Type type) { return type.isBF16() || type.isF16() || type.isF32(); }

/// C1: all values are tensors, or all are memrefs that are contiguous in the innermost dimension.
LogicalResult verifyBuffers(Operation *op, ArrayRef<NamedShape> values);
/// C2: the value has an extent for each name.
LogicalResult verifyRank(Operation *op, const NamedShape &value);
/// C3: the value has the required element type, if there is one.
LogicalResult verifyElement(Operation *op, const NamedShape &value);
/// Static extents of one name are equal. `getConstraint` returns the number of the constraint on an extent.
LogicalResult verifyExtents(Operation *op, ArrayRef<NamedShape> values,
                            function_ref<StringRef(StringRef extent)> getConstraint);
/// C10: the outputs are results of an op on tensors, and `outs` of an op on memrefs.
LogicalResult verifyNumOutputs(Operation *op, size_t numInputs, size_t numOutputs);

} // namespace mlir::flash

#endif // FLASHC_LIB_DIALECT_FLASH_IR_NAMEDSHAPE_H
