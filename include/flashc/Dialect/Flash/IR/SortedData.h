//===- SortedData.h - reads of arrays in regions, and searches of sorted ones -------------------------------------===//
#ifndef FLASHC_DIALECT_FLASH_IR_SORTEDDATA_H
#define FLASHC_DIALECT_FLASH_IR_SORTEDDATA_H

#include "flashc/Dialect/Flash/IR/Flash.h"
#include "mlir/Dialect/Arith/IR/Arith.h"

#include <optional>

namespace mlir::flash {

/// A read of a scalar from an array: the array, and the indices that have to lie inside it.
struct ElementRead {
  Value array;
  MutableOperandRange indices;
};

/// The attribute on the outer op of a `max(min(index, last), 0)` that flash-tile adds to an index that is inside the
/// array for all queries and keys that exist.
inline constexpr StringLiteral kTileClampAttrName = "flash.tile_clamp";

/// Returns the read that `op` is: a tensor.extract, memref.load, flash.count_le or flash.nth. None for other ops.
std::optional<ElementRead> getElementRead(Operation *op);

/// Returns the index inside of the tile clamp that `position` is, or `position` itself.
Value stripTileClamp(Value position);

/// Returns the signed predicate that is equivalent with both sides exchanged; other predicates are returned unchanged.
arith::CmpIPredicate swapSides(arith::CmpIPredicate predicate);

/// Emits `x <predicate> limit` from functions that emit `x <= limit` and `x >= limit`, or if strict `x < limit` and
/// `x > limit`. Null if the predicate is unsigned.
Value emitSigned(OpBuilder &b, Location loc, arith::CmpIPredicate predicate,
                 llvm::function_ref<Value(bool isStrict)> atMost, llvm::function_ref<Value(bool isStrict)> atLeast);

/// Whether `value`, a value of `region`, depends on `argument`.
bool dependsOn(Value value, BlockArgument argument, Region &region);

/// Whether ops of `region` that have no effects other than reads compute `value` from values outside of the region and
/// from arguments for which `isLeaf` holds. `known` caches results.
bool isComputedFrom(Value value, Region &region, llvm::function_ref<bool(Value)> isLeaf, DenseMap<Value, bool> &known);

/// Emits the bounds on the key that are equivalent to `op`, a comparison in a mask with a `flash.count_le` of the key's
/// position (its canonical form). Null if `op` is no such comparison.
Value boundKeyByCount(OpBuilder &b, arith::CmpIOp op, Region &mask);

/// The magnitude of the results of flash.nth at positions that do not exist. Sums of a few of them fit 32 bits.
constexpr int64_t kFarPosition = int64_t(1) << 29;

/// Reads the element at `indices` of a tensor or memref.
Value readElement(OpBuilder &b, Location loc, Value array, ValueRange indices);

/// Reads the element at a position along the last dimension of an array; null after an error.
using ReadElement = llvm::function_ref<Value(OpBuilder &, Value position)>;

/// Emits the code of a flash.count_le of `value`, or a flash.nth at `position`, in arith and scf, for an array whose
/// last dimension has `extent` elements. `read` is called for positions that exist only. Null if `read` returns null.
Value expandSortedRead(OpBuilder &b, CountLeOp op, Value value, Value extent, ReadElement read);
Value expandSortedRead(OpBuilder &b, NthOp op, Value position, Value extent, ReadElement read);

/// The operands of flash.segment_tile. The last dimension of its array has `extent` elements.
struct SegmentTileOperands {
  Value tile, extent, length;
  int64_t tileSize;
};
/// Emits the code of flash.segment_tile. Returns its results; empty after an error.
SmallVector<Value> expandSegmentTile(OpBuilder &b, Location loc, const SegmentTileOperands &operands, ReadElement read);

/// Emits the code of `op`, which reads its tensor or memref in place.
Value expandInPlace(OpBuilder &b, CountLeOp op);
Value expandInPlace(OpBuilder &b, NthOp op);
SmallVector<Value> expandInPlace(OpBuilder &b, SegmentTileOp op);

/// Calls `action` for each search in `region` of `op`, whose queries are those of a flash.segment_tile, that is the
/// tile's segment for all of them: a search that counts the elements up to the query in the same line of the array.
void forEachSegmentCount(StepOpInterface op, Region &region, llvm::function_ref<void(CountLeOp)> action);

/// Emits the number of tiles of flash.segment_tile.
OpFoldResult countSegmentTiles(OpBuilder &b, Location loc, Value sorted, Value length, int64_t tileSize);

} // namespace mlir::flash

#endif // FLASHC_DIALECT_FLASH_IR_SORTEDDATA_H
