//===- SeenPositions.h - the keys that any query may see ----------------------------------------------------------===//
#ifndef FLASHC_DIALECT_FLASH_TRANSFORMS_SEENPOSITIONS_H
#define FLASHC_DIALECT_FLASH_TRANSFORMS_SEENPOSITIONS_H

#include "flashc/Analysis/MaskSet.h"
#include "flashc/Dialect/Flash/IR/Flash.h"
#include <optional>

namespace mlir::flash {

/// The range of positions that a mask uses: the mask keeps no pair of a position before `begin`, and no pair of a
/// position from `end` on. If `begin` or `end` is null, there is no bound on that side. Rows outside of the range may
/// hold anything, even NaN, so products must not read them, not even with a weight of 0.
struct SeenPositions {
  Value begin, end;
};

/// The numbers of queries and keys.
struct PairExtents {
  OpFoldResult queries, keys;
};

/// Returns bounds that data give to the keys in the batch and head of a tile (in the dual view, to the queries). `op`
/// is the tile and has a mask; code for the bounds is emitted before `op`. Data are elements of an array that the mask
/// reads (lengths, offsets, ids), or numbers that the mask compares the key with. If tiles follow segments
/// (flash.segment_tile), the result bounds the keys that the queries of the segment see. None if data do not bound the
/// mask; they do not bound a causal mask or a window.
std::optional<SeenPositions> emitSeenPositions(StepOpInterface op, MaskView view, const PairExtents &extents);

} // namespace mlir::flash

#endif // FLASHC_DIALECT_FLASH_TRANSFORMS_SEENPOSITIONS_H
