//===- Lowering.h - what the compiler's files share about the way to a kernel -------------------------------------===//
#ifndef FLASHC_LIB_COMPILER_LOWERING_H
#define FLASHC_LIB_COMPILER_LOWERING_H

#include "flashc/Compiler/Compiler.h"
#include "flashc/Schedule/DecodeSchedule.h"

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

/// Which kernel an attention gets, and why, for people: one of Flash-Decoding, or the forward one. No reason where there
/// is nothing to choose: keys are in no cache.
struct KernelFamily {
  bool isDecoding = false;
  std::string why = {};
};
KernelFamily chooseFamily(mlir::ModuleOp module, const CompileOptions &options);

/// The schedule of a decoding kernel, why it has so many parts, and the options for its L1.
struct DecodePlan {
  DecodeSchedule schedule;
  std::string why;
  CompileOptions tiled;
};

/// That of the one attention of `module`, by the options. Fails after a diagnostic.
mlir::FailureOr<DecodePlan> chooseDecoding(mlir::ModuleOp module, const CompileOptions &options);

/// The one attention of `module` as a decoding kernel at `level`. Fails after a diagnostic.
mlir::FailureOr<LoweredKernel> lowerDecoding(mlir::ModuleOp module, const CompileOptions &options, KernelLevel level);

} // namespace flashc

#endif // FLASHC_LIB_COMPILER_LOWERING_H
