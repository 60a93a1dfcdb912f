//===- KeyParts.h - parts of a tile's keys that run in parallel: Flash-Decoding -----------------------------------===//
#ifndef FLASHC_LIB_DIALECT_FLASH_TRANSFORMS_KEYPARTS_H
#define FLASHC_LIB_DIALECT_FLASH_TRANSFORMS_KEYPARTS_H

#include "flashc/Dialect/Flash/IR/Flash.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

namespace mlir::flash {

/// Returns the first tile of part number `part` of `count` tiles, and the tile after its last one. The numbers of tiles
/// of two parts differ by at most one. If `isByWork`, flash.part_size gives the number of tiles in a part, and the last
/// of `parts` parts may be empty.
std::pair<OpFoldResult, OpFoldResult> emitTilesOfPart(OpBuilder &b, Location loc, OpFoldResult count, Value part,
                                                      int64_t parts, bool isByWork);

/// Returns the begin and the end of part number `part` of the keys from `begin` to `end`. The keys are divided into
/// `parts` parts of whole tiles of `tile` keys, as by emitTilesOfPart.
std::pair<OpFoldResult, OpFoldResult> emitKeysOfPart(OpBuilder &b, Location loc, OpFoldResult begin, OpFoldResult end,
                                                     Value part, int64_t parts, int64_t tile, bool isByWork = false);

/// Emits the size that a program on the CPU gives to parts.
Value expandInPlace(OpBuilder &b, PartSizeOp op);

/// Writes `result`, a tile of o or lse, to `output`, an argument of the parallel loop. The builder's insertion point
/// must be in the body of this loop. `offsets` and `sizes` are those of a tile of o in [B, Hq, Nq, Dv]; for lse the
/// last element of each is ignored. If there is only one part, `part` is null. Otherwise the first dimension of
/// `output` counts the parts. Rows of the tile that do not exist are cut off.
void emitWriteOfPart(OpBuilder &b, Value result, BlockArgument output, ArrayRef<OpFoldResult> offsets,
                     ArrayRef<OpFoldResult> sizes, Value part);

} // namespace mlir::flash

#endif // FLASHC_LIB_DIALECT_FLASH_TRANSFORMS_KEYPARTS_H
