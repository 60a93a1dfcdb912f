//===- RunCPU.h - --run=cpu, --check, --check-each-pass -----------------------------------------------------------===//
#ifndef FLASHC_LIB_DRIVER_RUNCPU_H
#define FLASHC_LIB_DRIVER_RUNCPU_H

#include "Options.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"

namespace mlir {
class OpPassManager;
} // namespace mlir

namespace flashc {

/// Returns the functions for --run: every public function with a body (keepFunction leaves only the one of --function).
/// Fails after a diagnostic if there is none.
mlir::FailureOr<llvm::SmallVector<mlir::func::FuncOp>> selectFunctions(mlir::ModuleOp module);

/// Adds the passes that lead from the input to L1; fails after a diagnostic.
using PipelineBuilder = llvm::function_ref<mlir::LogicalResult(mlir::OpPassManager &)>;

/// Runs the passes of `buildPipeline` on `module` and then its functions on the CPU; prints to standard output. Fails
/// after a diagnostic, or if a check failed.
mlir::LogicalResult runOnCPU(mlir::ModuleOp module, PipelineBuilder buildPipeline, const DriverOptions &options);

} // namespace flashc

#endif // FLASHC_LIB_DRIVER_RUNCPU_H
