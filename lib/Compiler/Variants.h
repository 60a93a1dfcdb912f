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

/// Returns the name of the entry of a variant for the attention in `module` (L0), such as causal_q1024 or packed_short.
/// Empty for the choice for all other launches, whose entry has the function's name.
std::string getVariantName(mlir::ModuleOp module, const ScheduleChoice &choice);

/// Renames the function of the attention in `module` (L0), which also names its kernel.
void renameEntry(mlir::ModuleOp module, llvm::StringRef name);

/// Moves the kernel of `variant` into the gpu.module of `kernel`, after the kernels there, for the launches of
/// `choice`. Both are at the same level and have different names. The number of queries is dimension 2 of argument
/// `queriesArgument`.
void addVariant(mlir::ModuleOp kernel, mlir::OwningOpRef<mlir::ModuleOp> variant, unsigned queriesArgument,
                const ScheduleChoice &choice);

/// Copies one entry of a kernel at L2, by its number in the manifest, with the kernels of its launch.
mlir::OwningOpRef<mlir::ModuleOp> selectEntry(mlir::ModuleOp kernel, size_t number);

} // namespace flashc

#endif // FLASHC_LIB_COMPILER_VARIANTS_H
