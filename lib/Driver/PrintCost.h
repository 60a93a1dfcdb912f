//===- PrintCost.h - --print-cost ---------------------------------------------------------------------------------===//
#ifndef FLASHC_LIB_DRIVER_PRINTCOST_H
#define FLASHC_LIB_DRIVER_PRINTCOST_H

#include "Options.h"
#include "flashc/Compiler/Compiler.h"

namespace flashc {

/// Prints what the functions of `module` cost by the chosen algorithm, with the extents that --dims and --shape give.
mlir::LogicalResult printCost(mlir::ModuleOp module, const CompileOptions &compileOptions,
                              const DriverOptions &options);

} // namespace flashc

#endif // FLASHC_LIB_DRIVER_PRINTCOST_H
