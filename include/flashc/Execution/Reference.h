//===- Reference.h - Algorithm 0 in double precision --------------------------------------------------------------===//
#ifndef FLASHC_EXECUTION_REFERENCE_H
#define FLASHC_EXECUTION_REFERENCE_H

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"
#include "mlir/Support/LLVM.h"

namespace flashc {

/// A copy of `module` whose flash ops are decomposed (Algorithm 0 for flash.attention) and whose every float type is
/// f64: what the program means, without the rounding of its types. Fails with a diagnostic if the module does something
/// with floats that cannot be widened, such as looking at their bits.
mlir::FailureOr<mlir::OwningOpRef<mlir::ModuleOp>> makeReference(mlir::ModuleOp module);

} // namespace flashc

#endif // FLASHC_EXECUTION_REFERENCE_H
