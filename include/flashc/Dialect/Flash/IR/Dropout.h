//===- Dropout.h - which probabilities are dropped ----------------------------------------------------------------===//
#ifndef FLASHC_DIALECT_FLASH_IR_DROPOUT_H
#define FLASHC_DIALECT_FLASH_IR_DROPOUT_H

#include "mlir/IR/Builders.h"
#include "llvm/ADT/APFloat.h"

namespace mlir::flash {

/// The dropout of an op: its random state and its rate.
struct Dropout {
  Dropout(Value philox, std::optional<llvm::APFloat> p) : philox(philox), p(p ? p->convertToFloat() : 0.0f) {}

  /// The rate in units of 1/256. An element is kept if its random byte is greater than or equal to this number.
  int64_t getThreshold() const;
  /// The factor of elements that are kept: 1 / (1 - rate).
  double getScale() const { return 256.0 / double(256 - getThreshold()); }

  Value philox; // [2] i64: the seed and the offset
  float p;
};

/// Emits an i1 that says whether dropout keeps the element at `position` (b, h, i, j), four values of type index.
/// `seed` and `offset` are i64.
Value emitIsKept(OpBuilder &b, Location loc, const Dropout &dropout, Value seed, Value offset,
                 ArrayRef<Value> position);

} // namespace mlir::flash

#endif // FLASHC_DIALECT_FLASH_IR_DROPOUT_H
