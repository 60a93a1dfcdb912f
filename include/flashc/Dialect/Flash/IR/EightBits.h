//===- EightBits.h - quantised elements of 8-bit caches -----------------------------------------------------------===//
#ifndef FLASHC_DIALECT_FLASH_IR_EIGHTBITS_H
#define FLASHC_DIALECT_FLASH_IR_EIGHTBITS_H

#include "mlir/IR/ImplicitLocOpBuilder.h"

namespace mlir::flash {

/// Divides the f32 `value` by `scale`, and rounds the quotient to the nearest element of `type`, which is f8E4M3FN or
/// i8. Ties go to the even element, and quotients outside of the range become the least or greatest element. NaN
/// becomes NaN in f8E4M3FN, and 0 in i8. Returns the bits of the element as an i8.
Value emitQuantised(ImplicitLocOpBuilder &b, Value value, Value scale, Type type);

} // namespace mlir::flash

#endif // FLASHC_DIALECT_FLASH_IR_EIGHTBITS_H
