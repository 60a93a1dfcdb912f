//===- KeySegments.h - the loops that the bounds of a mask ask for ------------------------------------------------===//
#ifndef FLASHC_LIB_DIALECT_FLASH_TRANSFORMS_KEYSEGMENTS_H
#define FLASHC_LIB_DIALECT_FLASH_TRANSFORMS_KEYSEGMENTS_H

#include "flashc/Analysis/MaskBounds.h"
#include "flashc/Dialect/Flash/IR/Flash.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

namespace mlir::flash {

/// Consecutive key tiles that are all kept as a whole, or that all need the mask.
struct KeySegment {
  OpFoldResult begin, end;
  bool isFull;
};

/// Computes the bounds in front of the loop over key tiles. The segments ascend and are disjoint; those that are known
/// to be empty are left out.
SmallVector<KeySegment> emitKeySegments(OnlineAttentionOp op, scf::ForOp loop, OpFoldResult numQueries,
                                        const LoopBounds &bounds, MaskSpace &space);

} // namespace mlir::flash

#endif // FLASHC_LIB_DIALECT_FLASH_TRANSFORMS_KEYSEGMENTS_H
