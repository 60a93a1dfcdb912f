//===- EightBits.h - numbers of caches of 8 bits ------------------------------------------------------------------===//
#ifndef FLASHC_DIALECT_FLASH_IR_EIGHTBITS_H
#define FLASHC_DIALECT_FLASH_IR_EIGHTBITS_H

#include "mlir/IR/ImplicitLocOpBuilder.h"

namespace mlir::flash {

/// The bits, an i8, of the element of type `type`, f8E4M3FN or i8, that is nearest to the f32 `value` over `scale`: to
/// the even one of two, saturated. NaN is NaN of f8E4M3FN, and 0 of i8.
Value emitQuantised(ImplicitLocOpBuilder &b, Value value, Value scale, Type type);

} // namespace mlir::flash

#endif // FLASHC_DIALECT_FLASH_IR_EIGHTBITS_H
