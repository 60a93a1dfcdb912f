//===- Actions.h - what the driver does with a module -------------------------------------------------------------===//
#ifndef FLASHC_LIB_DRIVER_ACTIONS_H
#define FLASHC_LIB_DRIVER_ACTIONS_H

#include "Options.h"
#include "flashc/Compiler/Compiler.h"
#include "flashc/Execution/Check.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace flashc {

/// Returns the functions for --run: every public function with a body (keepFunction leaves only the one of --function).
/// Fails after a diagnostic if there is none.
mlir::FailureOr<llvm::SmallVector<mlir::func::FuncOp>> selectFunctions(mlir::ModuleOp module);

/// Runs the passes from L0 to L1 on `module` and then its functions on the CPU; prints to standard output. Fails after
/// a diagnostic, or if a check failed.
mlir::LogicalResult runOnCPU(mlir::ModuleOp module, const CompileOptions &compileOptions, const DriverOptions &options);

/// Launches the kernel of `module`, which is as the user wrote it and has one function to run, on the first GPU with
/// seeded random inputs; prints the time, and the outputs or their checks. Compiles only if there is a driver. Fails
/// after a diagnostic, or if a check failed.
mlir::LogicalResult runOnGPU(mlir::ModuleOp module, const CompileOptions &compileOptions, const DriverOptions &options);

/// Prints the results of runs to standard output: their checks, if there are any, and otherwise (or with
/// --print-results) their outputs. Fails if a check failed, or if --print-results has nothing to print.
mlir::LogicalResult printRuns(mlir::ModuleOp module, llvm::ArrayRef<FunctionRun> runs, const DriverOptions &options);

/// Prints the cost of the functions of `module` by the chosen algorithm, with the extents of --dims and --shape.
mlir::LogicalResult printCost(mlir::ModuleOp module, const CompileOptions &compileOptions,
                              const DriverOptions &options);

/// Prints the tiles that the functions of `module` visit, with the extents of --dims and --shape and, if loop bounds
/// read data, the inputs of --run. Fails after a diagnostic.
mlir::LogicalResult printExplanations(mlir::ModuleOp module, const CompileOptions &compileOptions,
                                      const DriverOptions &options);

} // namespace flashc

#endif // FLASHC_LIB_DRIVER_ACTIONS_H
