//===- AddedSums.h - results to which CTAs add in the workspace ---------------------------------------------------===//
#ifndef FLASHC_LAUNCHKERNELS_ADDEDSUMS_H
#define FLASHC_LAUNCHKERNELS_ADDEDSUMS_H

#include "flashc/LaunchKernels/LaunchNest.h"

namespace flashc {

/// A result [B, H, N, D] of the main kernel that is a sum: several CTAs add to it in the workspace, in f32
/// (tile.add_product, tile.atomic_add). The sums consist of 64 x 64 panels, [B, H, N / 64, D / 64, 4096]; a panel is in
/// the order of tile.atomic_add. N is rounded up to whole tiles, and D to whole panels.
struct AddedSums {
  /// The value of the result at level L1.
  mlir::Value result;
  /// The extents B, H, N and D.
  mlir::SmallVector<mlir::OpFoldResult, 4> extents;
  /// The number of rows that one addition covers, a multiple of the rows of a panel.
  int64_t tile;
  /// The number of heads of the grid whose CTAs add to the same head of the result.
  int64_t groupSize = 1;

  /// Returns the sums in a kernel, as an array of rank 5; null after an error.
  mlir::Value getArray(mlir::OpBuilder &b, ScalarCloner &scalars) const;
  int64_t getDepth() const;
  int64_t getPanels() const;
  /// Returns the number of rows of panels that a head has. Null after an error.
  mlir::Value countPanelRows(mlir::OpBuilder &b, ScalarCloner &scalars) const;
};

/// Makes the kernel that rounds `sums` and writes them to the outputs of a nest's result. `op` is the op of level L1
/// that sums heads, or null.
std::unique_ptr<LaunchKernel> makeRoundKernel(unsigned result, AddedSums sums, mlir::Operation *op = nullptr);

} // namespace flashc

#endif // FLASHC_LAUNCHKERNELS_ADDEDSUMS_H
