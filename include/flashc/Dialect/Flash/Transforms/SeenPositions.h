//===- SeenPositions.h - which keys any query sees ----------------------------------------------------------------===//
#ifndef FLASHC_DIALECT_FLASH_TRANSFORMS_SEENPOSITIONS_H
#define FLASHC_DIALECT_FLASH_TRANSFORMS_SEENPOSITIONS_H

#include "flashc/Analysis/MaskSet.h"
#include "flashc/Dialect/Flash/IR/Flash.h"
#include <optional>

namespace mlir::flash {

/// Positions before `begin` and from `end` on take part in no pair that a mask keeps; null where there is no such
/// bound. Their rows may hold anything, NaN too, so that no product may add them up with a weight of 0.
struct SeenPositions {
  Value begin, end;
};

/// How many queries and keys there are.
struct PairExtents {
  OpFoldResult queries, keys;
};

/// Where data bounds the keys (in the dual view, the queries) of the batch and head of `op`, a tile that has a mask: an
/// element of an array that the mask reads, as a length, an offset or an id, or a number that it compares the key with.
/// Where tiles follow segments (flash.segment_tile), the keys that the queries of the segment see. Emits the bounds in
/// front of `op`. None where data bounds nothing, as with a causal mask or a window of positions alone.
std::optional<SeenPositions> emitSeenPositions(StepOpInterface op, MaskView view, const PairExtents &extents);

} // namespace mlir::flash

#endif // FLASHC_DIALECT_FLASH_TRANSFORMS_SEENPOSITIONS_H
