//===- QueryTiles.h - the loop over tiles of queries, and its tiles in packed sequences ---------------------------===//
#ifndef FLASHC_LIB_DIALECT_FLASH_TRANSFORMS_QUERYTILES_H
#define FLASHC_LIB_DIALECT_FLASH_TRANSFORMS_QUERYTILES_H

#include "flashc/Dialect/Flash/IR/Flash.h"
#include "mlir/Dialect/Affine/IR/AffineOps.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

namespace mlir::flash {

/// A loop over tiles of queries, from query 0 on.
struct QueryTiles {
  OnlineAttentionOp op;
  scf::ForOp loop;
  int64_t tile;
  /// The ops that compute the sizes of slices. Each is the minimum of the tile size and the number of queries from the
  /// tile's begin on.
  SmallVector<affine::AffineMinOp> sizes;

  /// Whether tiles may have fewer queries than `tile`, and each slice that the loop inserts has a size of `sizes` in
  /// the dimension in which the loop moves it.
  bool mayBeShort() const;
};

/// Matches the loop over the tiles of queries of `op`. None if there is no such loop.
std::optional<QueryTiles> matchQueryTiles(OnlineAttentionOp op);

/// Replaces the loop over `tiles` by one over the tiles of each segment of `sorted`, a line of which is at `indices`.
/// The number of tiles is computed before `anchor`. Returns the op that finds a tile.
SegmentTileOp cutIntoSegments(QueryTiles &tiles, Operation *anchor, Value sorted, ValueRange indices);

} // namespace mlir::flash

#endif // FLASHC_LIB_DIALECT_FLASH_TRANSFORMS_QUERYTILES_H
