//===- ScoreDerivative.h - derivatives of scalar code -------------------------------------------------------------===//
//
// Forward mode: an op that depends on the seed is followed by code of its derivative with respect to the seed, its
// tangent; others have none. docs/backward.md lists the rules and what they say at kinks.
//
//===--------------------------------------------------------------------------------------------------------------===//
#ifndef FLASHC_DIALECT_FLASH_IR_SCOREDERIVATIVE_H
#define FLASHC_DIALECT_FLASH_IR_SCOREDERIVATIVE_H

#include "mlir/IR/Region.h"
#include "mlir/Support/LLVM.h"

namespace mlir::flash {

/// The derivative of what `block` yields (its terminator's only operand, a scalar float) with respect to `seed`, a
/// scalar float that is defined in the block, is its argument, or comes from outside. Puts its code into the block, in
/// front of the terminator. It is an f64 if what is yielded is one, and an f32 otherwise. Emits an error on the op
/// around the block, with a note on the op in it that has no derivative, and fails; the block has then more code than
/// before, which nothing reads.
FailureOr<Value> differentiate(Block &block, Value seed);

/// Fills the empty region `derivative` of an op with the derivative of `score`, the region of an op with scores, with
/// respect to its first argument: a block of the same arguments, with what of the score's code the derivative needs.
/// Emits an error on the op of `score` and fails if an op in it has no derivative; `derivative` is then empty.
LogicalResult differentiateScore(Region &score, Region &derivative);

/// The same, with respect to `seed`, a scalar float that the score's block computes, all of whose code is used, or its
/// argument.
LogicalResult differentiateScore(Region &score, Value seed, Region &derivative);

} // namespace mlir::flash

#endif // FLASHC_DIALECT_FLASH_IR_SCOREDERIVATIVE_H
