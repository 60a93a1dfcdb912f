//===- Report.h - prints what a run computed ----------------------------------------------------------------------===//
#ifndef FLASHC_LIB_DRIVER_REPORT_H
#define FLASHC_LIB_DRIVER_REPORT_H

#include "Options.h"
#include "flashc/Execution/Check.h"
#include "mlir/IR/BuiltinOps.h"

namespace flashc {

/// Prints the results of runs to standard output: their checks, if there are any, and otherwise (or with
/// --print-results) their outputs. Fails if a check failed, or if --print-results has nothing to print.
mlir::LogicalResult printRuns(mlir::ModuleOp module, llvm::ArrayRef<FunctionRun> runs, const DriverOptions &options);

} // namespace flashc

#endif // FLASHC_LIB_DRIVER_REPORT_H
