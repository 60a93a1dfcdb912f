//===- PlainLaunch.h - a function that one plain kernel computes --------------------------------------------------===//
#ifndef FLASHC_LIB_CONVERSION_FLASHTOTILE_PLAINLAUNCH_H
#define FLASHC_LIB_CONVERSION_FLASHTOTILE_PLAINLAUNCH_H

#include "flashc/Dialect/Flash/IR/Flash.h"
#include "mlir/IR/BuiltinOps.h"

namespace flashc {

/// The op of a module that has no scores, and so no nest of loops; null if there is none.
mlir::flash::PlainOpInterface findPlainOp(mlir::ModuleOp module);

/// Replaces the one function of `module`, which computes `op` and nothing else, by a gpu.module with the op's kernel as
/// the only one of a launch. Fails after an error.
mlir::LogicalResult convertPlainFunction(mlir::ModuleOp module, mlir::flash::PlainOpInterface op,
                                         llvm::StringRef target);

} // namespace flashc

#endif // FLASHC_LIB_CONVERSION_FLASHTOTILE_PLAINLAUNCH_H
