//===- SplitKV.cpp - Flash-Decoding -------------------------------------------------------------------------------===//

#include "flashc/Dialect/Flash/Transforms/Passes.h"
#include "flashc/Dialect/Flash/Transforms/Transforms.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

namespace mlir::flash {
#define GEN_PASS_DEF_SPLITKV
#include "flashc/Dialect/Flash/Transforms/Passes.h.inc"
} // namespace mlir::flash

using namespace mlir;
using namespace mlir::flash;

FailureOr<scf::SCFTilingResult> mlir::flash::splitKeys(RewriterBase &rewriter, OnlineAttentionOp op, int64_t kvChunk) {
  if (kvChunk < 1)
    return op.emitOpError() << "expected a positive chunk of keys, got " << kvChunk;
  OpBuilder::InsertionGuard guard(rewriter);
  rewriter.setInsertionPoint(op);
  scf::SCFTilingOptions options;
  options.setLoopType(scf::SCFTilingOptions::LoopType::ForallOp);
  options.setTileSizes(getAsIndexOpFoldResult(op.getContext(), {0, 0, 0, kvChunk}));
  options.setReductionTilingStrategy(ReductionTilingStrategy::PartialReductionOuterParallel);
  options.setReductionDims({3});
  FailureOr<scf::SCFTilingResult> tiled =
      scf::tileUsingSCF(rewriter, cast<TilingInterface>(op.getOperation()), options);
  if (failed(tiled))
    return op.emitOpError() << "expected an op whose keys can be split";
  rewriter.replaceOp(op, tiled->replacements);
  return tiled;
}

namespace {
struct SplitKV : flash::impl::SplitKVBase<SplitKV> {
  using SplitKVBase::SplitKVBase;

  void runOnOperation() override {
    SmallVector<OnlineAttentionOp> ops;
    getOperation()->walk([&](OnlineAttentionOp op) {
      if (!op->getParentOfType<LoopLikeOpInterface>())
        ops.push_back(op);
    });
    IRRewriter rewriter(&getContext());
    bool isTiled = splits != 0 || chunk != 0;
    for (OnlineAttentionOp op : ops)
      if (failed(isTiled ? splitTiles(rewriter, op, {rows, kvTile, splits, chunk})
                         : LogicalResult(splitKeys(rewriter, op, kvChunk))))
        return signalPassFailure();
  }
};
} // namespace
