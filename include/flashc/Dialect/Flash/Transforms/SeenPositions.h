//===- SeenPositions.h - the keys that any query may see ----------------------------------------------------------===//
#ifndef FLASHC_DIALECT_FLASH_TRANSFORMS_SEENPOSITIONS_H
#define FLASHC_DIALECT_FLASH_TRANSFORMS_SEENPOSITIONS_H

#include "flashc/Analysis/MaskSet.h"
#include "flashc/Dialect/Flash/IR/Flash.h"
#include <optional>

namespace mlir::flash {

/// Bounds of the positions of which a mask keeps pairs: the mask keeps no pair of a position before `begin`, or of one
/// from `end` on. A null value is no bound. Rows outside of the bounds may hold anything, even NaN, so products must
/// not read them, not even with a weight of 0.
struct SeenPositions {
  Value begin, end;
};

/// The numbers of queries and keys.
struct PairExtents {
  OpFoldResult queries, keys;
};

/// Returns the bounds that data give to the keys of a tile's batch and head (in the dual view, to the queries). `op` is
/// the tile and has a mask; code for the bounds is emitted before `op`. Data are elements of an array that the mask
/// reads (lengths, offsets, ids), or numbers that the mask compares the key with. If tiles follow segments
/// (flash.segment_tile), these are the bounds of the keys that the queries of the segment see. None if the mask has no
/// bounds by data, as a causal mask or a window.
std::optional<SeenPositions> emitSeenPositions(StepOpInterface op, MaskView view, const PairExtents &extents);

} // namespace mlir::flash

#endif // FLASHC_DIALECT_FLASH_TRANSFORMS_SEENPOSITIONS_H
