//===- SortedData.h - reads of arrays in regions, and searches of sorted ones -------------------------------------===//
#ifndef FLASHC_DIALECT_FLASH_IR_SORTEDDATA_H
#define FLASHC_DIALECT_FLASH_IR_SORTEDDATA_H

#include "flashc/Dialect/Flash/IR/Flash.h"

#include <optional>

namespace mlir::flash {

/// A scalar that is read from an array: which array, and the indices that have to lie inside it.
struct ElementRead {
  Value array;
  MutableOperandRange indices;
};

/// tensor.extract, memref.load, flash.count_le and flash.nth; nothing for another op.
std::optional<ElementRead> getElementRead(Operation *op);

/// What flash.nth gives at positions that do not exist is as far from 0 as 32 bits and a tile leave room for.
constexpr int64_t kFarPosition = (int64_t(1) << 31) - (int64_t(1) << 16);

/// Reads the element at a position along the last dimension of an array; null after an error.
using ReadElement = llvm::function_ref<Value(OpBuilder &, Value position)>;

/// The code of flash.count_le and flash.nth, in arith and scf, on an array whose last dimension has `extent` elements.
/// `read` is asked for positions that exist only. Null if it returns null.
Value expandCountLe(OpBuilder &b, Location loc, Value value, Value extent, ReadElement read);
Value expandNth(OpBuilder &b, Location loc, Value position, Value extent, ReadElement read);

/// The same for an op on a tensor or memref, read in place.
Value expandSortedRead(OpBuilder &b, CountLeOp op);
Value expandSortedRead(OpBuilder &b, NthOp op);

} // namespace mlir::flash

#endif // FLASHC_DIALECT_FLASH_IR_SORTEDDATA_H
