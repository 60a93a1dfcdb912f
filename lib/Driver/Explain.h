//===- Explain.h - --explain --------------------------------------------------------------------------------------===//
#ifndef FLASHC_LIB_DRIVER_EXPLAIN_H
#define FLASHC_LIB_DRIVER_EXPLAIN_H

#include "Options.h"
#include "flashc/Compiler/Compiler.h"

namespace flashc {

/// Prints the tiles that the functions of `module` visit, with the extents of --dims and --shape and, if loop bounds
/// read data, the inputs of --run. Fails after a diagnostic.
mlir::LogicalResult printExplanations(mlir::ModuleOp module, const CompileOptions &compileOptions,
                                      const DriverOptions &options);

} // namespace flashc

#endif // FLASHC_LIB_DRIVER_EXPLAIN_H
