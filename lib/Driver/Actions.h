//===- Actions.h - what the driver does with a module -------------------------------------------------------------===//
#ifndef FLASHC_LIB_DRIVER_ACTIONS_H
#define FLASHC_LIB_DRIVER_ACTIONS_H

#include "Options.h"
#include "flashc/Compiler/Compiler.h"
#include "flashc/Execution/Check.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace flashc {

/// Returns the functions that --run runs: every public function with a body. (With --function, keepFunction has removed
/// the others.) Fails after a diagnostic if there is none.
mlir::FailureOr<llvm::SmallVector<mlir::func::FuncOp>> selectFunctions(mlir::ModuleOp module);

/// Lowers `module` from L0 to L1, and then runs its functions on the CPU. Prints to standard output. Fails after a
/// diagnostic, or if a check failed.
mlir::LogicalResult runOnCPU(mlir::ModuleOp module, const CompileOptions &compileOptions, const DriverOptions &options);

/// Launches the kernel of `module` on the first GPU, with seeded random inputs. The module must be as the user wrote
/// it, with one function to run. Prints the time, and the outputs or their checks. Compiles only if there is a CUDA
/// driver. Fails after a diagnostic, or if a check failed.
mlir::LogicalResult runOnGPU(mlir::ModuleOp module, const CompileOptions &compileOptions, const DriverOptions &options);

/// Prints the results of `runs` to standard output. For each run prints its checks, if it has any; prints its outputs
/// if it has no checks, or with --print-results. Fails if a check failed, or if --print-results has nothing to print.
mlir::LogicalResult printRuns(mlir::ModuleOp module, llvm::ArrayRef<FunctionRun> runs, const DriverOptions &options);

/// Prints the cost of the functions of `module` with the chosen algorithm. Extents come from --dims and --shape.
mlir::LogicalResult printCost(mlir::ModuleOp module, const CompileOptions &compileOptions,
                              const DriverOptions &options);

/// Prints the tiles that the functions of `module` visit. Extents come from --dims and --shape. Data that loop bounds
/// read comes from the same inputs as with --run. Fails after a diagnostic.
mlir::LogicalResult printExplanations(mlir::ModuleOp module, const CompileOptions &compileOptions,
                                      const DriverOptions &options);

} // namespace flashc

#endif // FLASHC_LIB_DRIVER_ACTIONS_H
