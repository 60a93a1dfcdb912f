//===- RoundKernel.h - the kernel that rounds what CTAs have added up ---------------------------------------------===//
#ifndef FLASHC_CONVERSION_HOSTTOKERNEL_ROUNDKERNEL_H
#define FLASHC_CONVERSION_HOSTTOKERNEL_ROUNDKERNEL_H

#include "flashc/Conversion/HostToKernel/ScalarCloner.h"

namespace flashc {

/// A result [B, H, N, D] of the main kernel to which CTAs add in the workspace (tile.add_product, tile.atomic_add), in
/// f32: 64 x 64 panels, [B, H, N / 64, D / 64, 4096] with N rounded up to whole tiles, D to panels, in the order of
/// tile.atomic_add.
struct AddedSums {
  /// In L1.
  mlir::Value result;
  /// B, H and N.
  mlir::SmallVector<mlir::OpFoldResult, 3> extents;
  int64_t depth;
  /// Rows that are added to at once, some panels'.
  int64_t tile;
  /// Heads of the grid that add to one head of the result.
  int64_t groupSize = 1;

  /// The table that holds them. Emits an error and fails if an extent is no formula.
  mlir::FailureOr<TileTables::Table> getTable() const;
  /// The sums in a kernel, as an array of rank 5; null after an error.
  mlir::Value getArray(mlir::OpBuilder &b, KernelSignature &signature, ScalarCloner &scalars) const;
  int64_t getPanels() const;
  /// How many rows of panels a head has; null after an error.
  mlir::Value countPanelRows(mlir::OpBuilder &b, ScalarCloner &scalars) const;
};

/// Makes the kernel `name` that runs after `main` and writes `outputs`, arguments of the launch [B, H, N, D], rounded to
/// their type: a CTA for each panel, in which a thread has eight columns of two rows. Returns how it is launched, or fails
/// after an error.
mlir::FailureOr<ManifestKernel> emitRoundKernel(mlir::func::FuncOp host, mlir::gpu::GPUFuncOp main,
                                                llvm::StringRef name, const TileTables &tables, const AddedSums &sums,
                                                mlir::ArrayRef<unsigned> outputs);

} // namespace flashc

#endif // FLASHC_CONVERSION_HOSTTOKERNEL_ROUNDKERNEL_H
