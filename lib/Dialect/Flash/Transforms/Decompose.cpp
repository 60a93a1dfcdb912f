//===- Decompose.cpp - flash ops become linalg --------------------------------------------------------------------===//

#include "KeyParts.h"
#include "flashc/Dialect/Flash/IR/ScoreDerivative.h"
#include "flashc/Dialect/Flash/IR/SortedData.h"
#include "flashc/Dialect/Flash/IR/TileTables.h"
#include "flashc/Dialect/Flash/Transforms/IndexPasses.h"
#include "flashc/Dialect/Flash/Transforms/Passes.h"
#include "flashc/Dialect/Flash/Transforms/Transforms.h"
#include "llvm/ADT/TypeSwitch.h"

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

/// Expands searches (such as flash.count_le) and tables (such as flash.tile_runs) to loops, and replaces each
/// flash.assume_sorted by its operand.
static void expandDeclaredData(RewriterBase &rewriter, Operation *root) {
  auto expand = [&](auto op) {
    rewriter.setInsertionPoint(op);
    rewriter.replaceOp(op, expandInPlace(rewriter, op));
  };
  root->walk([&](Operation *op) {
    TypeSwitch<Operation *>(op)
        .Case<CountLeOp, NthOp, SegmentTileOp, RowTableOp, TileRangeOp, TileClassesOp, TileRunsOp, PartSizeOp>(expand)
        .Case([&](AssumeSortedOp declared) { rewriter.replaceOp(declared, declared.getSource()); });
  });
}

static LogicalResult differentiateAllCaptures(RewriterBase &rewriter, Operation *root) {
  return failure(root->walk([&](CapturedGradientOp op) {
                       bool isReplaced = succeeded(differentiateCaptures(rewriter, op));
                       return isReplaced ? WalkResult::advance() : WalkResult::interrupt();
                     })
                     .wasInterrupted());
}

static LogicalResult differentiateScores(Operation *root) {
  return failure(root->walk([](ScoresOpInterface op) {
                       bool isFilled = !op.lacksDerivative() ||
                                       succeeded(differentiateScore(op.getScore(), *op.getDerivativeRegion()));
                       return isFilled ? WalkResult::advance() : WalkResult::interrupt();
                     })
                     .wasInterrupted());
}

namespace {
struct Decompose : flash::impl::DecomposeBase<Decompose> {
  void runOnOperation() override {
    IRRewriter rewriter(&getContext());
    wrapIndices(getOperation());
    getOperation()->walk([&](WholeOpInterface op) { convertToTensors(rewriter, op); });
    if (failed(differentiateAllCaptures(rewriter, getOperation())) || failed(differentiateScores(getOperation())))
      return signalPassFailure();
    WalkResult walk = getOperation()->walk([&](linalg::AggregatedOpInterface op) {
      if (!isa<FlashDialect>(op->getDialect()) && !isa<StepOpInterface>(op.getOperation()))
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
