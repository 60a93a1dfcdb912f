//===- DiagonalKernel.h - the kernel that adds tiles of pairs up along their diagonals ----------------------------===//
#ifndef FLASHC_CONVERSION_HOSTTOKERNEL_DIAGONALKERNEL_H
#define FLASHC_CONVERSION_HOSTTOKERNEL_DIAGONALKERNEL_H

#include "flashc/Conversion/HostToKernel/ScalarCloner.h"

namespace flashc {

/// Tiles of pairs that the main kernel leaves in the workspace, [B, H, tiles * rows, cols] in f32: the element (r, c) of
/// tile t is the sum over all pairs with j - i = (t - q) * cols + c - r that it stands for, with q = rows / cols *
/// ceil(Nq / rows). What becomes of them is [B, H, Nq + Nk - 1]: sums of all pairs with j - i = d at d + Nq - 1.
struct DiagonalSums {
  mlir::Value tiles, sums; // whose tables they are
  mlir::SmallVector<mlir::OpFoldResult, 4> tileExtents, extents;
  mlir::OpFoldResult queries, keys;
  int64_t rows, cols;

  /// The tables. Emits an error and fails if an extent is no formula.
  mlir::FailureOr<TileTables::Table> getTilesTable() const;
  mlir::FailureOr<TileTables::Table> getSumsTable() const;
};

/// Makes the kernel `name` that runs after `main`: a thread for each sum adds up one element of each row, from the first
/// one on. Returns how it is launched, or fails after an error.
mlir::FailureOr<ManifestKernel> emitDiagonalKernel(mlir::func::FuncOp host, mlir::gpu::GPUFuncOp main,
                                                   llvm::StringRef name, const TileTables &tables,
                                                   const DiagonalSums &sums);

} // namespace flashc

#endif // FLASHC_CONVERSION_HOSTTOKERNEL_DIAGONALKERNEL_H
