//===- RecomputeDelta.cpp - row sums of a backward pass in each step: FlashAttention, Algorithm 4 -----------------===//

#include "flashc/Dialect/Flash/Transforms/Passes.h"
#include "flashc/Dialect/Flash/Transforms/Transforms.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/Dialect/Tensor/Transforms/Transforms.h"

namespace mlir::flash {
#define GEN_PASS_DEF_RECOMPUTEDELTA
#include "flashc/Dialect/Flash/Transforms/Passes.h.inc"
} // namespace mlir::flash

using namespace mlir;
using namespace mlir::flash;

/// Returns the slice of delta that `op` reads. Null unless the slice is in a loop and a linalg.generic computes delta.
static tensor::ExtractSliceOp findSlice(AccumulateGradientsOp op) {
  Value delta = op.getDelta();
  if (auto pad = delta.getDefiningOp<tensor::PadOp>())
    delta = pad.getSource();
  auto slice = delta.getDefiningOp<tensor::ExtractSliceOp>();
  bool isComputed = slice && slice.getSource().getDefiningOp<linalg::GenericOp>();
  return isComputed && slice->getParentOfType<LoopLikeOpInterface>() ? slice : tensor::ExtractSliceOp();
}

bool mlir::flash::recomputeDelta(RewriterBase &rewriter, AccumulateGradientsOp op) {
  tensor::ExtractSliceOp slice = findSlice(op);
  if (!slice)
    return false;
  OpBuilder::InsertionGuard guard(rewriter);
  rewriter.setInsertionPoint(slice);
  FailureOr<TilingResult> tile =
      tensor::replaceExtractSliceWithTiledProducer(rewriter, slice, cast<OpResult>(slice.getSource()));
  if (failed(tile))
    return false;
  rewriter.replaceOp(slice, tile->tiledValues.front());
  return true;
}

namespace {
struct RecomputeDelta : flash::impl::RecomputeDeltaBase<RecomputeDelta> {
  void runOnOperation() override {
    IRRewriter rewriter(&getContext());
    getOperation()->walk([&](AccumulateGradientsOp op) { numRecomputed += recomputeDelta(rewriter, op); });
  }
};
} // namespace
