//===- Lowering.h - what the compiler's files share about the way to a kernel -------------------------------------===//
#ifndef FLASHC_LIB_COMPILER_LOWERING_H
#define FLASHC_LIB_COMPILER_LOWERING_H

#include "flashc/Compiler/LoweredKernel.h"

namespace flashc {

/// Diagnoses a target for which there are no kernels.
mlir::LogicalResult checkTarget(mlir::ModuleOp module, llvm::StringRef target);

/// The schedules of the one attention of `module` (L0 or L1), by the options. Fails after a diagnostic.
mlir::FailureOr<ScheduleDecision> decideSchedules(mlir::ModuleOp module, const CompileOptions &options);

/// Whether the options say themselves how L1's tiles are; then there are no variants.
bool hasOwnTiles(const CompileOptions &options);

/// The options for a kernel of one schedule: L1's tiles are those of the schedule unless the options give others.
CompileOptions withSchedule(const CompileOptions &options, const ScheduleChoice &choice);

/// A clone of `module` at L1, by the options' algorithm. Fails after a diagnostic.
mlir::FailureOr<mlir::OwningOpRef<mlir::ModuleOp>> lowerToLoops(mlir::ModuleOp module, const CompileOptions &options);

/// The kernel that the one attention of `module` (L0) gets; the forward one if keys are in no cache and the options ask
/// for nothing else. Fails after a diagnostic.
mlir::FailureOr<KernelPlan> chooseKernel(mlir::ModuleOp module, const CompileOptions &options);

/// The options for a decoding kernel: L1's parts of the keys are those of the plan.
CompileOptions withPlan(const CompileOptions &options, const KernelPlan &plan);

/// The one attention of `module` as the decoding kernel of `plan`, at `level`. Fails after a diagnostic.
mlir::FailureOr<LoweredKernel> lowerDecoding(mlir::ModuleOp module, const KernelPlan &plan,
                                             const CompileOptions &options, KernelLevel level);

} // namespace flashc

#endif // FLASHC_LIB_COMPILER_LOWERING_H
