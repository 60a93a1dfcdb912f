//===- Variants.h - several entries of one kernel -----------------------------------------------------------------===//
#ifndef FLASHC_LIB_COMPILER_VARIANTS_H
#define FLASHC_LIB_COMPILER_VARIANTS_H

#include "flashc/Conversion/ScheduleChoice.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"

#include <string>

namespace flashc {

/// The function of the attention in `module` (L0); null if there is none.
mlir::func::FuncOp findFunction(mlir::ModuleOp module);

/// The entry of a variant for the attention in `module` (L0): such as causal_q1024, packed_short. Empty for the choice
/// that is for every other launch, whose entry has the function's name.
std::string getVariantName(mlir::ModuleOp module, const ScheduleChoice &choice);

/// Renames the function of the attention in `module` (L0), whose kernel will be of that name.
void renameEntry(mlir::ModuleOp module, llvm::StringRef name);

/// Moves the kernel of `variant` into the gpu.module of `kernel`, behind those that are there, for the launches that
/// `choice` is for. Both were lowered to the same level, under different names. The number of queries is dimension 2 of
/// an argument.
void addVariant(mlir::ModuleOp kernel, mlir::OwningOpRef<mlir::ModuleOp> variant, unsigned queriesArgument,
                const ScheduleChoice &choice);

/// A copy of a kernel at L2 that has one of its entries, by its number in the manifest, and the kernels of its launch.
mlir::OwningOpRef<mlir::ModuleOp> selectEntry(mlir::ModuleOp kernel, size_t number);

} // namespace flashc

#endif // FLASHC_LIB_COMPILER_VARIANTS_H
