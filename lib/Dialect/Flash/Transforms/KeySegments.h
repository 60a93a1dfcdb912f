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

/// The tiles of keys that begin at `begin`, `begin` + tile, ... below `end`, for `count` queries from `first` on. Code
/// that computes bounds of these tiles is emitted at `place`.
struct KeyRange {
  OpBuilder place;
  OpFoldResult begin, end;
  Value first;
  OpFoldResult count;
  /// Whether `count` may be 0, in which case no tile is visited.
  bool mayBeEmpty = false;

  /// Returns the tiles of `loop`, the loop around `op`, for a tile of queries of which `count` exist.
  static KeyRange of(StepOpInterface op, scf::ForOp loop, OpFoldResult count) {
    return {OpBuilder(loop), getAsOpFoldResult(loop.getLowerBound()), getAsOpFoldResult(loop.getUpperBound()),
            op.getPositionIn(op.getResidentDim()), count};
  }
};

/// Emits the bounds of the segments of `range` that `bounds` keep. The segments ascend and are disjoint. For one
/// interval (`isOneInterval`), there are three segments: masked, full and masked. Some of these may be known to be
/// empty. If no tile is full, there is only one masked segment. For several intervals, segments that are known to be
/// empty are left out.
SmallVector<KeySegment> emitKeySegments(StepOpInterface op, const KeyRange &range, const LoopBounds &bounds,
                                        MaskSpace &space);

/// Whether `bounds` have one kept interval, which may be cut at its ends only. The segments of such bounds are masked,
/// full and masked.
bool isOneInterval(const LoopBounds &bounds);

} // namespace mlir::flash

#endif // FLASHC_LIB_DIALECT_FLASH_TRANSFORMS_KEYSEGMENTS_H
