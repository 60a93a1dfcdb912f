//===- SeenPositions.h - the keys that any query may see ----------------------------------------------------------===//
#ifndef FLASHC_DIALECT_FLASH_TRANSFORMS_SEENPOSITIONS_H
#define FLASHC_DIALECT_FLASH_TRANSFORMS_SEENPOSITIONS_H

#include "flashc/Analysis/MaskSet.h"
#include "flashc/Dialect/Flash/IR/Flash.h"
#include <optional>

namespace mlir::flash {

/// Bounds of the positions that a mask keeps pairs of: positions before `begin` and from `end` on are in no kept pair.
/// A null value is no bound. Rows outside of the bounds may hold anything, NaN too, so that products must not read them
/// even with a weight of 0.
struct SeenPositions {
  Value begin, end;
};

/// The numbers of queries and keys.
struct PairExtents {
  OpFoldResult queries, keys;
};

/// Emits, before `op`, a tile that has a mask, the bounds that data give to the keys (in the dual view, the queries) of
/// its batch and head. Such data are elements of an array that the mask reads (lengths, offsets, ids) or numbers that
/// it compares the key with. Where tiles follow segments (flash.segment_tile), the bounds are those of the keys that
/// the queries of the segment see. None if no data bound the keys, as with a causal mask or a window.
std::optional<SeenPositions> emitSeenPositions(StepOpInterface op, MaskView view, const PairExtents &extents);

} // namespace mlir::flash

#endif // FLASHC_DIALECT_FLASH_TRANSFORMS_SEENPOSITIONS_H
