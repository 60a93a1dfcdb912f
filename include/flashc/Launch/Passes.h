//===- Passes.h - passes on the kernels of a launch, and their work as functions ----------------------------------===//
//
// The passes are described in Passes.td. A function that fails leaves the IR as it was.
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

/// Gives a `sorted` program a list of its work tiles, which a kernel of its own makes. Returns whether it has one:
/// where a work tile has just one tile of keys, all take equally long, and the program is no longer `sorted`. Emits an
/// error and fails if what a work tile takes is not known ahead.
mlir::FailureOr<bool> orderProgram(mlir::tile::ProgramOp program);

/// Lets the kernels of the launch of `main` overlap: all but `main` and the last let the next one start at once, and
/// all but the first wait for the one before them. Returns whether there are any others; then the launch says so. Emits
/// an error and fails if one of them is missing.
mlir::FailureOr<bool> overlapLaunches(mlir::gpu::GPUFuncOp main);

/// Gives the kernels of the launch of `main` grids of one dimension. Returns how many had another. Emits an error and
/// fails if one of them is missing.
mlir::FailureOr<int64_t> foldGrids(mlir::gpu::GPUFuncOp main);

} // namespace flashc

#endif // FLASHC_LAUNCH_PASSES_H
