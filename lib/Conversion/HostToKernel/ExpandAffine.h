//===- ExpandAffine.h - affine ops as arith -----------------------------------------------------------------------===//
#ifndef FLASHC_LIB_CONVERSION_HOSTTOKERNEL_EXPANDAFFINE_H
#define FLASHC_LIB_CONVERSION_HOSTTOKERNEL_EXPANDAFFINE_H

#include "mlir/IR/Builders.h"

namespace flashc {

/// Emits the value of an affine.apply, affine.min or affine.max of `operands` as arith. Null if `op` is another op.
mlir::Value expandAffine(mlir::OpBuilder &b, mlir::Operation *op, mlir::ValueRange operands);

} // namespace flashc

#endif // FLASHC_LIB_CONVERSION_HOSTTOKERNEL_EXPANDAFFINE_H
