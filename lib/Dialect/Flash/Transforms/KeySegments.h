//===- KeySegments.h - the loops over key tiles that the bounds of a mask give ------------------------------------===//
#ifndef FLASHC_LIB_DIALECT_FLASH_TRANSFORMS_KEYSEGMENTS_H
#define FLASHC_LIB_DIALECT_FLASH_TRANSFORMS_KEYSEGMENTS_H

#include "flashc/Analysis/MaskBounds.h"
#include "flashc/Dialect/Flash/IR/Flash.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

namespace mlir::flash {

/// Consecutive tiles of the streamed dimension (called keys here, as in attention) that are all full, or that all need
/// the mask.
struct KeySegment {
  OpFoldResult begin, end;
  bool isFull;
};

/// Tiles of keys at `begin`, `begin` + tile, ... < `end`, for `count` queries from `first` on. Their bounds are
/// computed at `place`.
struct KeyRange {
  OpBuilder place;
  OpFoldResult begin, end;
  Value first;
  OpFoldResult count;
  /// Whether `count` may be 0, in which case no tile is visited.
  bool mayBeEmpty = false;

  /// The tiles of `loop`, which is around `op`, for a tile of queries of which `count` exist.
  static KeyRange of(StepOpInterface op, scf::ForOp loop, OpFoldResult count) {
    return {OpBuilder(loop), getAsOpFoldResult(loop.getLowerBound()), getAsOpFoldResult(loop.getUpperBound()),
            op.getPositionIn(op.getResidentDim()), count};
  }
};

/// Emits the bounds of segments of key tiles. The segments ascend and are disjoint; a segment that is known to be empty
/// is left out.
SmallVector<KeySegment> emitKeySegments(StepOpInterface op, const KeyRange &range, const LoopBounds &bounds,
                                        MaskSpace &space);

/// Whether `bounds` are one interval of tiles that may be cut at its ends only, so that its segments are masked, full
/// and masked.
bool isOneInterval(const LoopBounds &bounds);

} // namespace mlir::flash

#endif // FLASHC_LIB_DIALECT_FLASH_TRANSFORMS_KEYSEGMENTS_H
