//===- NestEnds.h - the function of a kernel, and where its nests end ---------------------------------------------===//
#ifndef FLASHC_LIB_CONVERSION_FLASHTOTILE_NESTENDS_H
#define FLASHC_LIB_CONVERSION_FLASHTOTILE_NESTENDS_H

#include "flashc/Dialect/Flash/IR/Flash.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace flashc {

/// The ends of the nests of a function: of each the last step, and of one what takes its state.
struct NestEnds {
  llvm::SmallVector<mlir::flash::StepOpInterface> steps;
  mlir::flash::EpilogueOpInterface epilogue;
};

/// The one function of a module, of one block, whose name and arguments a kernel may have. Emits an error and fails
/// otherwise.
mlir::FailureOr<mlir::func::FuncOp> matchFunction(mlir::ModuleOp module);

/// Emits an error and fails if `func` has no tiled attention, or two.
mlir::FailureOr<NestEnds> findNestEnds(mlir::func::FuncOp func);

} // namespace flashc

#endif // FLASHC_LIB_CONVERSION_FLASHTOTILE_NESTENDS_H
