//===- Decompose.cpp - flash ops become linalg --------------------------------------------------------------------===//

#include "flashc/Dialect/Flash/IR/SortedData.h"
#include "flashc/Dialect/Flash/IR/TileTables.h"
#include "flashc/Dialect/Flash/Transforms/Passes.h"
#include "flashc/Dialect/Flash/Transforms/Transforms.h"

namespace mlir::flash {
#define GEN_PASS_DEF_DECOMPOSE
#include "flashc/Dialect/Flash/Transforms/Passes.h.inc"
} // namespace mlir::flash

using namespace mlir;
using namespace mlir::flash;

LogicalResult mlir::flash::decomposeFlashOp(RewriterBase &rewriter, linalg::AggregatedOpInterface op) {
  OpBuilder::InsertionGuard guard(rewriter);
  rewriter.setInsertionPoint(op);
  FailureOr<SmallVector<Value>> results = op.decomposeOperation(rewriter);
  if (failed(results))
    return failure();
  rewriter.replaceOp(op, *results);
  return success();
}

/// Searches and tables become loops, and declarations what they are made on.
static void expandDeclaredData(RewriterBase &rewriter, Operation *root) {
  auto replace = [&](auto op) {
    rewriter.setInsertionPoint(op);
    rewriter.replaceOp(op, expandSortedRead(rewriter, op));
  };
  root->walk([&](CountLeOp op) { replace(op); });
  root->walk([&](NthOp op) { replace(op); });
  root->walk([&](SegmentTileOp op) {
    rewriter.setInsertionPoint(op);
    SegmentTile tile = expandSortedRead(rewriter, op);
    rewriter.replaceOp(op, {tile.begin, tile.size, tile.segment});
  });
  root->walk([&](TileRunsOp op) {
    rewriter.setInsertionPoint(op);
    rewriter.replaceOp(op, expandTileRuns(rewriter, op));
  });
  root->walk([&](RowTableOp op) {
    rewriter.setInsertionPoint(op);
    rewriter.replaceOp(op, expandRowTable(rewriter, op));
  });
  root->walk([&](TileMinMaxOp op) {
    rewriter.setInsertionPoint(op);
    rewriter.replaceOp(op, expandTileMinMax(rewriter, op));
  });
  root->walk([&](AssumeSortedOp op) { rewriter.replaceOp(op, op.getSource()); });
}

namespace {
struct Decompose : flash::impl::DecomposeBase<Decompose> {
  void runOnOperation() override {
    IRRewriter rewriter(&getContext());
    getOperation()->walk([&](ScoresOpInterface op) { convertToTensors(rewriter, op); });
    WalkResult walk = getOperation()->walk([&](linalg::AggregatedOpInterface op) {
      if (!isa<FlashDialect>(op->getDialect()))
        return WalkResult::advance();
      if (succeeded(decomposeFlashOp(rewriter, op)))
        return WalkResult::advance();
      op->emitOpError() << "expected an op that decomposes to linalg";
      return WalkResult::interrupt();
    });
    if (walk.wasInterrupted())
      return signalPassFailure();
    expandDeclaredData(rewriter, getOperation());
  }
};
} // namespace
