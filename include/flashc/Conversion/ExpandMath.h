//===- ExpandMath.h - functions that a target has no instruction for ----------------------------------------------===//
#ifndef FLASHC_CONVERSION_EXPANDMATH_H
#define FLASHC_CONVERSION_EXPANDMATH_H

namespace mlir {
class Operation;
class RewritePatternSet;
} // namespace mlir

namespace flashc {

/// Whether sm_90a has instructions for an op of `math` as it is.
bool isMathInstruction(mlir::Operation *op);

/// Patterns for ops that LLVM and libm do not have, or that LLVM would compute by a difference (expm1, log1p).
void populateExpandToLibmPatterns(mlir::RewritePatternSet &patterns);

/// Patterns for those, and for functions of f32, f16 and bf16 that sm_90a has no instruction for.
void populateExpandMathPatterns(mlir::RewritePatternSet &patterns);

} // namespace flashc

#endif // FLASHC_CONVERSION_EXPANDMATH_H
