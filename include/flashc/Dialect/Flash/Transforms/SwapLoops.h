//===- SwapLoops.h - the plan of flash-swap-loops -----------------------------------------------------------------===//
//
// What `flash-swap-loops` has proved about a loop nest before it rewrites anything.
//
//===--------------------------------------------------------------------------------------------------------------===//
#ifndef FLASHC_DIALECT_FLASH_TRANSFORMS_SWAPLOOPS_H
#define FLASHC_DIALECT_FLASH_TRANSFORMS_SWAPLOOPS_H

#include "flashc/Dialect/Flash/IR/Flash.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "llvm/ADT/DenseSet.h"

namespace mlir::flash {

/// How one state tensor (acc, m or l) goes through an iteration of the innermost loop. Each op may be null; without
/// any the loop carries the tile itself.
struct StateAccess {
  tensor::ExtractSliceOp read; // the queries' slice
  tensor::PadOp pad;           // that slice, padded to the static tile
  tensor::ExtractSliceOp cut;  // the result without the padding
  tensor::InsertSliceOp write; // back to where it was read; there with `read`
  Value init;                  // the tensor before the outermost loop
};

/// A loop nest around a `flash.online_attention` whose state can be carried tile by tile.
struct SwapPlan {
  OnlineAttentionOp op;
  FinalizeOp finalize;
  SmallVector<scf::ForOp> loops;  // outermost first
  std::optional<unsigned> kvLoop; // the position of the loop that folds into the same state tile, if it is there
  std::array<StateAccess, 3> state; // acc, m, l
  llvm::SmallPtrSet<Operation *, 32> onKv; // ops that have to run in the kv loop
  bool startsEmpty = false; // acc = 0, m = -inf, l = 0 before the first key

  bool isTilewise() const { return !state[0].read && !state[0].pad && !state[0].cut; }
  bool isKvInnermost() const { return !kvLoop || *kvLoop + 1 == loops.size(); }
};

/// Proves that the nest around `op` can be swapped. Emits an error on the loop that stands in the way otherwise.
FailureOr<SwapPlan> planSwapLoops(OnlineAttentionOp op);

/// Rewrites the nest: query loops outside, keys inside, state tiles carried by the key loop.
void applySwapLoops(SwapPlan plan);

} // namespace mlir::flash

#endif // FLASHC_DIALECT_FLASH_TRANSFORMS_SWAPLOOPS_H
