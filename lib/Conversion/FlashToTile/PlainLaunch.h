//===- PlainLaunch.h - launches of ops without scores -------------------------------------------------------------===//
#ifndef FLASHC_LIB_CONVERSION_FLASHTOTILE_PLAINLAUNCH_H
#define FLASHC_LIB_CONVERSION_FLASHTOTILE_PLAINLAUNCH_H

#include "flashc/Dialect/Flash/IR/Flash.h"
#include "mlir/IR/BuiltinOps.h"

namespace flashc {

/// Returns the op of the module that has no scores, and therefore no nest of loops. Null if there is no such op.
mlir::flash::PlainOpInterface findPlainOp(mlir::ModuleOp module);

/// Replaces the only function of `module`, which computes `op` and nothing else, by a gpu.module with the op's kernel.
/// Fails after an error.
mlir::LogicalResult convertPlainFunction(mlir::ModuleOp module, mlir::flash::PlainOpInterface op,
                                         llvm::StringRef target);

} // namespace flashc

#endif // FLASHC_LIB_CONVERSION_FLASHTOTILE_PLAINLAUNCH_H
