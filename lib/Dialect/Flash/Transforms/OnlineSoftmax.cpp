//===- OnlineSoftmax.cpp - softmax over whole rows becomes a fold -------------------------------------------------===//

#include "flashc/Dialect/Flash/Transforms/Passes.h"
#include "flashc/Dialect/Flash/Transforms/Transforms.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include <limits>

namespace mlir::flash {
#define GEN_PASS_DEF_ONLINESOFTMAX
#include "flashc/Dialect/Flash/Transforms/Passes.h.inc"
} // namespace mlir::flash

using namespace mlir;
using namespace mlir::flash;

/// A tensor of `type`, whose dynamic extents are dynamic in q too.
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

static LogicalResult verifyOnTensors(ScoresOpInterface op) {
  if (isa<RankedTensorType>(op.getQ().getType()))
    return success();
  return op->emitOpError() << "expected an op on tensors, got " << op.getQ().getType() << " (run flash-to-tensors first)";
}

/// The regions of `op`, which is going to be replaced, become those of `step`.
static void moveRegions(RewriterBase &rewriter, ScoresOpInterface op, ScoresOpInterface step) {
  rewriter.inlineRegionBefore(op.getScore(), step.getScore(), step.getScore().end());
  rewriter.inlineRegionBefore(op.getMask(), step.getMask(), step.getMask().end());
}

/// Replaces `op` by values whose types may know other extents.
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
  // q and the two results may know different extents; the state has all that any of them knows.
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
                                          op.getV(), acc, m, l, zero, zero, zero, zero, op.getScaleAttr(),
                                          NormalizeAttr::get(op.getContext(), normalize), op.getGroupSizeAttr());
  moveRegions(rewriter, op, online);

  Value o = createEmpty(rewriter, op, RankedTensorType::get(shape, oType.getElementType()));
  Value lse = createEmpty(rewriter, op, stateType);
  auto finalize = FinalizeOp::create(rewriter, loc, TypeRange{o.getType(), lse.getType()}, online.getResult(0),
                                     online.getResult(1), online.getResult(2), o, lse, online.getNormalizeAttr());
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
  Value empty = tensor::EmptyOp::create(rewriter, loc, sizes, rewriter.getF32Type());
  Value scalar = arith::ConstantOp::create(rewriter, loc, rewriter.getF32FloatAttr(0.0f));
  Value sums = linalg::FillOp::create(rewriter, loc, scalar, empty).getResult(0);
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

namespace {
struct OnlineSoftmax : flash::impl::OnlineSoftmaxBase<OnlineSoftmax> {
  using OnlineSoftmaxBase::OnlineSoftmaxBase;

  void runOnOperation() override {
    IRRewriter rewriter(&getContext());
    WalkResult walk = getOperation()->walk(
        [&](AttentionOp op) { return WalkResult(convertToOnlineSoftmax(rewriter, op, normalize)); });
    WalkResult walkSums =
        getOperation()->walk([&](ColumnSumsOp op) { return WalkResult(convertToColumnSumsStep(rewriter, op)); });
    if (walk.wasInterrupted() || walkSums.wasInterrupted())
      signalPassFailure();
  }
};
} // namespace
