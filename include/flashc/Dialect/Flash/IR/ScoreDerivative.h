//===- ScoreDerivative.h - derivatives of scalar code -------------------------------------------------------------===//
//
// The seed is the variable with respect to which code is differentiated. Derivatives are computed in forward mode:
// after each op that depends on the seed comes the code of the op's tangent, the derivative of the op's result with
// respect to the seed. docs/backward.md lists the rules, also for kinks.
//
//===--------------------------------------------------------------------------------------------------------------===//
#ifndef FLASHC_DIALECT_FLASH_IR_SCOREDERIVATIVE_H
#define FLASHC_DIALECT_FLASH_IR_SCOREDERIVATIVE_H

#include "mlir/IR/Region.h"
#include "mlir/Support/LLVM.h"

namespace mlir::flash {

/// Emits the derivative of the block's result with respect to `seed`, before the terminator of `block`. The result is
/// the terminator's only operand, a scalar float. `seed` is a scalar float: an argument of the block, or a value from
/// inside or outside of the block. The derivative is an f64 if the result is an f64, and otherwise an f32. If some op
/// has no derivative, emits an error on the op around the block, with a note on the op without derivative, and fails;
/// the block then contains additional unused code.
FailureOr<Value> differentiate(Block &block, Value seed);

/// Fills `derivative`, an empty region of an op, with the derivative of `score` with respect to the first argument of
/// `score`. `score` is the score region of an op. The new block has the same arguments as the score's block, and the
/// code of the score that the derivative needs. If an op in the score has no derivative, emits an error on the op that
/// has `score`, leaves `derivative` empty and fails.
LogicalResult differentiateScore(Region &score, Region &derivative);

/// Like the other `differentiateScore`, but with respect to `seed`. `seed` is a scalar float: an argument of the
/// score's block, or a value that the score computes and uses.
LogicalResult differentiateScore(Region &score, Value seed, Region &derivative);

} // namespace mlir::flash

#endif // FLASHC_DIALECT_FLASH_IR_SCOREDERIVATIVE_H
