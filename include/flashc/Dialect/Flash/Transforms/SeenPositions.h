//===- SeenPositions.h - the keys that any query may see ----------------------------------------------------------===//
#ifndef FLASHC_DIALECT_FLASH_TRANSFORMS_SEENPOSITIONS_H
#define FLASHC_DIALECT_FLASH_TRANSFORMS_SEENPOSITIONS_H

#include "flashc/Analysis/MaskSet.h"
#include "flashc/Dialect/Flash/IR/Flash.h"
#include <optional>

namespace mlir::flash {

/// The range of positions that a mask uses: the mask keeps no pair of a position before `begin`, and no pair of a
/// position from `end` on. If `begin` or `end` is null, there is no bound on that side. Rows outside of the range may
/// hold anything, even NaN. So products must not read them, not even with a weight of 0.
struct SeenPositions {
  Value begin, end;
};

/// The numbers of queries and keys.
struct PairExtents {
  OpFoldResult queries, keys;
};

/// Returns the range of the keys that the batch and head of `op` see, as far as data bound this range. In the dual
/// view, returns the range of the queries. `op` is a tile with a mask; the code for the bounds is emitted before it.
/// Data are elements of an array that the mask reads (lengths, offsets, ids), or numbers that the mask compares the key
/// with. If tiles follow segments (flash.segment_tile), the range is that of the keys which the queries of the segment
/// see. None if the mask has no bound by data: a causal mask has none, and neither has a window.
std::optional<SeenPositions> emitSeenPositions(StepOpInterface op, MaskView view, const PairExtents &extents);

} // namespace mlir::flash

#endif // FLASHC_DIALECT_FLASH_TRANSFORMS_SEENPOSITIONS_H
