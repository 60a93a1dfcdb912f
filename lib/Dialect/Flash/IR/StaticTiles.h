//===- StaticTiles.h - slices of static shape (private to the dialect) --------------------------------------------===//
//
// A tile has a static shape. Where it exceeds its sequence, the slice that exists is extracted and padded to the tile's
// shape with the identity of the op that reads it, and the result is cut back to the slice's size.
//
//===--------------------------------------------------------------------------------------------------------------===//
#ifndef FLASHC_LIB_DIALECT_FLASH_IR_STATICTILES_H
#define FLASHC_LIB_DIALECT_FLASH_IR_STATICTILES_H

#include "flashc/Dialect/Flash/IR/Flash.h"

namespace mlir::flash {

/// The extent that a tile of `size` elements has in its type: 64 for `affine.min(64, ...)`, the size of a tile that may
/// exceed its sequence. A size without a constant bound stays dynamic.
int64_t getTileExtent(OpFoldResult size);

/// Whether a tile of `size` elements (of any of `sizes`) is padded to its static extent.
bool mayStickOut(OpFoldResult size);
bool mayStickOut(ArrayRef<OpFoldResult> sizes);

/// `source[offsets][sizes]`, padded with `padding` to the static extents of `sizes`. Records the slice in `slices`.
Value extractTile(OpBuilder &b, Location loc, Value source, ArrayRef<OpFoldResult> offsets,
                  ArrayRef<OpFoldResult> sizes, float padding, SmallVectorImpl<Operation *> &slices);

/// `slice`, of `sizes` elements, padded with `padding` to the static extents of `sizes`.
Value padTile(OpBuilder &b, Location loc, Value slice, ArrayRef<OpFoldResult> sizes, float padding);

/// The part of a tile's `result` that exists: its first `sizes` elements.
Value cutTile(OpBuilder &b, Location loc, Value result, ArrayRef<OpFoldResult> sizes);

} // namespace mlir::flash

#endif // FLASHC_LIB_DIALECT_FLASH_IR_STATICTILES_H
