//===- SwapLoops.h - the plan of flash-swap-loops -----------------------------------------------------------------===//
//
// `flash-swap-loops` proves the facts in a SwapPlan before it rewrites a loop nest.
//
//===--------------------------------------------------------------------------------------------------------------===//
#ifndef FLASHC_DIALECT_FLASH_TRANSFORMS_SWAPLOOPS_H
#define FLASHC_DIALECT_FLASH_TRANSFORMS_SWAPLOOPS_H

#include "flashc/Dialect/Flash/IR/Flash.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "llvm/ADT/DenseSet.h"

namespace mlir::flash {

/// The ops by which one state tensor (for attention: acc, m or l) passes through an iteration of the innermost loop.
/// Each op may be null. If all are null, the loop carries a tile and not the whole tensor.
struct StateAccess {
  tensor::ExtractSliceOp read; // reads the slice of the tile's queries
  tensor::PadOp pad;           // pads `read` to the static tile
  tensor::ExtractSliceOp cut;  // cuts the padding from the step's result
  tensor::InsertSliceOp write; // writes the result back to the slice of `read`; null if `read` is null
  Value init, result;          // the tensor before the outermost loop, and after it
};

/// A loop nest around a step whose state can be carried tile by tile.
struct SwapPlan {
  StepOpInterface op;
  FinalizeOp finalize;                         // null if the step needs none
  SmallVector<scf::ForOp> loops;               // outermost first
  std::optional<unsigned> streamedLoop;        // the position in `loops` of the loop that moves no slice of the state
  SmallVector<StateAccess> state;              // in the step's order
  llvm::SmallPtrSet<Operation *, 32> onStream; // ops that have to run in the streamed loop
  bool startsEmpty = false;                    // whether the state begins as its identities: acc = 0, m = -inf, l = 0

  bool isTilewise() const { return !state[0].read && !state[0].pad && !state[0].cut; }
  bool isStreamInnermost() const { return !streamedLoop || *streamedLoop + 1 == loops.size(); }
  /// The whole nest: its outermost loop, or the op itself.
  Operation *getNest() { return loops.empty() ? op.getOperation() : loops.front().getOperation(); }
  StringRef getName(unsigned k) { return op.getStepState()[k].name; }
};

/// Proves that the nest around `op` can be swapped. Otherwise emits an error on the loop that prevents it, and fails.
FailureOr<SwapPlan> planSwapLoops(StepOpInterface op);

/// Rewrites the nest, so that the streamed loop is inside all others and carries the state tiles.
void applySwapLoops(SwapPlan plan);

} // namespace mlir::flash

#endif // FLASHC_DIALECT_FLASH_TRANSFORMS_SWAPLOOPS_H
