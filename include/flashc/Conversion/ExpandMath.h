//===- ExpandMath.h - functions that a target has no instruction for ----------------------------------------------===//
#ifndef FLASHC_CONVERSION_EXPANDMATH_H
#define FLASHC_CONVERSION_EXPANDMATH_H

#include "llvm/Support/LogicalResult.h"

namespace mlir {
class Operation;
class RewritePatternSet;
} // namespace mlir

namespace flashc {

/// Whether sm_90a has instructions for `op`, an op of `math`, as it stands.
bool isMathInstruction(mlir::Operation *op);

/// Emits an error and fails if there are ops for which convert-kernel-to-llvm has no code. These are functions of
/// scalars for which `isMathInstruction` does not hold, and constants of type index that need more than 32 bits.
llvm::LogicalResult checkScalarCode(mlir::Operation *root);

/// Adds patterns for ops that LLVM and libm lack, or that LLVM would compute by a difference (expm1, log1p).
void populateExpandToLibmPatterns(mlir::RewritePatternSet &patterns);

/// Adds the patterns of populateExpandToLibmPatterns, and patterns for functions of f32, f16 and bf16 that sm_90a has
/// no instruction for.
void populateExpandMathPatterns(mlir::RewritePatternSet &patterns);

} // namespace flashc

#endif // FLASHC_CONVERSION_EXPANDMATH_H
