//===- Reference.h - Algorithm 0 in double precision --------------------------------------------------------------===//
#ifndef FLASHC_EXECUTION_REFERENCE_H
#define FLASHC_EXECUTION_REFERENCE_H

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"
#include "mlir/Support/LLVM.h"

namespace flashc {

/// Returns a copy of `module` in which flash ops are decomposed (flash.attention by Algorithm 0), and every float type
/// is widened to f64. So the copy computes what `module` computes, without the rounding of its types. Emits a
/// diagnostic if the module has float ops that cannot be widened, such as casts to bits.
mlir::FailureOr<mlir::OwningOpRef<mlir::ModuleOp>> makeReference(mlir::ModuleOp module);

} // namespace flashc

#endif // FLASHC_EXECUTION_REFERENCE_H
