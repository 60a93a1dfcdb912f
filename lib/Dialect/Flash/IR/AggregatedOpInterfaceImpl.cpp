//===- AggregatedOpInterfaceImpl.cpp - the flash ops as linalg ----------------------------------------------------===//
//
// Every flash op is a handful of linalg.generic ops. The scores, the exponentials, the second product and the final
// division are emitted by one function each, which the ops share:
//
//   flash.attention         S, m = rowmax(S), P = exp(S - m), l = rowsum(P), acc = T(P) V, finalize     (Algorithm 0)
//   flash.online_attention  the same, with the running state (acc, m, l) rescaled and folded in
//   flash.finalize          o = acc / l, lse = m + log(l)
//   flash.column_sums       S, c = colsum(exp(S - lse))                                               (Algorithm 0)
//   flash.accumulate_column_sums  the same, added to the running sums
//   flash.attention_backward      S, P = exp(S - lse), dP = dO V^T, dX = P * (dP - delta) * score', dV, dK, dQ (Algorithm 0)
//   flash.accumulate_gradients    the same, added to the running sums
//
// Products and elementwise ops are written over the loops (b, h, i, j, d), or a prefix of them.
//
//===--------------------------------------------------------------------------------------------------------------===//

#include "flashc/Dialect/Flash/IR/Flash.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"
#include <limits>

using namespace mlir;
using namespace mlir::flash;

static constexpr float kNegInf = -std::numeric_limits<float>::infinity();

//===--------------------------------------------------------------------------------------------------------------===//
// Scalars
//===--------------------------------------------------------------------------------------------------------------===//

static Value f32Constant(ImplicitLocOpBuilder &b, float value) {
  return arith::ConstantOp::create(b, b.getF32FloatAttr(value));
}

/// `x` in f32.
static Value widen(ImplicitLocOpBuilder &b, Value x) {
  return x.getType().isF32() ? x : Value(arith::ExtFOp::create(b, b.getF32Type(), x));
}

/// `x`, an f32, rounded to `type`.
static Value narrow(ImplicitLocOpBuilder &b, Value x, Type type) {
  return type.isF32() ? x : Value(arith::TruncFOp::create(b, type, x));
}

/// `x`, or `instead` where `x` is `sentinel`.
static Value replaceSentinel(ImplicitLocOpBuilder &b, Value x, float sentinel, float instead) {
  Value hit = arith::CmpFOp::create(b, arith::CmpFPredicate::OEQ, x, f32Constant(b, sentinel));
  return arith::SelectOp::create(b, hit, f32Constant(b, instead), x);
}

/// `exp(x - m)`, where `m` is a row maximum that may be -inf: a row that has seen no key has x = m = -inf, and gives 0.
static Value expMinusMax(ImplicitLocOpBuilder &b, Value x, Value m) {
  Value shift = replaceSentinel(b, m, kNegInf, 0.0f);
  return math::ExpOp::create(b, arith::SubFOp::create(b, x, shift));
}

/// `x / l`, where `l` may be 0: a row that has seen no key has x = l = 0, and gives 0.
static Value divideByRowSum(ImplicitLocOpBuilder &b, Value x, Value l) {
  return arith::DivFOp::create(b, x, replaceSentinel(b, l, 0.0f, 1.0f));
}

Value mlir::flash::inlineRegion(OpBuilder &b, Region &region, ValueRange arguments) {
  IRMapping mapping;
  mapping.map(region.getArguments(), arguments);
  for (Operation &op : region.front().without_terminator())
    b.clone(op, mapping);
  return mapping.lookupOrDefault(cast<YieldOp>(region.front().getTerminator()).getValue());
}

//===--------------------------------------------------------------------------------------------------------------===//
// Tensors
//===--------------------------------------------------------------------------------------------------------------===//

namespace {
/// Loops, in the order in which every generic below runs them, and what is computed from them: the key head of H.
enum Loop : unsigned { B, H, I, J, D, KeyHead };
} // namespace

static Value filledTensor(ImplicitLocOpBuilder &b, ArrayRef<OpFoldResult> sizes, float value) {
  Value empty = tensor::EmptyOp::create(b, sizes, b.getF32Type());
  return linalg::FillOp::create(b, f32Constant(b, value), empty).getResult(0);
}

/// An operand of `generic`, and the loops that index its dimensions.
using Indexed = std::pair<Value, SmallVector<unsigned>>;

/// `out[...] = body(ins[...], out[...])` over `numLoops` loops, of which those that do not index `out` are reductions.
/// `groupSize` query heads share a key head.
static Value generic(ImplicitLocOpBuilder &b, unsigned numLoops, ArrayRef<Indexed> ins, Indexed out,
                     function_ref<Value(ImplicitLocOpBuilder &, ValueRange)> body, int64_t groupSize = 1) {
  SmallVector<utils::IteratorType> iterators(numLoops, utils::IteratorType::reduction);
  for (unsigned loop : out.second)
    if (loop != KeyHead)
      iterators[loop] = utils::IteratorType::parallel;
  auto mapOf = [&](const Indexed &operand) {
    SmallVector<AffineExpr> exprs;
    for (unsigned loop : operand.second)
      exprs.push_back(loop == KeyHead ? b.getAffineDimExpr(H).floorDiv(groupSize) : b.getAffineDimExpr(loop));
    return AffineMap::get(numLoops, 0, exprs, b.getContext());
  };
  SmallVector<Value> inputs;
  SmallVector<AffineMap> maps;
  for (const Indexed &input : ins) {
    inputs.push_back(input.first);
    maps.push_back(mapOf(input));
  }
  maps.push_back(mapOf(out));
  auto op = linalg::GenericOp::create(b, TypeRange{out.first.getType()}, inputs, ValueRange{out.first}, maps, iterators,
                                      [&](OpBuilder &nested, Location loc, ValueRange arguments) {
                                        ImplicitLocOpBuilder inner(loc, nested);
                                        linalg::YieldOp::create(inner, body(inner, arguments));
                                      });
  return op.getResult(0);
}

/// `acc[...] + factor * sum over the remaining loop of narrow(a) * x`, in f32.
static Value multiplyAccumulate(ImplicitLocOpBuilder &b, Indexed a, Indexed x, Indexed acc, int64_t groupSize,
                                float factor = 1.0f) {
  Type factorType = getElementTypeOrSelf(x.first.getType());
  return generic(
      b, 5, {a, x}, acc,
      [&](ImplicitLocOpBuilder &b, ValueRange args) -> Value {
        // P arrives in f32 and is rounded to V's type here; Q already has K's type.
        Value left = args[0].getType() == factorType ? args[0] : narrow(b, args[0], factorType);
        // In statements of their own: the order in which C++ evaluates arguments differs between compilers.
        Value wideLeft = widen(b, left);
        Value wideRight = widen(b, args[1]);
        Value product = arith::MulFOp::create(b, wideLeft, wideRight);
        if (factor != 1.0f)
          product = arith::MulFOp::create(b, product, f32Constant(b, factor));
        return arith::AddFOp::create(b, args[2], product);
      },
      groupSize);
}

//===--------------------------------------------------------------------------------------------------------------===//
// The steps of attention
//===--------------------------------------------------------------------------------------------------------------===//

/// Q K^T as [b, h, i, j], in f32.
static Value emitQK(ImplicitLocOpBuilder &b, ScoresOpInterface op) {
  SmallVector<OpFoldResult> sizes = tensor::getMixedSizes(b, b.getLoc(), op.getQ());
  sizes.back() = tensor::getMixedSize(b, b.getLoc(), op.getK(), 2);
  return multiplyAccumulate(b, {op.getQ(), {B, H, I, D}}, {op.getK(), {B, KeyHead, J, D}},
                            {filledTensor(b, sizes, 0.0f), {B, H, I, J}}, op.getGroup());
}

/// The position (b, h, i, j) of a loop body over [b, h, i, j], if the op's loops begin at `at`.
static SmallVector<Value> emitPosition(ImplicitLocOpBuilder &b, ArrayRef<Value> at) {
  SmallVector<Value> position;
  for (auto [dim, offset] : llvm::enumerate(at)) {
    Value index = linalg::IndexOp::create(b, dim);
    position.push_back(offset ? b.createOrFold<arith::AddIOp>(offset, index) : index);
  }
  return position;
}

static Value emitScaled(ImplicitLocOpBuilder &b, ScoresOpInterface op, Value product) {
  return arith::MulFOp::create(b, product, f32Constant(b, op.getScale().convertToFloat()));
}

/// S[b, h, i, j] = score(scale * Q K^T), or -inf where the mask keeps nothing. `at` is the position of the first
/// element of the op in the iteration space that the regions see.
static Value emitScores(ImplicitLocOpBuilder &b, ScoresOpInterface op, Value qk, ArrayRef<Value> at) {
  return generic(b, 4, {}, {qk, {B, H, I, J}}, [&](ImplicitLocOpBuilder &b, ValueRange args) -> Value {
    Value s = emitScaled(b, op, args[0]);
    SmallVector<Value> position;
    if (op.hasScore() || op.hasMask())
      position = emitPosition(b, at);
    if (op.hasScore()) {
      SmallVector<Value> arguments{s};
      arguments.append(position);
      s = inlineRegion(b, op.getScore(), arguments);
    }
    if (op.hasMask())
      s = arith::SelectOp::create(b, inlineRegion(b, op.getMask(), position), s, f32Constant(b, kNegInf));
    return s;
  });
}

/// max(m, rowmax(S)), of scores or of other maxima.
static Value emitRowMax(ImplicitLocOpBuilder &b, const Indexed &scores, Value m) {
  return generic(b, 4, {scores}, {m, {B, H, I}}, [](ImplicitLocOpBuilder &b, ValueRange args) -> Value {
    return arith::MaximumFOp::create(b, args[0], args[1]);
  });
}

/// P = exp(S - m), in f32.
static Value emitProbabilities(ImplicitLocOpBuilder &b, Value scores, Value m) {
  Value empty = tensor::EmptyOp::create(b, tensor::getMixedSizes(b, b.getLoc(), scores), b.getF32Type());
  return generic(b, 4, {{scores, {B, H, I, J}}, {m, {B, H, I}}}, {empty, {B, H, I, J}},
                 [](ImplicitLocOpBuilder &b, ValueRange args) { return expMinusMax(b, args[0], args[1]); });
}

static Value added(ImplicitLocOpBuilder &b, ValueRange args) { return arith::AddFOp::create(b, args[1], args[0]); }

/// l + rowsum(P), of probabilities or of other sums.
static Value emitRowSum(ImplicitLocOpBuilder &b, const Indexed &probabilities, Value l) {
  return generic(b, 4, {probabilities}, {l, {B, H, I}}, added);
}

/// acc + T(P) V.
static Value emitOutputProduct(ImplicitLocOpBuilder &b, Value probabilities, Value v, Value acc, int64_t groupSize) {
  return multiplyAccumulate(b, {probabilities, {B, H, I, J}}, {v, {B, KeyHead, J, D}}, {acc, {B, H, I, D}}, groupSize);
}

/// `combine(x, row)` for every element `x` of `acc` and its row's `row`, in place. The fourth loop is that of d.
static Value emitRowwise(ImplicitLocOpBuilder &b, Value acc, Value rows,
                         function_ref<Value(ImplicitLocOpBuilder &, Value, Value)> combine) {
  return generic(b, 4, {{rows, {0, 1, 2}}}, {acc, {0, 1, 2, 3}},
                 [&](ImplicitLocOpBuilder &b, ValueRange args) { return combine(b, args[1], args[0]); });
}

static Value multiplied(ImplicitLocOpBuilder &b, Value x, Value y) { return arith::MulFOp::create(b, x, y); }

/// exp(oldMax - newMax), by which a state that knows `oldMax` is scaled, and that times `l`.
static std::pair<Value, Value> emitCorrection(ImplicitLocOpBuilder &b, Value oldMax, Value newMax, Value l) {
  Value empty = tensor::EmptyOp::create(b, tensor::getMixedSizes(b, b.getLoc(), oldMax), b.getF32Type());
  SmallVector<unsigned> row{B, H, I}, loops = row;
  // Partial states have a leading dimension of chunks, which runs as the fourth loop.
  if (cast<ShapedType>(oldMax.getType()).getRank() == 4)
    loops = {J, B, H, I};
  unsigned numLoops = loops.size();
  Value correction = generic(
      b, numLoops, {{oldMax, loops}, {newMax, row}}, {empty, loops},
      [](ImplicitLocOpBuilder &b, ValueRange args) { return expMinusMax(b, args[0], args[1]); });
  Value corrected =
      generic(b, numLoops, {{correction, loops}}, {l, loops},
              [](ImplicitLocOpBuilder &b, ValueRange args) { return multiplied(b, args[0], args[1]); });
  return {correction, corrected};
}

/// o = acc / l (deferred) or acc (each_step), rounded to the type of `o`, and lse = m + log(l).
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
  // A row that has seen no key: -inf + log(0) = -inf, no NaN.
  Value logSumExp = generic(b, 3, {{m, {B, H, I}}, {l, {B, H, I}}}, {lse, {B, H, I}},
                            [](ImplicitLocOpBuilder &b, ValueRange args) -> Value {
                              return arith::AddFOp::create(b, args[0], math::LogOp::create(b, args[1]));
                            });
  return {output, logSumExp};
}

/// exp(s - lse), of a query of lse = -inf 0: it has no weight to give.
static Value emitWeight(ImplicitLocOpBuilder &b, Value s, Value lse) {
  Value zero = f32Constant(b, 0.0f), none = f32Constant(b, kNegInf);
  Value isEmpty = arith::CmpFOp::create(b, arith::CmpFPredicate::OEQ, lse, none);
  Value weight = math::ExpOp::create(b, arith::SubFOp::create(b, s, lse));
  return arith::SelectOp::create(b, isEmpty, zero, weight);
}

/// c + colsum(exp(S - lse)).
static Value emitColumnSums(ImplicitLocOpBuilder &b, Value scores, Value lse, Value c) {
  return generic(b, 4, {{scores, {B, H, I, J}}, {lse, {B, H, I}}}, {c, {B, H, J}},
                 [](ImplicitLocOpBuilder &b, ValueRange args) -> Value {
                   return arith::AddFOp::create(b, args[2], emitWeight(b, args[0], args[1]));
                 });
}

Value mlir::flash::emitGroupSums(OpBuilder &builder, Location loc, Value c, OpFoldResult keyHeads, int64_t groupSize) {
  if (groupSize == 1)
    return c;
  ImplicitLocOpBuilder b(loc, builder);
  SmallVector<OpFoldResult> sizes = tensor::getMixedSizes(b, loc, c);
  sizes[1] = keyHeads;
  // The third loop is that of j, and the fourth, where there is one, that of d.
  SmallVector<unsigned> in{0, H, 2}, out{0, KeyHead, 2};
  if (sizes.size() == 4) {
    in.push_back(3);
    out.push_back(3);
  }
  return generic(b, sizes.size(), {{c, in}}, {filledTensor(b, sizes, 0.0f), out}, added, groupSize);
}

Value mlir::flash::emitRowDots(OpBuilder &builder, Location loc, Value o, Value dout, Value dlse) {
  ImplicitLocOpBuilder b(loc, builder);
  SmallVector<OpFoldResult> sizes = tensor::getMixedSizes(b, loc, o);
  sizes.pop_back();
  Value init = filledTensor(b, sizes, 0.0f);
  if (dlse)
    init = generic(b, 3, {{dlse, {B, H, I}}}, {init, {B, H, I}}, [](ImplicitLocOpBuilder &b, ValueRange args) -> Value {
      return arith::SubFOp::create(b, args[1], args[0]);
    });
  // The fourth loop is that of d.
  return generic(b, 4, {{o, {0, 1, 2, 3}}, {dout, {0, 1, 2, 3}}}, {init, {0, 1, 2}},
                 [](ImplicitLocOpBuilder &b, ValueRange args) -> Value {
                   Value left = widen(b, args[0]), right = widen(b, args[1]);
                   return arith::AddFOp::create(b, args[2], arith::MulFOp::create(b, left, right));
                 });
}

/// Whether `op` runs loops of these kinds, reads `numInputs` tensors at all of them and yields a result of `Op`.
template <typename Op> static bool computes(linalg::GenericOp op, unsigned numLoops, unsigned numInputs) {
  return op.getNumLoops() == numLoops && op.getNumDpsInputs() == int64_t(numInputs) && op.getNumDpsInits() == 1 &&
         llvm::all_of(op.getDpsInputOperands(),
                      [&](OpOperand *input) { return op.getMatchingIndexingMap(input).isIdentity(); }) &&
         op.getBody()->getTerminator()->getOperand(0).getDefiningOp<Op>();
}

std::optional<RowDots> mlir::flash::matchRowDots(Value delta) {
  auto sum = delta.getDefiningOp<linalg::GenericOp>();
  if (!sum || !computes<arith::AddFOp>(sum, 4, 2) || sum.getNumReductionLoops() != 1)
    return std::nullopt;
  RowDots result{sum.getInputs()[0], sum.getInputs()[1], Value()};
  Value init = sum.getOutputs()[0];
  if (auto less = init.getDefiningOp<linalg::GenericOp>()) {
    if (!computes<arith::SubFOp>(less, 3, 1))
      return std::nullopt;
    result.dlse = less.getInputs()[0];
    init = less.getOutputs()[0];
  }
  return init.getDefiningOp<linalg::FillOp>() ? std::optional(result) : std::nullopt;
}

bool mlir::flash::isRounding(linalg::GenericOp op) {
  return computes<arith::TruncFOp>(op, 4, 1) && op.getNumParallelLoops() == 4 &&
         op.getBody()->getOperations().size() == 2;
}

Value mlir::flash::emitRounded(OpBuilder &builder, Location loc, Value x, Type type) {
  if (getElementTypeOrSelf(x.getType()) == type)
    return x;
  ImplicitLocOpBuilder b(loc, builder);
  Value empty = tensor::EmptyOp::create(b, tensor::getMixedSizes(b, loc, x), type);
  return generic(b, 4, {{x, {0, 1, 2, 3}}}, {empty, {0, 1, 2, 3}},
                 [&](ImplicitLocOpBuilder &b, ValueRange args) { return narrow(b, args[0], type); });
}

namespace {
/// What the step of a backward pass computes, one value after the other. `at` is where its first element lies.
class BackwardAlgebra {
public:
  template <typename Op>
  BackwardAlgebra(ImplicitLocOpBuilder &b, Op op, Value theDelta, ArrayRef<Value> at)
      : b(b), op(op), v(op.getV()), dout(op.getDout()), delta(theDelta), qk(emitQK(b, op)) {
    Value scores = emitScores(b, op, qk, at);
    weights = generic(b, 4, {{op.getLse(), {B, H, I}}}, {scores, {B, H, I, J}},
                      [](ImplicitLocOpBuilder &b, ValueRange args) { return emitWeight(b, args[1], args[0]); });
    if (delta)
      emitScoreGradients(at);
  }

  /// dv + T(P)^T dO.
  Value emitDV(Value dv) { return multiplyAccumulate(b, {weights, {B, H, I, J}}, {dout, {B, H, I, D}}, {dv, {B, H, J, D}}, 1); }
  /// dk + scale * T(dX)^T Q.
  Value emitDK(Value dk) {
    return multiplyAccumulate(b, {dx, {B, H, I, J}}, {op.getQ(), {B, H, I, D}}, {dk, {B, H, J, D}}, 1, getScale());
  }
  /// dq + scale * T(dX) K.
  Value emitDQ(Value dq) {
    return multiplyAccumulate(b, {dx, {B, H, I, J}}, {op.getK(), {B, KeyHead, J, D}}, {dq, {B, H, I, D}},
                              op.getGroup(), getScale());
  }

private:
  float getScale() { return op.getScale().convertToFloat(); }

  /// dX = P * (dP - delta) * score'(X), with dP = dO V^T. Where P is 0 it is 0, whatever the score's derivative is there.
  void emitScoreGradients(ArrayRef<Value> at) {
    SmallVector<OpFoldResult> sizes = tensor::getMixedSizes(b, b.getLoc(), qk);
    Value dp = multiplyAccumulate(b, {dout, {B, H, I, D}}, {v, {B, KeyHead, J, D}},
                                  {filledTensor(b, sizes, 0.0f), {B, H, I, J}}, op.getGroup());
    SmallVector<Indexed> ins{{weights, {B, H, I, J}}, {delta, {B, H, I}}};
    if (op.hasScore())
      ins.push_back({qk, {B, H, I, J}});
    dx = generic(b, 4, ins, {dp, {B, H, I, J}}, [&](ImplicitLocOpBuilder &b, ValueRange args) -> Value {
      Value p = args[0], gradient = arith::SubFOp::create(b, args.back(), args[1]);
      if (op.hasScore()) {
        SmallVector<Value> arguments{emitScaled(b, op, args[2])};
        llvm::append_range(arguments, emitPosition(b, at));
        Value slope = inlineRegion(b, *op.getDerivativeRegion(), arguments);
        gradient = arith::MulFOp::create(b, gradient, slope);
      }
      Value zero = f32Constant(b, 0.0f);
      Value isNone = arith::CmpFOp::create(b, arith::CmpFPredicate::OEQ, p, zero);
      return arith::SelectOp::create(b, isNone, zero, arith::MulFOp::create(b, p, gradient));
    });
  }

  ImplicitLocOpBuilder &b;
  ScoresOpInterface op;
  Value v, dout, delta, qk, weights, dx;
};
} // namespace

//===--------------------------------------------------------------------------------------------------------------===//
// AggregatedOpInterface
//===--------------------------------------------------------------------------------------------------------------===//

/// The op's results may know more, or less, of their extents than its operands do.
static void castResults(ImplicitLocOpBuilder &b, MutableArrayRef<Value> results, Operation *op) {
  for (auto [result, type] : llvm::zip_equal(results, op->getResultTypes()))
    if (result.getType() != type)
      result = tensor::CastOp::create(b, type, result);
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
  Value acc = emitOutputProduct(b, probabilities, getV(), filledTensor(b, outputSizes, 0.0f), getGroup());
  Value o = tensor::EmptyOp::create(b, outputSizes, getOutputType(0).getElementType());
  Value lse = tensor::EmptyOp::create(b, rowSizes, b.getF32Type());
  SmallVector<Value> results = emitFinalize(b, acc, m, l, o, lse, Normalize::Deferred);
  castResults(b, results, *this);
  return results;
}

FailureOr<SmallVector<Value>> ColumnSumsOp::decomposeOperation(OpBuilder &builder) {
  if (!hasTensorSemantics())
    return failure();
  ImplicitLocOpBuilder b(getLoc(), builder);
  Value scores = emitScores(b, *this, emitQK(b, *this), SmallVector<Value>(4));
  SmallVector<OpFoldResult> sizes = tensor::getMixedSizes(b, getLoc(), scores);
  sizes.erase(sizes.begin() + I);
  Value c = emitColumnSums(b, scores, getLse(), filledTensor(b, sizes, 0.0f));
  if (getSumGroups())
    c = emitGroupSums(b, getLoc(), c, tensor::getMixedSize(b, getLoc(), getK(), 1), getGroup());
  SmallVector<Value> results{c};
  castResults(b, results, *this);
  return results;
}

FailureOr<SmallVector<Value>> AccumulateColumnSumsOp::decomposeOperation(OpBuilder &builder) {
  ImplicitLocOpBuilder b(getLoc(), builder);
  Value scores = emitScores(b, *this, emitQK(b, *this), llvm::to_vector_of<Value>(getPosition()));
  return SmallVector<Value>{emitColumnSums(b, scores, getLse(), getC())};
}

FailureOr<SmallVector<Value>> AttentionBackwardOp::decomposeOperation(OpBuilder &builder) {
  if (!hasTensorSemantics() || lacksDerivative())
    return failure();
  ImplicitLocOpBuilder b(getLoc(), builder);
  Value delta = emitRowDots(b, getLoc(), getO(), getDout(), getDlse());
  BackwardAlgebra algebra(b, *this, delta, SmallVector<Value>(4));
  SmallVector<OpFoldResult> dqSizes = tensor::getMixedSizes(b, getLoc(), getQ()), dkSizes = dqSizes;
  dkSizes[2] = tensor::getMixedSize(b, getLoc(), getK(), 2);
  SmallVector<OpFoldResult> dvSizes = dkSizes;
  dvSizes[3] = tensor::getMixedSize(b, getLoc(), getV(), 3);
  SmallVector<Value> results{algebra.emitDQ(filledTensor(b, dqSizes, 0.0f)),
                             algebra.emitDK(filledTensor(b, dkSizes, 0.0f)),
                             algebra.emitDV(filledTensor(b, dvSizes, 0.0f))};
  OpFoldResult keyHeads = tensor::getMixedSize(b, getLoc(), getK(), 1);
  for (Value &sum : MutableArrayRef(results).drop_front())
    sum = emitGroupSums(b, getLoc(), sum, keyHeads, getGroup());
  for (auto [index, result] : llvm::enumerate(results))
    result = emitRounded(b, getLoc(), result, getOutputType(index).getElementType());
  castResults(b, results, *this);
  return results;
}

FailureOr<SmallVector<Value>> AccumulateGradientsOp::decomposeOperation(OpBuilder &builder) {
  ImplicitLocOpBuilder b(getLoc(), builder);
  BackwardAlgebra algebra(b, *this, getGradients() == Gradients::DV ? Value() : getDelta(),
                          llvm::to_vector_of<Value>(getPosition()));
  SmallVector<Value> results;
  for (const StepOperand &carried : getStepState()) {
    Value sum = getOperand(carried.number);
    results.push_back(carried.name == "dq"   ? algebra.emitDQ(sum)
                      : carried.name == "dk" ? algebra.emitDK(sum)
                                             : algebra.emitDV(sum));
  }
  return results;
}

FailureOr<SmallVector<Value>> OnlineAttentionOp::decomposeOperation(OpBuilder &builder) {
  ImplicitLocOpBuilder b(getLoc(), builder);
  Value scores = emitScores(b, *this, emitQK(b, *this), llvm::to_vector_of<Value>(getPosition()));
  Value m = emitRowMax(b, {scores, {B, H, I, J}}, getM());
  Value probabilities = emitProbabilities(b, scores, m);

  auto [correction, corrected] = emitCorrection(b, getM(), m, getL());
  Value l = emitRowSum(b, {probabilities, {B, H, I, J}}, corrected);

  bool eachStep = getNormalize() == Normalize::EachStep;
  Value acc = emitRowwise(b, getAcc(), eachStep ? corrected : correction, multiplied);
  acc = emitOutputProduct(b, probabilities, getV(), acc, getGroup());
  if (eachStep)
    acc = emitRowwise(b, acc, l, divideByRowSum);
  return SmallVector<Value>{acc, m, l};
}

FailureOr<SmallVector<Value>> FinalizeOp::decomposeOperation(OpBuilder &builder) {
  ImplicitLocOpBuilder b(getLoc(), builder);
  return emitFinalize(b, getAcc(), getM(), getL(), getO(), getLse(), getNormalize());
}

//===--------------------------------------------------------------------------------------------------------------===//
// PartialReductionOpInterface (the rest is in TilingInterfaceImpl.cpp)
//===--------------------------------------------------------------------------------------------------------------===//

/// Folds the states of chunks of keys into the op's own, by the rule that folds a block of keys: every state is scaled
/// to the common maximum and added.
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
