//===- Explain.h - --explain --------------------------------------------------------------------------------------===//
#ifndef FLASHC_LIB_DRIVER_EXPLAIN_H
#define FLASHC_LIB_DRIVER_EXPLAIN_H

#include "Options.h"
#include "flashc/Compiler/Compiler.h"

namespace flashc {

/// Prints which tiles the functions of `module` visit, with the extents that --dims and --shape give and, where loop
/// bounds read data, the inputs of --run. Fails after a diagnostic.
mlir::LogicalResult printExplanations(mlir::ModuleOp module, const CompileOptions &compileOptions,
                                      const DriverOptions &options);

} // namespace flashc

#endif // FLASHC_LIB_DRIVER_EXPLAIN_H
