//===- LoweredKernel.h - a kernel between its choices and its code ------------------------------------------------===//
#ifndef FLASHC_COMPILER_LOWEREDKERNEL_H
#define FLASHC_COMPILER_LOWEREDKERNEL_H

#include "flashc/Compiler/Compiler.h"
#include "flashc/Conversion/ScheduleChoice.h"

namespace flashc {

/// A kernel that is lowered to some level, and the choices that led to it. The module has one gpu.module with an entry
/// for each choice of schedule. The entry for any number of queries comes first; the variants for few queries follow.
struct LoweredKernel {
  mlir::OwningOpRef<mlir::ModuleOp> module;
  ScheduleDecision decision;

  /// Returns the schedule for any number of queries.
  std::string getSchedule() const { return decision.choices.back().schedule.str(); }
};

/// Lowers the one attention of `module` to `level`. The module is at L0 or L1 and stays unchanged. From
/// KernelLevel::Expanded on, the result can be compiled: an op for which convert-kernel-to-llvm has no code is an
/// error. L1 has the tiles of the schedule unless the options give others. If the options give tiles or passes, there
/// are no variants. Fails after a diagnostic.
mlir::FailureOr<LoweredKernel> lowerToKernel(mlir::ModuleOp module, const CompileOptions &options, KernelLevel level);

/// Describes the choices for every entry of the kernel and their reasons, for people.
std::string describeDecisions(const LoweredKernel &kernel);

/// Describes a kernel at L2 or below.
mlir::FailureOr<KernelDescription> describeKernel(const LoweredKernel &kernel);

/// Compiles one entry of `kernel` to PTX. `kernel` is at KernelLevel::Expanded and stays unchanged. `number` is the
/// entry's number in the manifest. The PTX includes the kernels that a launch runs before and after the entry.
mlir::FailureOr<std::string> compileEntry(const LoweredKernel &kernel, size_t number, const CompileOptions &options);

} // namespace flashc

#endif // FLASHC_COMPILER_LOWEREDKERNEL_H
