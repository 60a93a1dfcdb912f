//===- Variants.h - several entries of one kernel -----------------------------------------------------------------===//
#ifndef FLASHC_LIB_COMPILER_VARIANTS_H
#define FLASHC_LIB_COMPILER_VARIANTS_H

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"

#include <string>

namespace flashc {

/// The entry for up to `maxQueries` queries of the attention in `module` (L0): such as causal_q1024.
std::string getVariantName(mlir::ModuleOp module, int64_t maxQueries);

/// Renames the function of the attention in `module` (L0), whose kernel will be of that name.
void renameEntry(mlir::ModuleOp module, llvm::StringRef name);

/// Moves the kernel of `variant` into the gpu.module of `kernel`, behind those that are there, for launches of up to
/// `maxQueries` queries (dimension 2 of an argument). Both were lowered to the same level, under different names.
void addVariant(mlir::ModuleOp kernel, mlir::OwningOpRef<mlir::ModuleOp> variant, unsigned queriesArgument,
                int64_t maxQueries);

} // namespace flashc

#endif // FLASHC_LIB_COMPILER_VARIANTS_H
