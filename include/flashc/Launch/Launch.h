//===- Launch.h - the kernels of a launch, while passes make them -------------------------------------------------===//
#ifndef FLASHC_LAUNCH_LAUNCH_H
#define FLASHC_LAUNCH_LAUNCH_H

#include "flashc/Runtime/Manifest.h"
#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "mlir/IR/Builders.h"

namespace flashc {

/// The manifest (docs/manifest.md) of a main kernel, and of the kernels before and after it, together with what later
/// passes are to do for the main kernel. All of these kernels are in one gpu.module, under the names that the manifest
/// gives. The main kernel carries a launch as the dictionary `flashc.launch`. The dictionary has the keys of the
/// manifest and two more, `work_tiles` and `overlap`. Only `get` and `set` read and write it.
struct Launch : Manifest {
  /// The extents of the grid of work tiles that tile-order sorts.
  std::optional<std::array<GridFormula, 3>> workTiles;
  /// Whether tile-programmatic-launch lets the kernels overlap.
  bool mayOverlap = false;

  /// Whether `op` is the main kernel of a launch.
  static bool isOn(mlir::Operation *op) { return op->hasAttr(kAttrName); }
  /// Reads the attribute of a main kernel. Emits an error on `kernel` and fails if the attribute is no launch.
  static mlir::FailureOr<Launch> get(mlir::Operation *kernel);
  /// Returns the launches of all main kernels in `root`, in the order of the kernels. Fails after an error.
  static mlir::FailureOr<llvm::SmallVector<Launch, 2>> getAll(mlir::Operation *root);
  void set(mlir::Operation *kernel) const;
  /// Returns the kernels of the launch of `main` in the order in which they run. Emits an error on `main` and fails if
  /// one is missing.
  mlir::FailureOr<llvm::SmallVector<mlir::gpu::GPUFuncOp>> findKernels(mlir::gpu::GPUFuncOp main) const;

private:
  static constexpr llvm::StringLiteral kAttrName = "flashc.launch";
};

/// Creates a kernel without parameters and without tiles, with one-dimensional CTAs of `threads` threads.
mlir::gpu::GPUFuncOp createPlainKernel(mlir::OpBuilder &b, mlir::Location loc, llvm::StringRef name, int64_t threads);

} // namespace flashc

#endif // FLASHC_LAUNCH_LAUNCH_H
