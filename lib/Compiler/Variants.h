//===- Variants.h - several entries of one kernel -----------------------------------------------------------------===//
#ifndef FLASHC_LIB_COMPILER_VARIANTS_H
#define FLASHC_LIB_COMPILER_VARIANTS_H

#include "flashc/Conversion/ScheduleChoice.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"

#include <string>

namespace flashc {

/// Returns the function of the attention in `module` (L0); null if there is none.
mlir::func::FuncOp findFunction(mlir::ModuleOp module);

/// Returns the name of the entry of `choice` for the attention in `module` (L0), such as causal_q1024 or packed_short.
/// Empty if `choice` is for all other launches: then the entry has the name of the function.
std::string getVariantName(mlir::ModuleOp module, const ScheduleChoice &choice);

/// Renames the function of the attention in `module` (L0), which also names its kernel.
void renameEntry(mlir::ModuleOp module, llvm::StringRef name);

/// Moves the kernels of `variant` into the gpu.module of `kernel`, after the kernels that are already there. They
/// become the entry for launches that meet the conditions of `choice`. `variant` and `kernel` must be at the same
/// level, and the names of their kernels must differ. Argument `queriesArgument` has the number of queries as dimension
/// 2.
void addVariant(mlir::ModuleOp kernel, mlir::OwningOpRef<mlir::ModuleOp> variant, unsigned queriesArgument,
                const ScheduleChoice &choice);

/// Returns a copy of `kernel` (at L2) that has only the kernels of one entry. `number` is the entry's number in the
/// manifest.
mlir::OwningOpRef<mlir::ModuleOp> selectEntry(mlir::ModuleOp kernel, size_t number);

} // namespace flashc

#endif // FLASHC_LIB_COMPILER_VARIANTS_H
