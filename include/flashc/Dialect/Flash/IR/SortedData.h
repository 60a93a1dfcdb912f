//===- SortedData.h - reads of arrays in regions, and searches of sorted ones -------------------------------------===//
#ifndef FLASHC_DIALECT_FLASH_IR_SORTEDDATA_H
#define FLASHC_DIALECT_FLASH_IR_SORTEDDATA_H

#include "flashc/Dialect/Flash/IR/Flash.h"
#include "mlir/Dialect/Arith/IR/Arith.h"

#include <optional>

namespace mlir::flash {

/// A scalar that is read from an array: which array, and the indices that have to lie inside it.
struct ElementRead {
  Value array;
  MutableOperandRange indices;
};

/// On the outer op of `max(min(index, last), 0)`: flash-tile has put it around an index that is inside the array for
/// all queries and keys that exist.
inline constexpr StringLiteral kTileClampAttrName = "flash.tile_clamp";

/// tensor.extract, memref.load, flash.count_le and flash.nth; nothing for another op.
std::optional<ElementRead> getElementRead(Operation *op);

/// A position without that.
Value stripTileClamp(Value position);

/// The signed predicate that holds with both sides exchanged; others stay.
arith::CmpIPredicate swapSides(arith::CmpIPredicate predicate);

/// `x <predicate> limit`, from what makes `x <= limit` and `x >= limit` of it, or `<` and `>` if they are to be strict;
/// null if it is unsigned.
Value emitSigned(OpBuilder &b, Location loc, arith::CmpIPredicate predicate,
                 llvm::function_ref<Value(bool isStrict)> atMost, llvm::function_ref<Value(bool isStrict)> atLeast);

/// Whether `value`, of `region`, depends on `argument`.
bool dependsOn(Value value, BlockArgument argument, Region &region);

/// Whether `value` is computed, by ops of `region` that only read, from values outside of the region and its arguments
/// that `isLeaf` holds of. `known` has what was asked before.
bool isComputedFrom(Value value, Region &region, llvm::function_ref<bool(Value)> isLeaf, DenseMap<Value, bool> &known);

/// Makes the bounds on the key that a comparison in a mask with `flash.count_le` of the key's position says (its
/// canonical form); null if it is no such comparison.
Value boundKeyByCount(OpBuilder &b, arith::CmpIOp op, Region &mask);

/// How far from 0 lies what flash.nth gives at positions that do not exist: bounds add and subtract a few of them in 32
/// bits.
constexpr int64_t kFarPosition = int64_t(1) << 29;

/// The element of a tensor or memref.
Value readElement(OpBuilder &b, Location loc, Value array, ValueRange indices);

/// Reads the element at a position along the last dimension of an array; null after an error.
using ReadElement = llvm::function_ref<Value(OpBuilder &, Value position)>;

/// The code of flash.count_le and flash.nth of `value`, in arith and scf, on an array whose last dimension has `extent`
/// elements. `read` is asked for positions that exist only. Null if it returns null.
Value expandSortedRead(OpBuilder &b, CountLeOp op, Value value, Value extent, ReadElement read);
Value expandSortedRead(OpBuilder &b, NthOp op, Value position, Value extent, ReadElement read);

/// What flash.segment_tile is computed from: the array is `extent` elements long.
struct SegmentTileOperands {
  Value tile, extent, length;
  int64_t tileSize;
};
/// The code of flash.segment_tile: its results, none after an error.
SmallVector<Value> expandSegmentTile(OpBuilder &b, Location loc, const SegmentTileOperands &operands, ReadElement read);

/// The same for an op on a tensor or memref, read in place.
Value expandInPlace(OpBuilder &b, CountLeOp op);
Value expandInPlace(OpBuilder &b, NthOp op);
SmallVector<Value> expandInPlace(OpBuilder &b, SegmentTileOp op);

/// Calls `action` for each search in a region of `op` that is the tile's segment for all queries of `op`, which are
/// those of a flash.segment_tile: it counts the elements up to the query, in the same line.
void forEachSegmentCount(StepOpInterface op, Region &region, llvm::function_ref<void(CountLeOp)> action);

/// How many tiles flash.segment_tile numbers.
OpFoldResult countSegmentTiles(OpBuilder &b, Location loc, Value sorted, Value length, int64_t tileSize);

} // namespace mlir::flash

#endif // FLASHC_DIALECT_FLASH_IR_SORTEDDATA_H
