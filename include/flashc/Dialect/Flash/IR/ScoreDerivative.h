//===- ScoreDerivative.h - derivatives of scalar code -------------------------------------------------------------===//
//
// Forward mode: each op that depends on the seed is followed by the code of its derivative with respect to the seed,
// its tangent. docs/backward.md lists the rules, also for kinks.
//
//===--------------------------------------------------------------------------------------------------------------===//
#ifndef FLASHC_DIALECT_FLASH_IR_SCOREDERIVATIVE_H
#define FLASHC_DIALECT_FLASH_IR_SCOREDERIVATIVE_H

#include "mlir/IR/Region.h"
#include "mlir/Support/LLVM.h"

namespace mlir::flash {

/// Emits, before the terminator of `block`, the derivative of the block's result (the terminator's only operand, a
/// scalar float) with respect to `seed`, a scalar float that is defined in the block, is its argument, or comes from
/// outside. The derivative is an f64 if the result is one, and otherwise an f32. If an op has no derivative, emits an
/// error on the op around the block, with a note on that op, and fails; the block then has additional unused code.
FailureOr<Value> differentiate(Block &block, Value seed);

/// Fills the empty region `derivative` of an op with the derivative of `score`, the score region of an op, with respect
/// to its first argument: a block with the same arguments, and the code of the score that the derivative needs. Emits
/// an error on the op of `score` and fails if an op in the score has no derivative; `derivative` is then empty.
LogicalResult differentiateScore(Region &score, Region &derivative);

/// Does the same with respect to `seed`, a scalar float that is an argument of the score's block or computed in it by
/// code that the score uses.
LogicalResult differentiateScore(Region &score, Value seed, Region &derivative);

} // namespace mlir::flash

#endif // FLASHC_DIALECT_FLASH_IR_SCOREDERIVATIVE_H
