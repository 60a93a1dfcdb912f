//===- Decompose.h - shared helpers of the decompositions to linalg -----------------------------------------------===//
//
// Every flash op decomposes to a few linalg.generic ops (AggregatedOpInterface). The loops of a product or an
// elementwise op are (b, h, i, j, d), or the first few of these.
//
//===--------------------------------------------------------------------------------------------------------------===//
#ifndef FLASHC_LIB_DIALECT_FLASH_IR_DECOMPOSE_H
#define FLASHC_LIB_DIALECT_FLASH_IR_DECOMPOSE_H

#include "flashc/Dialect/Flash/IR/Flash.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"
#include <limits>

namespace mlir::flash::decompose {

constexpr float kNegInf = -std::numeric_limits<float>::infinity();

/// The loops of `generic`, from the outermost on. `KeyHead` is no loop: it stands for the key head of query head H.
enum Loop : unsigned { B, H, I, J, D, KeyHead };

/// An operand of `generic`, and the loops that index its dimensions.
using Indexed = std::pair<Value, SmallVector<unsigned>>;

/// Emits `out[...] = body(ins[...], out[...])` in `numLoops` loops. A loop that does not index `out` is a reduction.
/// `groupSize` query heads share a key head.
Value generic(ImplicitLocOpBuilder &b, unsigned numLoops, ArrayRef<Indexed> ins, Indexed out,
              function_ref<Value(ImplicitLocOpBuilder &, ValueRange)> body, int64_t groupSize = 1);

/// Emits `acc + factor * sum(narrow(a) * x)` in f32. The sum runs over the loop that does not index `acc`. `narrow`
/// rounds to the type of `x`.
Value multiplyAccumulate(ImplicitLocOpBuilder &b, Indexed a, Indexed x, Indexed acc, int64_t groupSize,
                         float factor = 1.0f);

/// Like multiplyAccumulate for weights `a`, but adds nothing where a weight is 0, so that `x` may be NaN there. A pair
/// that the mask hides has the weight 0.
Value addWeighted(ImplicitLocOpBuilder &b, Indexed a, Indexed x, Indexed acc, int64_t groupSize, float factor = 1.0f);

/// Emits a tensor of f32 in which every element is `value`.
Value filledTensor(ImplicitLocOpBuilder &b, ArrayRef<OpFoldResult> sizes, float value);

Value f32Constant(ImplicitLocOpBuilder &b, float value);
/// Emits `x` in f32.
Value widen(ImplicitLocOpBuilder &b, Value x);
/// Emits `x`, an f32, rounded to `type`.
Value narrow(ImplicitLocOpBuilder &b, Value x, Type type);
/// A `body` for `generic`. Returns the sum of the input and the output.
Value added(ImplicitLocOpBuilder &b, ValueRange args);

/// Emits Q K^T as [b, h, i, j], in f32.
Value emitQK(ImplicitLocOpBuilder &b, ScoresOpInterface op);
/// Emits S[b, h, i, j] = score(scale * Q K^T), or -inf where the mask hides the pair. `at` is the position (b, h, i, j)
/// that the regions see for the first element.
Value emitScores(ImplicitLocOpBuilder &b, ScoresOpInterface op, Value qk, ArrayRef<Value> at);
/// Scales an element of Q K^T.
Value emitScaled(ImplicitLocOpBuilder &b, ScoresOpInterface op, Value product);
/// Returns the position (b, h, i, j) for the body of loops over [b, h, i, j] that begin at `at`.
SmallVector<Value> emitPosition(ImplicitLocOpBuilder &b, ArrayRef<Value> at);
/// Emits exp(s - lse). The weight is 0 where lse is -inf (the query sees no key). It is also 0 where s is -inf, even if
/// lse is infinite or NaN.
Value emitWeight(ImplicitLocOpBuilder &b, Value s, Value lse);

/// Returns `values` [b, h, i, j] after dropout: dropped elements are 0, and kept elements are divided by 1 - rate.
/// Returns `values` itself if `op` has no dropout.
Value emitDropped(ImplicitLocOpBuilder &b, ScoresOpInterface op, Value values, ArrayRef<Value> at);

/// Casts `results` to the result types of `op`. An extent that is static in one of the two types may be dynamic in the
/// other.
void castResults(ImplicitLocOpBuilder &b, MutableArrayRef<Value> results, Operation *op);

} // namespace mlir::flash::decompose

#endif // FLASHC_LIB_DIALECT_FLASH_IR_DECOMPOSE_H
