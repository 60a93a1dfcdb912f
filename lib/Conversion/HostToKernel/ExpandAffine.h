//===- ExpandAffine.h - affine ops as arith -----------------------------------------------------------------------===//
#ifndef FLASHC_LIB_CONVERSION_HOSTTOKERNEL_EXPANDAFFINE_H
#define FLASHC_LIB_CONVERSION_HOSTTOKERNEL_EXPANDAFFINE_H

#include "mlir/IR/Builders.h"

namespace flashc {

/// What an affine.apply, affine.min or affine.max computes of `operands`, as arith; nothing if `op` is another op.
mlir::Value expandAffine(mlir::OpBuilder &b, mlir::Operation *op, mlir::ValueRange operands);

} // namespace flashc

#endif // FLASHC_LIB_CONVERSION_HOSTTOKERNEL_EXPANDAFFINE_H
