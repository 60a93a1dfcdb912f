//===- Decompose.h - what the flash ops as linalg share -----------------------------------------------------------===//
//
// Every flash op is a handful of linalg.generic ops (AggregatedOpInterface). Products and elementwise ops are written
// over the loops (b, h, i, j, d), or a prefix of them.
//
//===--------------------------------------------------------------------------------------------------------------===//
#ifndef FLASHC_LIB_DIALECT_FLASH_IR_DECOMPOSE_H
#define FLASHC_LIB_DIALECT_FLASH_IR_DECOMPOSE_H

#include "flashc/Dialect/Flash/IR/Flash.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"
#include <limits>

namespace mlir::flash::decompose {

constexpr float kNegInf = -std::numeric_limits<float>::infinity();

/// Loops, in the order in which every generic runs them, and what is computed from them: the key head of H.
enum Loop : unsigned { B, H, I, J, D, KeyHead };

/// An operand of `generic`, and the loops that index its dimensions.
using Indexed = std::pair<Value, SmallVector<unsigned>>;

/// `out[...] = body(ins[...], out[...])` over `numLoops` loops, of which those that do not index `out` are reductions.
/// `groupSize` query heads share a key head.
Value generic(ImplicitLocOpBuilder &b, unsigned numLoops, ArrayRef<Indexed> ins, Indexed out,
              function_ref<Value(ImplicitLocOpBuilder &, ValueRange)> body, int64_t groupSize = 1);

/// `acc[...] + factor * sum over the remaining loop of narrow(a) * x`, in f32.
Value multiplyAccumulate(ImplicitLocOpBuilder &b, Indexed a, Indexed x, Indexed acc, int64_t groupSize,
                         float factor = 1.0f);

/// The same for weights `a`: `x` is not multiplied where its weight is 0, as in pairs that the mask hides. It may be
/// NaN there.
Value addWeighted(ImplicitLocOpBuilder &b, Indexed a, Indexed x, Indexed acc, int64_t groupSize, float factor = 1.0f);

/// A tensor of f32.
Value filledTensor(ImplicitLocOpBuilder &b, ArrayRef<OpFoldResult> sizes, float value);

Value f32Constant(ImplicitLocOpBuilder &b, float value);
/// `x` in f32.
Value widen(ImplicitLocOpBuilder &b, Value x);
/// `x`, an f32, rounded to `type`.
Value narrow(ImplicitLocOpBuilder &b, Value x, Type type);
/// A body of `generic`: the output and the input.
Value added(ImplicitLocOpBuilder &b, ValueRange args);

/// Q K^T as [b, h, i, j], in f32.
Value emitQK(ImplicitLocOpBuilder &b, ScoresOpInterface op);
/// S[b, h, i, j] = score(scale * Q K^T), or -inf where the mask keeps nothing. `at` is the position of the first
/// element of the op in the iteration space that the regions see.
Value emitScores(ImplicitLocOpBuilder &b, ScoresOpInterface op, Value qk, ArrayRef<Value> at);
/// An element of Q K^T, scaled.
Value emitScaled(ImplicitLocOpBuilder &b, ScoresOpInterface op, Value product);
/// The position (b, h, i, j) of a loop body over [b, h, i, j], if the op's loops begin at `at`.
SmallVector<Value> emitPosition(ImplicitLocOpBuilder &b, ArrayRef<Value> at);
/// exp(s - lse); 0 of a query of lse = -inf, which has no weight to give, and of a score of -inf, whatever lse is.
Value emitWeight(ImplicitLocOpBuilder &b, Value s, Value lse);

/// `values` [b, h, i, j] with 0 where dropout drops, and what is kept divided by 1 - rate; `values` without dropout.
Value emitDropped(ImplicitLocOpBuilder &b, ScoresOpInterface op, Value values, ArrayRef<Value> at);

/// The op's results may know more, or less, of their extents than its operands do.
void castResults(ImplicitLocOpBuilder &b, MutableArrayRef<Value> results, Operation *op);

} // namespace mlir::flash::decompose

#endif // FLASHC_LIB_DIALECT_FLASH_IR_DECOMPOSE_H
