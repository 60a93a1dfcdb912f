//===- StaticTiles.h - slices of static shape (private to the dialect) --------------------------------------------===//
//
// A tile has a static shape. Where a tile of an operand exceeds its sequence, only a slice of the tile exists. The
// slice is extracted, and padded to the tile's shape with a value that does not change the result. The result is cut
// back to the size of the slice that exists.
//
//===--------------------------------------------------------------------------------------------------------------===//
#ifndef FLASHC_LIB_DIALECT_FLASH_IR_STATICTILES_H
#define FLASHC_LIB_DIALECT_FLASH_IR_STATICTILES_H

#include "flashc/Dialect/Flash/IR/Flash.h"

namespace mlir::flash {

/// Returns the static extent of a tile of `size` elements. If `size` is `affine.min(64, ...)`, as for a tile that may
/// exceed its sequence, this is 64. Dynamic if `size` has no constant bound.
int64_t getTileExtent(OpFoldResult size);

/// Whether a dimension of `size` elements is padded to a larger static extent. The overload for `sizes` returns whether
/// one of the dimensions is padded in this way.
bool mayStickOut(OpFoldResult size);
bool mayStickOut(ArrayRef<OpFoldResult> sizes);

/// Extracts the slice `source[offsets][sizes]`, and pads it with `padding` to the static extents of `sizes`. Adds the
/// op that extracts the slice to `slices`.
Value extractTile(OpBuilder &b, Location loc, Value source, ArrayRef<OpFoldResult> offsets,
                  ArrayRef<OpFoldResult> sizes, float padding, SmallVectorImpl<Operation *> &slices);

/// Pads `slice`, whose sizes are `sizes`, with `padding` to the static extents of `sizes`.
Value padTile(OpBuilder &b, Location loc, Value slice, ArrayRef<OpFoldResult> sizes, float padding);

/// Returns the part of a tile's `result` that exists: the first elements of each dimension, as many as `sizes` says.
Value cutTile(OpBuilder &b, Location loc, Value result, ArrayRef<OpFoldResult> sizes);

} // namespace mlir::flash

#endif // FLASHC_LIB_DIALECT_FLASH_IR_STATICTILES_H
