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

FailureOr<OnlineAttentionOp> mlir::flash::convertToOnlineSoftmax(RewriterBase &rewriter, AttentionOp op,
                                                                 Normalize normalize) {
  if (!op.hasTensorSemantics())
    return op.emitOpError() << "expected attention on tensors, got " << op.getQ().getType()
                            << " (run flash-to-tensors first)";
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
  auto online = OnlineAttentionOp::create(rewriter, loc, TypeRange{accType, stateType, stateType}, op.getQ(),
                                          op.getK(), op.getV(), acc, m, l, zero, zero, zero, zero, op.getScaleAttr(),
                                          NormalizeAttr::get(op.getContext(), normalize), op.getGroupSizeAttr());
  rewriter.inlineRegionBefore(op.getScore(), online.getScore(), online.getScore().end());
  rewriter.inlineRegionBefore(op.getMask(), online.getMask(), online.getMask().end());

  Value o = createEmpty(rewriter, op, RankedTensorType::get(shape, oType.getElementType()));
  Value lse = createEmpty(rewriter, op, stateType);
  auto finalize = FinalizeOp::create(rewriter, loc, TypeRange{o.getType(), lse.getType()}, online.getResult(0),
                                     online.getResult(1), online.getResult(2), o, lse, online.getNormalizeAttr());
  SmallVector<Value> results;
  for (auto [result, type] : llvm::zip_equal(finalize.getResults(), op.getResultTypes()))
    results.push_back(result.getType() == type ? result : Value(tensor::CastOp::create(rewriter, loc, type, result)));
  rewriter.replaceOp(op, results);
  return online;
}

namespace {
struct OnlineSoftmax : flash::impl::OnlineSoftmaxBase<OnlineSoftmax> {
  using OnlineSoftmaxBase::OnlineSoftmaxBase;

  void runOnOperation() override {
    IRRewriter rewriter(&getContext());
    WalkResult walk = getOperation()->walk([&](AttentionOp op) {
      return WalkResult(convertToOnlineSoftmax(rewriter, op, normalize));
    });
    if (walk.wasInterrupted())
      signalPassFailure();
  }
};
} // namespace
