//===- NestEnds.h - the function of a kernel, and where its nests end ---------------------------------------------===//
#ifndef FLASHC_LIB_CONVERSION_FLASHTOTILE_NESTENDS_H
#define FLASHC_LIB_CONVERSION_FLASHTOTILE_NESTENDS_H

#include "flashc/Dialect/Flash/IR/Flash.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace flashc {

/// The ends of a function's nests: the last step of each nest, and the epilogue that takes the state of one of these
/// steps.
struct NestEnds {
  llvm::SmallVector<mlir::flash::StepOpInterface> steps;
  mlir::flash::EpilogueOpInterface epilogue;
};

/// Returns the only function of a module. Emits an error and fails unless there is exactly one, of one block, with a
/// name and arguments that a kernel can have.
mlir::FailureOr<mlir::func::FuncOp> matchFunction(mlir::ModuleOp module);

/// Finds the ends of the nests. Emits an error and fails if `func` has no tiled attention, or two.
mlir::FailureOr<NestEnds> findNestEnds(mlir::func::FuncOp func);

} // namespace flashc

#endif // FLASHC_LIB_CONVERSION_FLASHTOTILE_NESTENDS_H
