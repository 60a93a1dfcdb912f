//===- LoweredKernel.h - a kernel between its choices and its code ------------------------------------------------===//
#ifndef FLASHC_COMPILER_LOWEREDKERNEL_H
#define FLASHC_COMPILER_LOWEREDKERNEL_H

#include "flashc/Compiler/Compiler.h"
#include "flashc/Conversion/ScheduleChoice.h"

namespace flashc {

/// A kernel on its way down, with the choices that led to it. The module has one gpu.module with an entry for every
/// choice of schedule: first that for any number of queries, then the variants for few.
struct LoweredKernel {
  mlir::OwningOpRef<mlir::ModuleOp> module;
  ScheduleDecision decision;

  /// That for any number of queries.
  std::string getSchedule() const {
    return (decision.plan.schedule ? *decision.plan.schedule : decision.choices.back().schedule).str();
  }
};

/// The one attention of `module` (L0 or L1; left as it is) as a kernel at `level`; from KernelLevel::Expanded on it is
/// certain that there is code for it. L1's tiles are those of the schedule unless the options give others; then, or
/// with passes of the options' own, there are no variants. Fails after a diagnostic.
mlir::FailureOr<LoweredKernel> lowerToKernel(mlir::ModuleOp module, const CompileOptions &options, KernelLevel level);

/// What was chosen for every entry of the kernel and why, for people.
std::string describeDecisions(const LoweredKernel &kernel);

/// Of a kernel at L2 or below.
mlir::FailureOr<KernelDescription> describeKernel(const LoweredKernel &kernel);

/// PTX of one entry of a kernel at KernelLevel::Expanded, which is left as it is, by its number in the manifest; with
/// the kernels before and after it in a launch.
mlir::FailureOr<std::string> compileEntry(const LoweredKernel &kernel, size_t number, const CompileOptions &options);

} // namespace flashc

#endif // FLASHC_COMPILER_LOWEREDKERNEL_H
