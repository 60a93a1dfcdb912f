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

/// Runs the passes of `pipeline` on `module` one at a time. After each pass, runs the functions on the CPU, checks
/// their results, and prints a line for each function. Returns the runs after the last pass. Stops with a diagnostic at
/// the first pass that fails or makes a result wrong. A pipeline without passes is an error. Each pass gets its own
/// pass manager, which `configure` may set up.
mlir::FailureOr<std::vector<FunctionRun>>
runAndCheckEachPass(mlir::ModuleOp module, mlir::OpPassManager &pipeline, ModuleChecker &checker, llvm::raw_ostream &os,
                    llvm::function_ref<mlir::LogicalResult(mlir::PassManager &)> configure = {});

} // namespace flashc

#endif // FLASHC_EXECUTION_CHECKEACHPASS_H
