//===- SortedData.h - reads of arrays in regions, and searches of sorted ones -------------------------------------===//
#ifndef FLASHC_DIALECT_FLASH_IR_SORTEDDATA_H
#define FLASHC_DIALECT_FLASH_IR_SORTEDDATA_H

#include "flashc/Dialect/Flash/IR/Flash.h"
#include "mlir/Dialect/Arith/IR/Arith.h"

#include <optional>

namespace mlir::flash {

/// A read of a scalar from an array. All indices must lie inside of the array.
struct ElementRead {
  Value array;
  MutableOperandRange indices;
};

/// flash-tile clamps an index to its array by `max(min(index, last), 0)`, because pairs beyond the last query or key
/// may lead out of the array. For pairs that exist the clamp changes nothing. The max op has this attribute.
inline constexpr StringLiteral kTileClampAttrName = "flash.tile_clamp";

/// If `op` is a tensor.extract, memref.load, flash.count_le or flash.nth, returns what it reads. None for other ops.
std::optional<ElementRead> getElementRead(Operation *op);

/// If `position` is the result of a clamp by flash-tile (kTileClampAttrName), returns the index that is clamped.
/// Otherwise returns `position`.
Value stripTileClamp(Value position);

/// If `predicate` is signed, returns the predicate `q` for which `y q x` is equivalent to `x predicate y`. Returns
/// other predicates unchanged.
arith::CmpIPredicate swapSides(arith::CmpIPredicate predicate);

/// Emits `x <predicate> limit` by two functions of the caller: `atMost` emits `x <= limit`, or `x < limit` if
/// `isStrict`; `atLeast` emits `x >= limit`, or `x > limit` if `isStrict`. Null if the predicate is unsigned.
Value emitSigned(OpBuilder &b, Location loc, arith::CmpIPredicate predicate,
                 llvm::function_ref<Value(bool isStrict)> atMost, llvm::function_ref<Value(bool isStrict)> atLeast);

/// Whether `value`, a value of `region`, depends on `argument`.
bool dependsOn(Value value, BlockArgument argument, Region &region);

/// Whether `value` is computed only from values for which `isLeaf` holds, by ops of `region` that have no effects but
/// reads. `isLeaf` is asked about block arguments, and about values from outside of `region`. `known` caches results.
bool isComputedFrom(Value value, Region &region, llvm::function_ref<bool(Value)> isLeaf, DenseMap<Value, bool> &known);

/// `op` is a comparison in the mask region `mask`, in canonical form. If it compares a flash.count_le of the key's
/// position with a value that does not depend on the key, emits equivalent bounds on the key's position. Null for other
/// comparisons.
Value boundKeyByCount(OpBuilder &b, arith::CmpIOp op, Region &mask);

/// flash.nth returns plus or minus this number at positions that do not exist. Sums of a few such numbers fit 32 bits.
constexpr int64_t kFarPosition = int64_t(1) << 29;

/// Reads the element at `indices` of a tensor or memref.
Value readElement(OpBuilder &b, Location loc, Value array, ValueRange indices);

/// Emits a read of the element at `position` along the last dimension of an array. Null after an error.
using ReadElement = llvm::function_ref<Value(OpBuilder &, Value position)>;

/// Emits the code of a flash.count_le of `value`, or of a flash.nth at `position`, in arith and scf. The last dimension
/// of the array has `extent` elements. `read` is only called for positions that exist. Returns null if `read` returns
/// null.
Value expandSortedRead(OpBuilder &b, CountLeOp op, Value value, Value extent, ReadElement read);
Value expandSortedRead(OpBuilder &b, NthOp op, Value position, Value extent, ReadElement read);

/// The operands of flash.segment_tile. `extent` is the number of elements along the last dimension of the op's array.
struct SegmentTileOperands {
  Value tile, extent, length;
  int64_t tileSize;
};
/// Emits the code of flash.segment_tile. Returns its results; empty after an error.
SmallVector<Value> expandSegmentTile(OpBuilder &b, Location loc, const SegmentTileOperands &operands, ReadElement read);

/// Emits the code of `op` with reads of its tensor or memref.
Value expandInPlace(OpBuilder &b, CountLeOp op);
Value expandInPlace(OpBuilder &b, NthOp op);
SmallVector<Value> expandInPlace(OpBuilder &b, SegmentTileOp op);

/// Does nothing unless the queries of `op` are the tile of a flash.segment_tile. Otherwise calls `action` for each
/// flash.count_le in `region` that counts the elements up to the query in the array that the flash.segment_tile
/// searches. This count is the same for all queries of the tile: the number of the tile's segment.
void forEachSegmentCount(StepOpInterface op, Region &region, llvm::function_ref<void(CountLeOp)> action);

/// Emits the number of tiles from which flash.segment_tile chooses (`count` in its description).
OpFoldResult countSegmentTiles(OpBuilder &b, Location loc, Value sorted, Value length, int64_t tileSize);

/// Emits the number of packed sequences that `offsets` has (S in the description of flash.unpack_rows).
OpFoldResult countSequences(OpBuilder &b, Location loc, Value offsets);
/// Emits the sequence of a row before which, or at which, `begun` of `offsets` begin.
Value emitSequence(OpBuilder &b, Location loc, Value begun, Value offsets);

} // namespace mlir::flash

#endif // FLASHC_DIALECT_FLASH_IR_SORTEDDATA_H
