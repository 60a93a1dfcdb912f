//===- Tile.cpp - FlashAttention, Algorithm 1 ---------------------------------------------------------------------===//

#include "flashc/Dialect/Flash/Transforms/Passes.h"
#include "flashc/Dialect/Flash/Transforms/Transforms.h"
#include "mlir/Dialect/Affine/ViewLikeInterfaceUtils.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"

namespace mlir::flash {
#define GEN_PASS_DEF_TILE
#include "flashc/Dialect/Flash/Transforms/Passes.h.inc"
} // namespace mlir::flash

using namespace mlir;
using namespace mlir::flash;

bool mlir::flash::isTile(StepOpInterface op, TileSizes sizes) {
  return op->getParentOfType<LoopLikeOpInterface>() && op.getTileExtent(StepDim::B) == 1 &&
         op.getTileExtent(StepDim::H) == sizes.heads && op.getTileExtent(StepDim::I) == sizes.q &&
         op.getTileExtent(StepDim::J) == sizes.kv;
}

/// Replaces `op` by a tile in loops over (b, h, i, j). `sizes` are the sizes of the tile in these dimensions; a size of
/// 0 leaves the dimension whole. The loop over keys is outside of the loop over queries. Returns the tile.
static FailureOr<StepOpInterface> tileBy(RewriterBase &rewriter, StepOpInterface op, ArrayRef<int64_t> sizes) {
  rewriter.setInsertionPoint(op);
  scf::SCFTilingOptions options;
  options.setTileSizes(getAsIndexOpFoldResult(op.getContext(), sizes));
  options.setInterchange({0, 1, 3, 2});
  FailureOr<scf::SCFTilingResult> tiled =
      scf::tileUsingSCF(rewriter, cast<TilingInterface>(op.getOperation()), options);
  if (failed(tiled))
    return op->emitOpError() << "expected an op that can be tiled";
  rewriter.replaceOp(op, tiled->replacements);
  return cast<StepOpInterface>(tiled->tiledOps.front());
}

/// Merges the slices of slices that `op` reads into one slice each.
static void mergeInputSlices(RewriterBase &rewriter, StepOpInterface op) {
  for (const StepOperand &input : op.getStepInputs()) {
    Value tile = op->getOperand(input.number);
    if (auto pad = tile.getDefiningOp<tensor::PadOp>())
      tile = pad.getSource();
    auto inner = tile.getDefiningOp<tensor::ExtractSliceOp>();
    auto outer = inner ? inner.getSource().getDefiningOp<tensor::ExtractSliceOp>() : tensor::ExtractSliceOp();
    if (!outer)
      continue;
    rewriter.setInsertionPoint(inner);
    SmallVector<OpFoldResult> offsets, sizes, strides;
    if (succeeded(affine::mergeOffsetsSizesAndStrides(rewriter, inner.getLoc(), outer, inner, outer.getDroppedDims(),
                                                      offsets, sizes, strides)))
      rewriter.replaceOpWithNewOp<tensor::ExtractSliceOp>(inner, inner.getType(), outer.getSource(), offsets, sizes,
                                                          strides);
  }
}

FailureOr<StepOpInterface> mlir::flash::tileStep(RewriterBase &rewriter, StepOpInterface op, TileSizes sizes) {
  for (int64_t size : {sizes.q, sizes.kv, sizes.heads})
    if (size < 1)
      return op->emitOpError() << "expected a positive tile size, got " << size;
  if (sizes.heads > 1)
    if (auto attention = dyn_cast<OnlineAttentionOp>(op.getOperation());
        !attention || attention.getGroup() % sizes.heads != 0)
      return op->emitOpError() << "expected an attention whose group is a multiple of head-tile=" << sizes.heads;
  OpBuilder::InsertionGuard guard(rewriter);
  if (!op.addsToStreamed())
    return tileBy(rewriter, op, {1, sizes.heads, sizes.q, sizes.kv});
  // Tiles the keys first and then, inside, the queries: the state of a key tile stays while all queries are streamed
  // past it.
  FailureOr<StepOpInterface> resident = tileBy(rewriter, op, {1, 1, 0, sizes.kv});
  FailureOr<StepOpInterface> tile = failed(resident) ? resident : tileBy(rewriter, *resident, {0, 0, sizes.q, 0});
  if (succeeded(tile))
    mergeInputSlices(rewriter, *tile);
  return tile;
}

namespace {
struct Tile : flash::impl::TileBase<Tile> {
  using TileBase::TileBase;

  /// Returns the tile sizes of the options q-tile and kv-tile. Where an option is 0, returns the size for the resident
  /// or for the streamed dimension of `op` instead.
  TileSizes getSizes(StepOpInterface op) {
    auto gradients = dyn_cast<AccumulateGradientsOp>(op.getOperation());
    bool isOfKeys = gradients && gradients.getGradients() == (Gradients::DK | Gradients::DV);
    int64_t resident = isOfKeys && gradientTile ? int64_t(gradientTile) : int64_t(residentTile);
    auto getSize = [&](int64_t asked, StepDim dim) {
      return asked ? asked : op.getStreamedDim() == dim ? int64_t(streamedTile) : resident;
    };
    return {getSize(qTile, StepDim::I), getSize(kvTile, StepDim::J), headTile};
  }

  void runOnOperation() override {
    SmallVector<StepOpInterface> ops;
    getOperation()->walk([&](StepOpInterface op) {
      if (op.isTiled() && !isTile(op, getSizes(op)))
        ops.push_back(op);
    });
    IRRewriter rewriter(&getContext());
    for (StepOpInterface op : ops) {
      if (failed(tileStep(rewriter, op, getSizes(op))))
        return signalPassFailure();
      ++numTiled;
    }
  }
};
} // namespace
