//===- EightBits.h - quantised elements of 8-bit caches -----------------------------------------------------------===//
#ifndef FLASHC_DIALECT_FLASH_IR_EIGHTBITS_H
#define FLASHC_DIALECT_FLASH_IR_EIGHTBITS_H

#include "mlir/IR/ImplicitLocOpBuilder.h"

namespace mlir::flash {

/// Rounds the f32 `value` / `scale` to `type`, f8E4M3FN or i8, to the nearest element (ties to even), saturated.
/// Returns the bits as an i8. NaN becomes NaN in f8E4M3FN, and 0 in i8.
Value emitQuantised(ImplicitLocOpBuilder &b, Value value, Value scale, Type type);

} // namespace mlir::flash

#endif // FLASHC_DIALECT_FLASH_IR_EIGHTBITS_H
