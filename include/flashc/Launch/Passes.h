//===- Passes.h - passes on the kernels of a launch, and their work as functions ----------------------------------===//
//
// Passes.td describes the passes. A function below that fails leaves the IR unchanged.
//
//===--------------------------------------------------------------------------------------------------------------===//
#ifndef FLASHC_LAUNCH_PASSES_H
#define FLASHC_LAUNCH_PASSES_H

#include "flashc/Dialect/Tile/IR/Tile.h"
#include "mlir/Pass/Pass.h"

namespace flashc {

#define GEN_PASS_DECL
#define GEN_PASS_REGISTRATION
#include "flashc/Launch/Passes.h.inc"

/// Creates a kernel that lists the work tiles of `program`, whose work is distributed as `sorted`. Returns true if
/// `program` then has such a list. Returns false if each work tile has only one tile of keys: then all work tiles take
/// equally long, no kernel is created, and `program` is no longer `sorted`. Emits an error and fails if the number of a
/// work tile's key tiles does not follow from scalar code.
mlir::FailureOr<bool> orderProgram(mlir::tile::ProgramOp program);

/// Lets the kernels of the launch of `main` overlap. If there are several kernels, each kernel but `main` and the last
/// one lets the next kernel start at once, and each kernel but the first one waits for the kernel before it. If `main`
/// is the only kernel and has a warp program, it waits for the launch before it, and lets the next launch start early.
/// Returns whether one of these cases applies; if so, marks the launch as programmatic. Emits an error and fails if a
/// kernel is missing.
mlir::FailureOr<bool> overlapLaunches(mlir::gpu::GPUFuncOp main);

/// Gives the kernels of the launch of `main` grids of one dimension. Returns how many kernels had a grid of two or
/// three dimensions. Emits an error and fails if a kernel is missing.
mlir::FailureOr<int64_t> foldGrids(mlir::gpu::GPUFuncOp main);

} // namespace flashc

#endif // FLASHC_LAUNCH_PASSES_H
