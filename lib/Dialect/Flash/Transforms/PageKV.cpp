//===- PageKV.cpp - tiles of keys and values from a cache: PagedAttention -----------------------------------------===//

#include "LoopUtils.h"
#include "flashc/Dialect/Flash/Transforms/Passes.h"
#include "mlir/Dialect/Arith/Utils/Utils.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/Dialect/Utils/StaticValueUtils.h"

namespace mlir::flash {
#define GEN_PASS_DEF_PAGEKV
#include "flashc/Dialect/Flash/Transforms/Passes.h.inc"
} // namespace mlir::flash

using namespace mlir;
using namespace mlir::flash;

/// Replaces `slice`, a slice of `view`, by a tile of the cache. If the slice is padded with zeros, replaces the
/// padding, too. Does nothing unless the slice consists of whole rows of one sequence and head.
static void replaceSlice(RewriterBase &rewriter, CacheViewOp view, tensor::ExtractSliceOp slice) {
  SmallVector<OpFoldResult> offsets = slice.getMixedOffsets(), sizes = slice.getMixedSizes();
  bool isTile = slice.hasUnitStride() && slice.getType().getRank() == 4 && isConstantIntValue(sizes[0], 1) &&
                isConstantIntValue(sizes[1], 1) && isConstantIntValue(offsets[3], 0);
  if (!isTile)
    return;
  Operation *replaced = slice;
  if (auto pad = slice->hasOneUse() ? dyn_cast<tensor::PadOp>(*slice->user_begin()) : tensor::PadOp())
    replaced = pad;
  auto type = cast<RankedTensorType>(replaced->getResult(0).getType());
  if (!type.hasStaticShape())
    return;
  rewriter.setInsertionPoint(replaced);
  auto get = [&](OpFoldResult value) { return getValueOrCreateConstantIndexOp(rewriter, slice.getLoc(), value); };
  rewriter.replaceOpWithNewOp<CacheTileOp>(replaced, type, view.getCache(), get(offsets[0]), get(offsets[1]),
                                           get(offsets[2]), view.getLengths(), view.getTable(), view.getScales());
}

namespace {
struct PageKV : flash::impl::PageKVBase<PageKV> {
  void runOnOperation() override {
    SmallVector<CacheViewOp> views;
    getOperation()->walk([&](CacheViewOp view) { views.push_back(view); });
    IRRewriter rewriter(&getContext());
    for (CacheViewOp view : views) {
      replaceDims(rewriter, cast<OpResult>(view.getResult()));
      for (Operation *user : llvm::make_early_inc_range(view->getUsers()))
        if (auto slice = dyn_cast<tensor::ExtractSliceOp>(user))
          replaceSlice(rewriter, view, slice);
    }
  }
};
} // namespace
