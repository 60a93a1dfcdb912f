//===- PrintCost.h - --print-cost ---------------------------------------------------------------------------------===//
#ifndef FLASHC_LIB_DRIVER_PRINTCOST_H
#define FLASHC_LIB_DRIVER_PRINTCOST_H

#include "Options.h"
#include "flashc/Compiler/Compiler.h"

namespace flashc {

/// Prints the cost of the functions of `module` by the chosen algorithm, with the extents of --dims and --shape.
mlir::LogicalResult printCost(mlir::ModuleOp module, const CompileOptions &compileOptions,
                              const DriverOptions &options);

} // namespace flashc

#endif // FLASHC_LIB_DRIVER_PRINTCOST_H
