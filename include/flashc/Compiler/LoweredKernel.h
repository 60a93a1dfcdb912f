//===- LoweredKernel.h - a kernel between its choices and its code ------------------------------------------------===//
#ifndef FLASHC_COMPILER_LOWEREDKERNEL_H
#define FLASHC_COMPILER_LOWEREDKERNEL_H

#include "flashc/Compiler/Compiler.h"
#include "flashc/Conversion/ScheduleChoice.h"

namespace flashc {

/// A kernel that is lowered to some level, with the choices that led to it. The module has one gpu.module with an entry
/// for each choice of schedule: first the one for any number of queries, then the variants for few queries.
struct LoweredKernel {
  mlir::OwningOpRef<mlir::ModuleOp> module;
  ScheduleDecision decision;

  /// Returns the schedule for any number of queries.
  std::string getSchedule() const {
    return (decision.plan.schedule ? *decision.plan.schedule : decision.choices.back().schedule).str();
  }
};

/// Lowers the one attention of `module` (L0 or L1; it does not change) to `level`; from KernelLevel::Expanded on, it
/// has code for sure. L1's tiles are the schedule's unless the options give others; with tiles or passes from the
/// options there are no variants. Fails after a diagnostic.
mlir::FailureOr<LoweredKernel> lowerToKernel(mlir::ModuleOp module, const CompileOptions &options, KernelLevel level);

/// Describes the choices for every entry of the kernel and their reasons, for people.
std::string describeDecisions(const LoweredKernel &kernel);

/// Describes a kernel at L2 or below.
mlir::FailureOr<KernelDescription> describeKernel(const LoweredKernel &kernel);

/// Compiles one entry of a kernel at KernelLevel::Expanded, which does not change, to PTX. The entry is given by its
/// number in the manifest; the PTX includes the kernels before and after it in a launch.
mlir::FailureOr<std::string> compileEntry(const LoweredKernel &kernel, size_t number, const CompileOptions &options);

} // namespace flashc

#endif // FLASHC_COMPILER_LOWEREDKERNEL_H
