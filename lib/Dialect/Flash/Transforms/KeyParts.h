//===- KeyParts.h - parts of a tile's keys, side by side: Flash-Decoding ------------------------------------------===//
#ifndef FLASHC_LIB_DIALECT_FLASH_TRANSFORMS_KEYPARTS_H
#define FLASHC_LIB_DIALECT_FLASH_TRANSFORMS_KEYPARTS_H

#include "mlir/Dialect/SCF/IR/SCF.h"

namespace mlir::flash {

/// Where part `part` of `parts` begins and ends, of the keys from `begin` to `end` in equally many tiles of `tile`.
std::pair<OpFoldResult, OpFoldResult> emitKeysOfPart(OpBuilder &b, Location loc, OpFoldResult begin, OpFoldResult end,
                                                     Value part, int64_t parts, int64_t tile);

/// Writes o or lse of a tile to its place in `output`, an argument of the parallel loop, at the builder's insertion
/// point, behind all of the loop's body. `offsets` and `sizes` are those of o in [B, Hq, Nq, Dv]; lse has no last one.
/// With `part`, which is null where there is one, `output` has parts outermost. Rows of the tile that do not exist are
/// cut off.
void emitWriteOfPart(OpBuilder &b, Value result, BlockArgument output, ArrayRef<OpFoldResult> offsets,
                     ArrayRef<OpFoldResult> sizes, Value part);

} // namespace mlir::flash

#endif // FLASHC_LIB_DIALECT_FLASH_TRANSFORMS_KEYPARTS_H
