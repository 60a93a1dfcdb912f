//===- Launch.h - the kernels of a launch, while passes make them -------------------------------------------------===//
#ifndef FLASHC_LAUNCH_LAUNCH_H
#define FLASHC_LAUNCH_LAUNCH_H

#include "flashc/Runtime/Manifest.h"
#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "mlir/IR/Builders.h"

namespace flashc {

/// What the manifest will say of a main kernel and of those before and after it (docs/manifest.md), which stand beside
/// it in its gpu.module under their names; and what passes are still to do for it. The kernel carries it as the
/// dictionary `flashc.launch`, whose keys are the manifest's, `work_tiles` and `overlap`. Only `get` and `set` know
/// these.
struct Launch : Manifest {
  /// The extents of the kernel's grid of work tiles, which tile-order is to sort.
  std::optional<std::array<GridFormula, 3>> workTiles;
  /// Whether tile-programmatic-launch is to let the kernels overlap.
  bool mayOverlap = false;

  /// Whether `op` is the main kernel of a launch.
  static bool isOn(mlir::Operation *op) { return op->hasAttr(kAttrName); }
  /// Reads what a main kernel carries. Emits an error on it and fails if that is no launch.
  static mlir::FailureOr<Launch> get(mlir::Operation *kernel);
  /// The launches of all main kernels in `root`, in order.
  static mlir::FailureOr<llvm::SmallVector<Launch, 2>> getAll(mlir::Operation *root);
  void set(mlir::Operation *kernel) const;
  /// The kernels of the launch of `main`, in order. Emits an error on it and fails if one is missing.
  mlir::FailureOr<llvm::SmallVector<mlir::gpu::GPUFuncOp>> findKernels(mlir::gpu::GPUFuncOp main) const;

private:
  static constexpr llvm::StringLiteral kAttrName = "flashc.launch";
};

/// A kernel without parameters and without tiles, which has one-dimensional CTAs of `threads` threads.
mlir::gpu::GPUFuncOp createPlainKernel(mlir::OpBuilder &b, mlir::Location loc, llvm::StringRef name, int64_t threads);

} // namespace flashc

#endif // FLASHC_LAUNCH_LAUNCH_H
