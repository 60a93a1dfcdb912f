//===- Lowering.h - what the compiler's files share about the way to a kernel -------------------------------------===//
#ifndef FLASHC_LIB_COMPILER_LOWERING_H
#define FLASHC_LIB_COMPILER_LOWERING_H

#include "flashc/Compiler/LoweredKernel.h"

namespace flashc {

/// Fails after a diagnostic if there are no kernels for `target`.
mlir::LogicalResult checkTarget(mlir::ModuleOp module, llvm::StringRef target);

/// Returns the part of the options that restricts the choice of the schedule.
ScheduleRequest makeRequest(const CompileOptions &options);

/// Decides the kernel and the schedules of the one attention of `module` (L0 or L1) from the options. Fails after a
/// diagnostic.
mlir::FailureOr<ScheduleDecision> decideSchedules(mlir::ModuleOp module, const CompileOptions &options);

/// Whether the options give the tile sizes of L1, or the passes to L1 (addAlgorithm). If so, the kernel has no
/// variants.
bool hasOwnTiles(const CompileOptions &options);

/// Returns `options` with those fields of `schedule` that L1 needs: the tile sizes, and the number of parts of the
/// keys. Tile sizes that `options` already have are kept.
CompileOptions withSchedule(const CompileOptions &options, const Schedule &schedule);

/// Returns a clone of `module` lowered to L1 by the options' algorithm. Fails after a diagnostic.
mlir::FailureOr<mlir::OwningOpRef<mlir::ModuleOp>> lowerToLoops(mlir::ModuleOp module, const CompileOptions &options);

/// Lowers `loops` from L1 to a kernel of `schedule` at `level`. Fails after a diagnostic.
mlir::LogicalResult lowerFromLoops(mlir::ModuleOp loops, const Schedule &schedule, const CompileOptions &options,
                                   KernelLevel level);

} // namespace flashc

#endif // FLASHC_LIB_COMPILER_LOWERING_H
