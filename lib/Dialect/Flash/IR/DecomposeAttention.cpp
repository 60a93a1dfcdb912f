//===- DecomposeAttention.cpp - attention as linalg --------------------------------------------------------------===//
//
//   flash.attention         S, m = rowmax(S), P = exp(S - m), l = rowsum(P), acc = T(P) V, finalize     (Algorithm 0)
//   flash.online_attention  the same, but rescales the running state (acc, m, l) and adds to it
//   flash.finalize          o = acc / l, lse = m + log(l)
//
// T(P) is P rounded to the element type of V.
//
//===--------------------------------------------------------------------------------------------------------------===//

#include "Decompose.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"

using namespace mlir;
using namespace mlir::flash;
using namespace mlir::flash::decompose;

/// Emits `x`, or `instead` where `x` is equal to `sentinel`.
static Value replaceSentinel(ImplicitLocOpBuilder &b, Value x, float sentinel, float instead) {
  Value hit = arith::CmpFOp::create(b, arith::CmpFPredicate::OEQ, x, f32Constant(b, sentinel));
  return arith::SelectOp::create(b, hit, f32Constant(b, instead), x);
}

/// Emits `exp(x - m)`, which is 0 in a row that has seen no key, where x = m = -inf.
static Value expMinusMax(ImplicitLocOpBuilder &b, Value x, Value m) {
  Value shift = replaceSentinel(b, m, kNegInf, 0.0f);
  return math::ExpOp::create(b, arith::SubFOp::create(b, x, shift));
}

/// Emits `x / l`, or 0 in a row that has seen no key, where x = l = 0.
static Value divideByRowSum(ImplicitLocOpBuilder &b, Value x, Value l) {
  return arith::DivFOp::create(b, x, replaceSentinel(b, l, 0.0f, 1.0f));
}

/// Emits max(m, rowmax(S)). S are scores, or the maxima of several parts.
static Value emitRowMax(ImplicitLocOpBuilder &b, const Indexed &scores, Value m) {
  return generic(b, 4, {scores}, {m, {B, H, I}}, [](ImplicitLocOpBuilder &b, ValueRange args) -> Value {
    return arith::MaximumFOp::create(b, args[0], args[1]);
  });
}

/// Emits P = exp(S - m), in f32.
static Value emitProbabilities(ImplicitLocOpBuilder &b, Value scores, Value m) {
  Value empty = tensor::EmptyOp::create(b, tensor::getMixedSizes(b, b.getLoc(), scores), b.getF32Type());
  return generic(b, 4, {{scores, {B, H, I, J}}, {m, {B, H, I}}}, {empty, {B, H, I, J}},
                 [](ImplicitLocOpBuilder &b, ValueRange args) { return expMinusMax(b, args[0], args[1]); });
}

/// Emits l + rowsum(P). P are probabilities, or the sums of several parts.
static Value emitRowSum(ImplicitLocOpBuilder &b, const Indexed &probabilities, Value l) {
  return generic(b, 4, {probabilities}, {l, {B, H, I}}, added);
}

/// Emits acc + T(P) V.
static Value emitOutputProduct(ImplicitLocOpBuilder &b, Value probabilities, Value v, Value acc, int64_t groupSize) {
  return addWeighted(b, {probabilities, {B, H, I, J}}, {v, {B, KeyHead, J, D}}, {acc, {B, H, I, D}}, groupSize);
}

/// Replaces every element `x` of `acc` by `combine(x, r)`, where `r` is the element of `rows` for the row of `x`. The
/// fourth loop is over d.
static Value emitRowwise(ImplicitLocOpBuilder &b, Value acc, Value rows,
                         function_ref<Value(ImplicitLocOpBuilder &, Value, Value)> combine) {
  return generic(b, 4, {{rows, {0, 1, 2}}}, {acc, {0, 1, 2, 3}},
                 [&](ImplicitLocOpBuilder &b, ValueRange args) { return combine(b, args[1], args[0]); });
}

static Value multiplied(ImplicitLocOpBuilder &b, Value x, Value y) { return arith::MulFOp::create(b, x, y); }

/// Returns exp(oldMax - newMax), the factor that rescales a state from `oldMax` to `newMax`, and `l` times this factor.
static std::pair<Value, Value> emitCorrection(ImplicitLocOpBuilder &b, Value oldMax, Value newMax, Value l) {
  Value empty = tensor::EmptyOp::create(b, tensor::getMixedSizes(b, b.getLoc(), oldMax), b.getF32Type());
  SmallVector<unsigned> row{B, H, I}, loops = row;
  // Partial states have a leading dimension of chunks, which runs as the fourth loop.
  if (cast<ShapedType>(oldMax.getType()).getRank() == 4)
    loops = {J, B, H, I};
  unsigned numLoops = loops.size();
  Value correction = generic(b, numLoops, {{oldMax, loops}, {newMax, row}}, {empty, loops},
                             [](ImplicitLocOpBuilder &b, ValueRange args) { return expMinusMax(b, args[0], args[1]); });
  Value corrected = generic(b, numLoops, {{correction, loops}}, {l, loops},
                            [](ImplicitLocOpBuilder &b, ValueRange args) { return multiplied(b, args[0], args[1]); });
  return {correction, corrected};
}

/// Emits lse = m + log(l), and o rounded to the type of `o`: acc / l (deferred) or acc (each_step).
static SmallVector<Value> emitFinalize(ImplicitLocOpBuilder &b, Value acc, Value m, Value l, Value o, Value lse,
                                       Normalize normalize) {
  Type outputType = getElementTypeOrSelf(o.getType());
  SmallVector<Indexed> ins{{acc, {0, 1, 2, 3}}};
  if (normalize == Normalize::Deferred)
    ins.push_back({l, {0, 1, 2}});
  Value output = generic(b, 4, ins, {o, {0, 1, 2, 3}}, [&](ImplicitLocOpBuilder &b, ValueRange args) {
    Value x = args[0];
    if (normalize == Normalize::Deferred)
      x = divideByRowSum(b, x, args[1]);
    return narrow(b, x, outputType);
  });
  // In a row that has seen no key, lse is -inf + log(0) = -inf, not NaN.
  Value logSumExp = generic(b, 3, {{m, {B, H, I}}, {l, {B, H, I}}}, {lse, {B, H, I}},
                            [](ImplicitLocOpBuilder &b, ValueRange args) -> Value {
                              return arith::AddFOp::create(b, args[0], math::LogOp::create(b, args[1]));
                            });
  return {output, logSumExp};
}

/// Folds the sinks into the state, as one more column of scores: its score is the head's sink, and its value is 0.
static void emitFoldedSinks(ImplicitLocOpBuilder &b, Value sinks, Normalize normalize, Value &acc, Value &m, Value &l) {
  Value before = m;
  m = generic(b, 3, {{sinks, {H}}}, {m, {B, H, I}}, [](ImplicitLocOpBuilder &b, ValueRange args) -> Value {
    return arith::MaximumFOp::create(b, args[0], args[1]);
  });
  auto [correction, corrected] = emitCorrection(b, before, m, l);
  l = generic(b, 3, {{sinks, {H}}, {m, {B, H, I}}}, {corrected, {B, H, I}},
              [](ImplicitLocOpBuilder &b, ValueRange args) -> Value {
                return arith::AddFOp::create(b, args[2], expMinusMax(b, args[0], args[1]));
              });
  bool eachStep = normalize == Normalize::EachStep;
  acc = emitRowwise(b, acc, eachStep ? corrected : correction, multiplied);
  if (eachStep)
    acc = emitRowwise(b, acc, l, divideByRowSum);
}

FailureOr<SmallVector<Value>> AttentionOp::decomposeOperation(OpBuilder &builder) {
  if (!hasTensorSemantics())
    return failure();
  ImplicitLocOpBuilder b(getLoc(), builder);
  SmallVector<OpFoldResult> outputSizes = tensor::getMixedSizes(b, getLoc(), getQ());
  outputSizes.back() = b.getIndexAttr(getVType().getDimSize(3));
  ArrayRef<OpFoldResult> rowSizes = ArrayRef(outputSizes).drop_back();

  Value scores = emitScores(b, *this, emitQK(b, *this), SmallVector<Value>(4));
  Value m = emitRowMax(b, {scores, {B, H, I, J}}, filledTensor(b, rowSizes, kNegInf));
  Value probabilities = emitProbabilities(b, scores, m);
  Value l = emitRowSum(b, {probabilities, {B, H, I, J}}, filledTensor(b, rowSizes, 0.0f));
  Value dropped = emitDropped(b, *this, probabilities, SmallVector<Value>(4));
  Value acc = emitOutputProduct(b, dropped, getV(), filledTensor(b, outputSizes, 0.0f), getGroup());
  Value o = tensor::EmptyOp::create(b, outputSizes, getOutputType(0).getElementType());
  Value lse = tensor::EmptyOp::create(b, rowSizes, b.getF32Type());
  if (getSinks())
    emitFoldedSinks(b, getSinks(), Normalize::Deferred, acc, m, l);
  SmallVector<Value> results = emitFinalize(b, acc, m, l, o, lse, Normalize::Deferred);
  castResults(b, results, *this);
  return results;
}

FailureOr<SmallVector<Value>> OnlineAttentionOp::decomposeOperation(OpBuilder &builder) {
  ImplicitLocOpBuilder b(getLoc(), builder);
  auto at = llvm::to_vector_of<Value>(getPosition());
  Value scores = emitScores(b, *this, emitQK(b, *this), at);
  Value m = emitRowMax(b, {scores, {B, H, I, J}}, getM());
  Value probabilities = emitProbabilities(b, scores, m);

  auto [correction, corrected] = emitCorrection(b, getM(), m, getL());
  Value l = emitRowSum(b, {probabilities, {B, H, I, J}}, corrected);

  bool eachStep = getNormalize() == Normalize::EachStep;
  Value acc = emitRowwise(b, getAcc(), eachStep ? corrected : correction, multiplied);
  acc = emitOutputProduct(b, emitDropped(b, *this, probabilities, at), getV(), acc, getGroup());
  if (eachStep)
    acc = emitRowwise(b, acc, l, divideByRowSum);
  return SmallVector<Value>{acc, m, l};
}

FailureOr<SmallVector<Value>> FinalizeOp::decomposeOperation(OpBuilder &builder) {
  ImplicitLocOpBuilder b(getLoc(), builder);
  Value acc = getAcc(), m = getM(), l = getL();
  if (getSinks())
    emitFoldedSinks(b, getSinks(), getNormalize(), acc, m, l);
  return emitFinalize(b, acc, m, l, getO(), getLse(), getNormalize());
}

/// Folds the states of chunks of keys into the op's own state. As for a block of keys, every state is rescaled to the
/// common maximum, and then all states are added.
FailureOr<MergeResult> OnlineAttentionOp::mergeReductions(OpBuilder &builder, Location loc, ValueRange partial,
                                                          const SetVector<unsigned> &reductionDims) {
  ImplicitLocOpBuilder b(loc, builder);
  SmallVector<unsigned> chunkRow{J, B, H, I};
  Value m = emitRowMax(b, {partial[1], chunkRow}, getM());
  auto [chunkCorrection, chunkSums] = emitCorrection(b, partial[1], m, partial[2]);
  auto [correction, corrected] = emitCorrection(b, getM(), m, getL());
  Value l = emitRowSum(b, {chunkSums, chunkRow}, corrected);
  bool eachStep = getNormalize() == Normalize::EachStep;
  Value acc = emitRowwise(b, getAcc(), eachStep ? corrected : correction, multiplied);
  acc = multiplyAccumulate(b, {eachStep ? chunkSums : chunkCorrection, chunkRow}, {partial[0], {J, B, H, I, D}},
                           {acc, {B, H, I, D}}, /*groupSize=*/1);
  if (eachStep)
    acc = emitRowwise(b, acc, l, divideByRowSum);
  return MergeResult{{acc.getDefiningOp(), m.getDefiningOp(), l.getDefiningOp()}, {acc, m, l}};
}
