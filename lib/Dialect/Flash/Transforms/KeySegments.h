//===- KeySegments.h - the loops that the bounds of a mask ask for ------------------------------------------------===//
#ifndef FLASHC_LIB_DIALECT_FLASH_TRANSFORMS_KEYSEGMENTS_H
#define FLASHC_LIB_DIALECT_FLASH_TRANSFORMS_KEYSEGMENTS_H

#include "flashc/Analysis/MaskBounds.h"
#include "flashc/Dialect/Flash/IR/Flash.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

namespace mlir::flash {

/// Consecutive tiles of the streamed dimension (called keys here, as they are of attention) that are all kept as a
/// whole, or that all need the mask.
struct KeySegment {
  OpFoldResult begin, end;
  bool isFull;
};

/// Tiles of keys at `begin`, `begin` + tile, ... < `end`, for `count` queries from `first` on; and where their bounds
/// are computed.
struct KeyRange {
  OpBuilder place;
  OpFoldResult begin, end;
  Value first;
  OpFoldResult count;
  /// Whether `count` may be 0: then there is nothing to visit.
  bool mayBeEmpty = false;

  /// Those of the loop around `op`, of which `count` queries exist.
  static KeyRange of(StepOpInterface op, scf::ForOp loop, OpFoldResult count) {
    return {OpBuilder(loop), getAsOpFoldResult(loop.getLowerBound()), getAsOpFoldResult(loop.getUpperBound()),
            op.getPositionIn(op.getResidentDim()), count};
  }
};

/// Computes the bounds of tiles of keys. The segments ascend and are disjoint; those that are known to be empty are
/// left out.
SmallVector<KeySegment> emitKeySegments(StepOpInterface op, const KeyRange &range, const LoopBounds &bounds,
                                        MaskSpace &space);

/// Whether bounds are one interval of tiles with cuts at its ends: segments are masked, full and masked.
bool isOneInterval(const LoopBounds &bounds);

} // namespace mlir::flash

#endif // FLASHC_LIB_DIALECT_FLASH_TRANSFORMS_KEYSEGMENTS_H
