//===- DecomposeGradients.cpp - gradients as linalg --------------------------------------------------------------===//
//
//   flash.attention_backward    S, P = exp(S - lse), dP = dO V^T, dX = P * (dP - delta) * score', dV, dK, dQ
//                               (Algorithm 0)
//   flash.accumulate_gradients  the same, added to the running sums. If sums are of pairs or diagonals, a loop runs
//                               over the queries, so that no temporary tensor is of size Nq x Nk
//
//===--------------------------------------------------------------------------------------------------------------===//

#include "Decompose.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Arith/Utils/Utils.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/Dialect/Utils/StructuredOpsUtils.h"

using namespace mlir;
using namespace mlir::flash;
using namespace mlir::flash::decompose;

Value mlir::flash::emitRowDots(OpBuilder &builder, Location loc, Value o, Value dout, Value dlse) {
  ImplicitLocOpBuilder b(loc, builder);
  SmallVector<OpFoldResult> sizes = tensor::getMixedSizes(b, loc, o);
  sizes.pop_back();
  Value init = filledTensor(b, sizes, 0.0f);
  if (dlse)
    init = generic(b, 3, {{dlse, {B, H, I}}}, {init, {B, H, I}}, [](ImplicitLocOpBuilder &b, ValueRange args) -> Value {
      return arith::SubFOp::create(b, args[1], args[0]);
    });
  // The fourth loop is over d.
  return generic(b, 4, {{o, {0, 1, 2, 3}}, {dout, {0, 1, 2, 3}}}, {init, {0, 1, 2}},
                 [](ImplicitLocOpBuilder &b, ValueRange args) -> Value {
                   Value left = widen(b, args[0]), right = widen(b, args[1]);
                   return arith::AddFOp::create(b, args[2], arith::MulFOp::create(b, left, right));
                 });
}

Value mlir::flash::emitSinkGradients(OpBuilder &builder, Location loc, Value sinks, Value lse, Value delta) {
  ImplicitLocOpBuilder b(loc, builder);
  Value zeros = filledTensor(b, tensor::getMixedSizes(b, loc, sinks), 0.0f);
  return generic(b, 3, {{sinks, {H}}, {lse, {B, H, I}}, {delta, {B, H, I}}}, {zeros, {H}},
                 [](ImplicitLocOpBuilder &b, ValueRange args) -> Value {
                   Value product = arith::MulFOp::create(b, emitWeight(b, args[0], args[1]), args[2]);
                   return arith::SubFOp::create(b, args[3], product);
                 });
}

std::optional<SinkGradients> mlir::flash::matchSinkGradients(Value value) {
  auto sum = value.getDefiningOp<linalg::GenericOp>();
  if (!sum || sum.getNumLoops() != 3 || sum.getNumReductionLoops() != 2 || sum.getNumDpsInputs() != 3 ||
      !sum.getBody()->getTerminator()->getOperand(0).getDefiningOp<arith::SubFOp>() ||
      !matchRowDots(sum.getInputs()[2]))
    return std::nullopt;
  return SinkGradients{sum.getInputs()[0], sum.getInputs()[1], sum.getInputs()[2]};
}

/// Whether `op` has `numLoops` loops, reads `numInputs` tensors that all of the loops index, and yields the result of
/// an op of type `Op`.
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
/// The values that a step of a backward pass computes. `at` is the position (b, h, i, j) of the step's first element.
/// In the formulas below, T(x) is x rounded to the element type of the inputs. D is the factor of dropout for a pair: 0
/// if the pair is dropped, and otherwise 1 / (1 - rate).
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
    this->at.assign(at.begin(), at.end());
  }

  /// Emits dv + T(D * P)^T dO.
  Value emitDV(Value dv) {
    Value dropped = emitDropped(b, op, weights, at);
    return addWeighted(b, {dropped, {B, H, I, J}}, {dout, {B, H, I, D}}, {dv, {B, H, J, D}}, 1);
  }
  /// Emits dk + scale * T(dX)^T Q.
  Value emitDK(Value dk) {
    return addWeighted(b, {dx, {B, H, I, J}}, {op.getQ(), {B, H, I, D}}, {dk, {B, H, J, D}}, 1, getScale());
  }
  /// Emits dq + scale * T(dX) K.
  Value emitDQ(Value dq) {
    return addWeighted(b, {dx, {B, H, I, J}}, {op.getK(), {B, KeyHead, J, D}}, {dq, {B, H, I, D}}, op.getGroup(),
                       getScale());
  }
  /// Emits the sum of `sums` and dX. dX is added up over the loops that are not in `loops`; the loops in `loops` index
  /// `sums`.
  Value emitSums(Value sums, ArrayRef<unsigned> loops) {
    return generic(b, 4, {{dx, {B, H, I, J}}}, {sums, SmallVector<unsigned>(loops)}, added);
  }

private:
  float getScale() { return op.getScale().convertToFloat(); }

  /// Emits dX = P * (dP - delta) * score'(X), with dP = D * (dO V^T). dX is 0 where P is 0, even if the score's
  /// derivative is NaN there.
  void emitScoreGradients(ArrayRef<Value> at) {
    SmallVector<OpFoldResult> sizes = tensor::getMixedSizes(b, b.getLoc(), qk);
    Value dp = multiplyAccumulate(b, {dout, {B, H, I, D}}, {v, {B, KeyHead, J, D}},
                                  {filledTensor(b, sizes, 0.0f), {B, H, I, J}}, op.getGroup());
    dp = emitDropped(b, op, dp, at);
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
  SmallVector<Value> at;
};
} // namespace

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
  if (getSinks())
    results.push_back(emitSinkGradients(b, getLoc(), getSinks(), getLse(), delta));
  castResults(b, results, *this);
  return results;
}

namespace {
/// Emits a step whose state has an element for each pair or for each diagonal. Computes one query after the other.
class PairLoops {
public:
  PairLoops(ImplicitLocOpBuilder &b, AccumulateGradientsOp op) : b(b), op(op) {}

  Value emit() {
    Value q = op.getQ(), state = op.getState().front();
    SmallVector<Value> zeros(3, index(0)), ones(3, index(1)), extents;
    for (int64_t dim : {0, 1, 2})
      extents.push_back(getValueOrCreateConstantIndexOp(b, b.getLoc(), tensor::getMixedSize(b, b.getLoc(), q, dim)));
    auto nest = scf::buildLoopNest(b, b.getLoc(), zeros, extents, ones, state,
                                   [&](OpBuilder &inner, Location loc, ValueRange at, ValueRange states) {
                                     ImplicitLocOpBuilder nested(loc, inner);
                                     return scf::ValueVector{emitQuery(nested, at, states.front())};
                                   });
    return nest.results.front();
  }

private:
  Value index(int64_t value) { return arith::ConstantIndexOp::create(b, value); }

  /// Returns the offsets of the slice of `state` to which the query at `at` adds.
  SmallVector<OpFoldResult> getPlace(ImplicitLocOpBuilder &b, ValueRange at, Value state) {
    SmallVector<OpFoldResult> place{at[0], at[1]};
    for (int64_t dim : {0, 1})
      if (cast<RankedTensorType>(state.getType()).getDimSize(dim) == 1)
        place[dim] = b.getIndexAttr(0);
    if (op.has(Gradients::Diagonals)) {
      Value queries = getValueOrCreateConstantIndexOp(b, b.getLoc(), tensor::getMixedSize(b, b.getLoc(), op.getQ(), 2));
      Value last = arith::SubIOp::create(b, queries, arith::ConstantIndexOp::create(b, 1));
      place.push_back(b.createOrFold<arith::SubIOp>(last, at[2]));
    } else {
      place.append({at[2], b.getIndexAttr(0)});
    }
    return place;
  }

  Value emitQuery(ImplicitLocOpBuilder &b, ValueRange at, Value state) {
    Location loc = b.getLoc();
    OpFoldResult one = b.getIndexAttr(1), zero = b.getIndexAttr(0);
    OpFoldResult keys = tensor::getMixedSize(b, loc, op.getK(), 2);
    Value group = arith::ConstantIndexOp::create(b, op.getGroup());
    Value keyHead = b.createOrFold<arith::DivUIOp>(at[1], group);
    SmallVector<Value> operands(op->getOperands());
    for (const StepOperand &input : op.getStepInputs()) {
      Value &operand = operands[input.number];
      SmallVector<OpFoldResult> offsets, sizes, strides(input.dims.size(), one);
      for (auto [number, dim] : llvm::enumerate(input.dims)) {
        bool isOne = dim == StepDim::B || dim == StepDim::H || dim == StepDim::I || dim == StepDim::KeyHead;
        offsets.push_back(dim == StepDim::KeyHead ? OpFoldResult(keyHead)
                          : isOne                 ? OpFoldResult(at[unsigned(dim)])
                                                  : zero);
        sizes.push_back(isOne ? one : tensor::getMixedSize(b, loc, operand, number));
      }
      operand = tensor::ExtractSliceOp::create(b, operand, offsets, sizes, strides);
    }
    SmallVector<OpFoldResult> place = getPlace(b, at, state), sizes(place.size(), one), strides = sizes;
    sizes.back() = keys;
    Value part = tensor::ExtractSliceOp::create(b, state, place, sizes, strides);
    unsigned number = op.getStepState().front().number;
    operands[number] = part;
    SmallVector<Value> position(at);
    position.push_back(arith::ConstantIndexOp::create(b, 0));
    for (auto [dim, offset] : llvm::enumerate(op.getPosition()))
      position[dim] = b.createOrFold<arith::AddIOp>(offset, position[dim]);
    auto ofQuery = cast<AccumulateGradientsOp>(clone(b, op, part.getType(), operands));
    ofQuery->removeAttr("group_size");
    SmallVector<unsigned> loops{B, H, I, J};
    if (op.has(Gradients::Diagonals))
      loops.erase(loops.begin() + I);
    Value sum = BackwardAlgebra(b, ofQuery, ofQuery.getDelta(), position).emitSums(part, loops);
    ofQuery.erase();
    return tensor::InsertSliceOp::create(b, sum, state, place, sizes, strides);
  }

  ImplicitLocOpBuilder &b;
  AccumulateGradientsOp op;
};
} // namespace

FailureOr<SmallVector<Value>> AccumulateGradientsOp::decomposeOperation(OpBuilder &builder) {
  ImplicitLocOpBuilder b(getLoc(), builder);
  if (isOfPairs())
    return SmallVector<Value>{PairLoops(b, *this).emit()};
  BackwardAlgebra algebra(b, *this, getGradients() == Gradients::DV ? Value() : getDelta(),
                          llvm::to_vector_of<Value>(getPosition()));
  SmallVector<Value> results;
  for (const StepOperand &carried : getStepState()) {
    Value sum = getOperand(carried.number);
    results.push_back(carried.name == "dq"     ? algebra.emitDQ(sum)
                      : carried.name == "dk"   ? algebra.emitDK(sum)
                      : carried.name == "dv"   ? algebra.emitDV(sum)
                      : carried.name == "rows" ? algebra.emitSums(sum, {B, H, I})
                                               : algebra.emitSums(sum, {B, H, J}));
  }
  return results;
}
