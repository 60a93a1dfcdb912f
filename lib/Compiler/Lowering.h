//===- Lowering.h - what the compiler's files share about the way to a kernel -------------------------------------===//
#ifndef FLASHC_LIB_COMPILER_LOWERING_H
#define FLASHC_LIB_COMPILER_LOWERING_H

#include "flashc/Compiler/LoweredKernel.h"

namespace flashc {

/// Returns the first op of a kind in `module`, or null.
template <typename Op> Op findFirst(mlir::ModuleOp module) {
  Op found;
  module.walk([&](Op op) {
    found = op;
    return mlir::WalkResult::interrupt();
  });
  return found;
}

/// Fails after a diagnostic if there are no kernels for a target.
mlir::LogicalResult checkTarget(mlir::ModuleOp module, llvm::StringRef target);

/// Decides the schedules of the one attention of `module` (L0 or L1) from the options. Fails after a diagnostic.
mlir::FailureOr<ScheduleDecision> decideSchedules(mlir::ModuleOp module, const CompileOptions &options);

/// Whether the options give L1's tiles, or passes that choose them. Then there are no variants.
bool hasOwnTiles(const CompileOptions &options);

/// Returns `options` with the tiles and the parts of the keys that L1 has by `schedule`. Tiles that `options` give
/// themselves take precedence.
CompileOptions withSchedule(const CompileOptions &options, const Schedule &schedule);

/// Returns a clone of `module` lowered to L1 by the options' algorithm. Fails after a diagnostic.
mlir::FailureOr<mlir::OwningOpRef<mlir::ModuleOp>> lowerToLoops(mlir::ModuleOp module, const CompileOptions &options);

/// Lowers `loops` from L1 to a kernel of `schedule` at `level`. Fails after a diagnostic.
mlir::LogicalResult lowerFromLoops(mlir::ModuleOp loops, const Schedule &schedule, const CompileOptions &options,
                                   KernelLevel level);

/// Chooses the kernel for the one attention of `module` (L0). This is the forward kernel if the keys are not in a cache
/// and the options do not ask for split-kv. Fails after a diagnostic.
mlir::FailureOr<KernelPlan> chooseKernel(mlir::ModuleOp module, const CompileOptions &options);

/// Lowers the one attention of `module` to the decoding kernel of `plan`, at `level`. Fails after a diagnostic.
mlir::FailureOr<LoweredKernel> lowerDecoding(mlir::ModuleOp module, const KernelPlan &plan,
                                             const CompileOptions &options, KernelLevel level);

} // namespace flashc

#endif // FLASHC_LIB_COMPILER_LOWERING_H
