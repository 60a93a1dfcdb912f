//===- CheckEachPass.h - which pass changed the numbers? ----------------------------------------------------------===//
#ifndef FLASHC_EXECUTION_CHECKEACHPASS_H
#define FLASHC_EXECUTION_CHECKEACHPASS_H

#include "flashc/Execution/Check.h"

namespace mlir {
class OpPassManager;
class PassManager;
} // namespace mlir

namespace llvm {
class raw_ostream;
} // namespace llvm

namespace flashc {

/// Runs the passes of `pipeline` on `module` one at a time, and after each runs and checks its functions on the CPU and
/// prints a line for each; returns the runs after the last one. Stops at the first pass that fails or after which a
/// result is wrong, with a diagnostic that names it, and diagnoses a pipeline without passes. Each pass gets a pass
/// manager of its own, which `configure` may set up.
mlir::FailureOr<std::vector<FunctionRun>>
runAndCheckEachPass(mlir::ModuleOp module, mlir::OpPassManager &pipeline, ModuleChecker &checker, llvm::raw_ostream &os,
                    llvm::function_ref<mlir::LogicalResult(mlir::PassManager &)> configure = {});

} // namespace flashc

#endif // FLASHC_EXECUTION_CHECKEACHPASS_H
