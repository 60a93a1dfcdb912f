//===- KeyParts.h - parts of a tile's keys that run in parallel: Flash-Decoding -----------------------------------===//
#ifndef FLASHC_LIB_DIALECT_FLASH_TRANSFORMS_KEYPARTS_H
#define FLASHC_LIB_DIALECT_FLASH_TRANSFORMS_KEYPARTS_H

#include "mlir/Dialect/SCF/IR/SCF.h"

namespace mlir::flash {

/// The begin and the end of part `part`, if the keys from `begin` to `end` are divided into `parts` parts of equally
/// many tiles of `tile` keys.
std::pair<OpFoldResult, OpFoldResult> emitKeysOfPart(OpBuilder &b, Location loc, OpFoldResult begin, OpFoldResult end,
                                                     Value part, int64_t parts, int64_t tile);

/// Writes o or lse of a tile to `output`, an argument of the parallel loop, at the builder's insertion point, which is
/// after the loop's body. `offsets` and `sizes` are those of o in [B, Hq, Nq, Dv]; the last one is ignored for lse.
/// `output` has a leading dimension of parts unless `part` is null (there is one part). Rows of the tile that do not
/// exist are cut off.
void emitWriteOfPart(OpBuilder &b, Value result, BlockArgument output, ArrayRef<OpFoldResult> offsets,
                     ArrayRef<OpFoldResult> sizes, Value part);

} // namespace mlir::flash

#endif // FLASHC_LIB_DIALECT_FLASH_TRANSFORMS_KEYPARTS_H
