//===- RunGPU.h - --run=gpu ---------------------------------------------------------------------------------------===//
#ifndef FLASHC_LIB_DRIVER_RUNGPU_H
#define FLASHC_LIB_DRIVER_RUNGPU_H

#include "Options.h"
#include "flashc/Compiler/Compiler.h"
#include "mlir/IR/BuiltinOps.h"

namespace flashc {

/// Launches the kernel of `module`, which is as the user wrote it and has one function to run, on the first GPU with
/// seeded random inputs; prints the time, and the outputs or their checks. Compiles only if there is a driver. Fails
/// after a diagnostic, or if a check failed.
mlir::LogicalResult runOnGPU(mlir::ModuleOp module, const CompileOptions &compileOptions, const DriverOptions &options);

} // namespace flashc

#endif // FLASHC_LIB_DRIVER_RUNGPU_H
