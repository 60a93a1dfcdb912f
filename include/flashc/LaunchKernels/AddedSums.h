//===- AddedSums.h - results to which CTAs add in the workspace ---------------------------------------------------===//
#ifndef FLASHC_LAUNCHKERNELS_ADDEDSUMS_H
#define FLASHC_LAUNCHKERNELS_ADDEDSUMS_H

#include "flashc/LaunchKernels/LaunchNest.h"

namespace flashc {

/// A result [B, H, N, D] of the main kernel to which CTAs add in the workspace (tile.add_product, tile.atomic_add), in
/// f32: 64 x 64 panels, [B, H, N / 64, D / 64, 4096] with N rounded up to whole tiles, D to panels, in the order of
/// tile.atomic_add.
struct AddedSums {
  /// In L1.
  mlir::Value result;
  /// B, H, N and D.
  mlir::SmallVector<mlir::OpFoldResult, 4> extents;
  /// Rows that are added to at once, some panels'.
  int64_t tile;
  /// Heads of the grid that add to one head of the result.
  int64_t groupSize = 1;

  /// The sums in a kernel, as an array of rank 5; null after an error.
  mlir::Value getArray(mlir::OpBuilder &b, ScalarCloner &scalars) const;
  int64_t getDepth() const;
  int64_t getPanels() const;
  /// How many rows of panels a head has; null after an error.
  mlir::Value countPanelRows(mlir::OpBuilder &b, ScalarCloner &scalars) const;
};

/// The kernel that rounds such sums to the outputs of a nest's result. `op`: what adds up heads in L1.
std::unique_ptr<LaunchKernel> makeRoundKernel(unsigned result, AddedSums sums, mlir::Operation *op = nullptr);

} // namespace flashc

#endif // FLASHC_LAUNCHKERNELS_ADDEDSUMS_H
