//===- Tile.cpp - FlashAttention, Algorithm 1 ---------------------------------------------------------------------===//

#include "flashc/Dialect/Flash/Transforms/Passes.h"
#include "flashc/Dialect/Flash/Transforms/Transforms.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

namespace mlir::flash {
#define GEN_PASS_DEF_TILE
#include "flashc/Dialect/Flash/Transforms/Passes.h.inc"
} // namespace mlir::flash

using namespace mlir;
using namespace mlir::flash;

bool mlir::flash::isTile(StepOpInterface op, TileSizes sizes) {
  return op->getParentOfType<LoopLikeOpInterface>() && op.getTileExtent(StepDim::B) == 1 &&
         op.getTileExtent(StepDim::H) == 1 && op.getTileExtent(StepDim::I) == sizes.q &&
         op.getTileExtent(StepDim::J) == sizes.kv;
}

FailureOr<scf::SCFTilingResult> mlir::flash::tileStep(RewriterBase &rewriter, StepOpInterface op, TileSizes sizes) {
  for (int64_t size : {sizes.q, sizes.kv})
    if (size < 1)
      return op->emitOpError() << "expected a positive tile size, got " << size;
  OpBuilder::InsertionGuard guard(rewriter);
  rewriter.setInsertionPoint(op);
  scf::SCFTilingOptions options;
  options.setTileSizes(getAsIndexOpFoldResult(op.getContext(), {1, 1, sizes.q, sizes.kv}));
  options.setInterchange({0, 1, 3, 2}); // Keys outside queries.
  FailureOr<scf::SCFTilingResult> tiled =
      scf::tileUsingSCF(rewriter, cast<TilingInterface>(op.getOperation()), options);
  if (failed(tiled))
    return op->emitOpError() << "expected an op that can be tiled";
  rewriter.replaceOp(op, tiled->replacements);
  return tiled;
}

namespace {
struct Tile : flash::impl::TileBase<Tile> {
  using TileBase::TileBase;

  void runOnOperation() override {
    TileSizes sizes{qTile, kvTile};
    SmallVector<StepOpInterface> ops;
    getOperation()->walk([&](StepOpInterface op) {
      if (!isTile(op, sizes))
        ops.push_back(op);
    });
    IRRewriter rewriter(&getContext());
    for (StepOpInterface op : ops) {
      if (failed(tileStep(rewriter, op, sizes)))
        return signalPassFailure();
      ++numTiled;
    }
  }
};
} // namespace
