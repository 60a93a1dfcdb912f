//===- OnlineSoftmax.cpp - softmax over whole rows becomes a fold -------------------------------------------------===//

#include "flashc/Dialect/Flash/IR/GroupSums.h"
#include "flashc/Dialect/Flash/Transforms/Passes.h"
#include "flashc/Dialect/Flash/Transforms/Transforms.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "llvm/ADT/TypeSwitch.h"
#include <limits>

namespace mlir::flash {
#define GEN_PASS_DEF_ONLINESOFTMAX
#include "flashc/Dialect/Flash/Transforms/Passes.h.inc"
} // namespace mlir::flash

using namespace mlir;
using namespace mlir::flash;

/// Creates an empty tensor of `type`. Its dynamic extents are those of q in the same dimensions.
static Value createEmpty(OpBuilder &b, AttentionOp op, RankedTensorType type) {
  SmallVector<OpFoldResult> sizes;
  for (auto [dim, extent] : llvm::enumerate(type.getShape()))
    sizes.push_back(ShapedType::isDynamic(extent) ? tensor::getMixedSize(b, op.getLoc(), op.getQ(), dim)
                                                  : OpFoldResult(b.getIndexAttr(extent)));
  return tensor::EmptyOp::create(b, op.getLoc(), sizes, type.getElementType());
}

static Value createFilled(OpBuilder &b, AttentionOp op, RankedTensorType type, float value) {
  Value scalar = arith::ConstantOp::create(b, op.getLoc(), b.getF32FloatAttr(value));
  return linalg::FillOp::create(b, op.getLoc(), scalar, createEmpty(b, op, type)).getResult(0);
}

Value mlir::flash::createZeros(OpBuilder &b, Location loc, ArrayRef<OpFoldResult> sizes) {
  Value empty = tensor::EmptyOp::create(b, loc, sizes, b.getF32Type());
  Value zero = arith::ConstantOp::create(b, loc, b.getF32FloatAttr(0.0f));
  return linalg::FillOp::create(b, loc, zero, empty).getResult(0);
}

static LogicalResult verifyOnTensors(ScoresOpInterface op) {
  if (isa<RankedTensorType>(op.getQ().getType()))
    return success();
  return op->emitOpError() << "expected an op on tensors, got " << op.getQ().getType()
                           << " (run flash-to-tensors first)";
}

/// Moves the regions of `op`, which is going to be replaced, to `step`.
static void moveRegions(RewriterBase &rewriter, ScoresOpInterface op, ScoresOpInterface step) {
  rewriter.inlineRegionBefore(op.getScore(), step.getScore(), step.getScore().end());
  rewriter.inlineRegionBefore(op.getMask(), step.getMask(), step.getMask().end());
  if (Region *derivative = op.getDerivativeRegion())
    rewriter.inlineRegionBefore(*derivative, *step.getDerivativeRegion(), step.getDerivativeRegion()->end());
}

/// Replaces `op` by `values`, cast to the op's result types.
static void replaceWithCasts(RewriterBase &rewriter, Operation *op, ValueRange values) {
  SmallVector<Value> results;
  for (auto [result, type] : llvm::zip_equal(values, op->getResultTypes()))
    results.push_back(result.getType() == type ? result
                                               : Value(tensor::CastOp::create(rewriter, op->getLoc(), type, result)));
  rewriter.replaceOp(op, results);
}

FailureOr<OnlineAttentionOp> mlir::flash::convertToOnlineSoftmax(RewriterBase &rewriter, AttentionOp op,
                                                                 Normalize normalize) {
  if (failed(verifyOnTensors(op)))
    return failure();
  OpBuilder::InsertionGuard guard(rewriter);
  rewriter.setInsertionPoint(op);
  Location loc = op.getLoc();
  auto oType = cast<RankedTensorType>(op.getResult(0).getType());
  auto rowType = cast<RankedTensorType>(op.getResult(1).getType());
  // An extent may be static in one of the types (of q, of the results) and dynamic in others. In the state it is static
  // if it is static in any of these types.
  SmallVector<int64_t> shape(oType.getShape());
  for (ArrayRef<int64_t> known : {op.getQType().getShape().drop_back(), rowType.getShape()})
    for (auto [extent, other] : llvm::zip_first(known, shape))
      other = ShapedType::isDynamic(other) ? extent : other;
  auto accType = RankedTensorType::get(shape, rewriter.getF32Type());
  auto stateType = RankedTensorType::get(ArrayRef(shape).drop_back(), rewriter.getF32Type());
  Value acc = createFilled(rewriter, op, accType, 0.0f);
  Value m = createFilled(rewriter, op, stateType, -std::numeric_limits<float>::infinity());
  Value l = createFilled(rewriter, op, stateType, 0.0f);
  Value zero = arith::ConstantIndexOp::create(rewriter, loc, 0);
  auto online = OnlineAttentionOp::create(rewriter, loc, TypeRange{accType, stateType, stateType}, op.getQ(), op.getK(),
                                          op.getV(), acc, m, l, op.getPhilox(), zero, zero, zero, zero,
                                          op.getScaleAttr(), NormalizeAttr::get(op.getContext(), normalize),
                                          op.getGroupSizeAttr(), op.getDropoutPAttr());
  moveRegions(rewriter, op, online);

  Value o = createEmpty(rewriter, op, RankedTensorType::get(shape, oType.getElementType()));
  Value lse = createEmpty(rewriter, op, stateType), sinks = op.getSinks();
  if (auto type = RankedTensorType::get({shape[1]}, rewriter.getF32Type()); sinks && sinks.getType() != type)
    sinks = tensor::CastOp::create(rewriter, loc, type, sinks);
  auto finalize =
      FinalizeOp::create(rewriter, loc, TypeRange{o.getType(), lse.getType()}, online.getResult(0), online.getResult(1),
                         online.getResult(2), o, lse, sinks, online.getNormalizeAttr());
  replaceWithCasts(rewriter, op, finalize.getResults());
  return online;
}

FailureOr<AccumulateColumnSumsOp> mlir::flash::convertToColumnSumsStep(RewriterBase &rewriter, ColumnSumsOp op) {
  if (failed(verifyOnTensors(op)))
    return failure();
  OpBuilder::InsertionGuard guard(rewriter);
  rewriter.setInsertionPoint(op);
  Location loc = op.getLoc();
  SmallVector<OpFoldResult> sizes{tensor::getMixedSize(rewriter, loc, op.getQ(), 0),
                                  tensor::getMixedSize(rewriter, loc, op.getQ(), 1),
                                  tensor::getMixedSize(rewriter, loc, op.getK(), 2)};
  Value sums = createZeros(rewriter, loc, sizes);
  Value zero = arith::ConstantIndexOp::create(rewriter, loc, 0);
  auto step = AccumulateColumnSumsOp::create(rewriter, loc, sums.getType(), op.getQ(), op.getK(), op.getLse(), sums,
                                             zero, zero, zero, zero, op.getScaleAttr(), op.getGroupSizeAttr());
  moveRegions(rewriter, op, step);
  Value result = step.getResult();
  if (op.getSumGroups())
    result = emitGroupSums(rewriter, loc, result, tensor::getMixedSize(rewriter, loc, op.getK(), 1), op.getGroup());
  replaceWithCasts(rewriter, op, result);
  return step;
}

FailureOr<AccumulateGradientsOp> mlir::flash::convertToGradientStep(RewriterBase &rewriter, AttentionBackwardOp op) {
  if (failed(verifyOnTensors(op)))
    return failure();
  if (op.lacksDerivative())
    return op.emitOpError() << "expected the score's derivative (flash-differentiate-scores comes first)";
  OpBuilder::InsertionGuard guard(rewriter);
  rewriter.setInsertionPoint(op);
  Location loc = op.getLoc();
  Value delta = emitRowDots(rewriter, loc, op.getO(), op.getDout(), op.getDlse());
  SmallVector<OpFoldResult> dqSizes = tensor::getMixedSizes(rewriter, loc, op.getQ()), dkSizes = dqSizes;
  dkSizes[2] = tensor::getMixedSize(rewriter, loc, op.getK(), 2);
  SmallVector<OpFoldResult> dvSizes = dkSizes;
  dvSizes[3] = tensor::getMixedSize(rewriter, loc, op.getV(), 3);
  SmallVector<Value> state{createZeros(rewriter, loc, dqSizes), createZeros(rewriter, loc, dkSizes),
                           createZeros(rewriter, loc, dvSizes)};
  Value zero = arith::ConstantIndexOp::create(rewriter, loc, 0);
  auto step =
      AccumulateGradientsOp::create(rewriter, loc, ValueRange(state).getTypes(), op.getQ(), op.getK(), op.getV(),
                                    op.getDout(), op.getLse(), delta, state, op.getPhilox(), zero, zero, zero, zero,
                                    op.getScaleAttr(), GradientsAttr::get(op.getContext(), kAllGradients),
                                    op.getGroupSizeAttr(), op.getDropoutPAttr(), /*number=*/IntegerAttr());
  moveRegions(rewriter, op, step);
  SmallVector<Value> results(step.getResults());
  OpFoldResult keyHeads = tensor::getMixedSize(rewriter, loc, op.getK(), 1);
  for (Value &sum : MutableArrayRef(results).drop_front()) {
    sum = emitGroupSums(rewriter, loc, sum, keyHeads, op.getGroup());
    if (op.getGroup() > 1 && !op.getDeterministic())
      sum.getDefiningOp()->setAttr(kAnyOrderAttr, rewriter.getUnitAttr());
  }
  for (auto [index, result] : llvm::enumerate(results))
    result = emitRounded(rewriter, loc, result, op.getOutputType(index).getElementType());
  if (op.getSinks())
    results.push_back(emitSinkGradients(rewriter, loc, op.getSinks(), op.getLse(), delta));
  replaceWithCasts(rewriter, op, results);
  return step;
}

namespace {
struct OnlineSoftmax : flash::impl::OnlineSoftmaxBase<OnlineSoftmax> {
  using OnlineSoftmaxBase::OnlineSoftmaxBase;

  void runOnOperation() override {
    IRRewriter rewriter(&getContext());
    bool isConverted = true; // go on after a failure: each op that cannot be converted gets its diagnostic
    getOperation()->walk([&](WholeOpInterface op) {
      isConverted &=
          TypeSwitch<Operation *, bool>(op)
              .Case([&](AttentionOp op) { return succeeded(convertToOnlineSoftmax(rewriter, op, normalize)); })
              .Case([&](ColumnSumsOp op) { return succeeded(convertToColumnSumsStep(rewriter, op)); })
              .Case([&](AttentionBackwardOp op) { return succeeded(convertToGradientStep(rewriter, op)); })
              .Case([](CapturedGradientOp op) {
                op.emitOpError() << "expected no gradients of captured tensors "
                                    "(flash-differentiate-captures comes first)";
                return false;
              });
    });
    if (!isConverted)
      signalPassFailure();
  }
};
} // namespace
