//===- DifferentiateScores.cpp - the derivatives of scores, as regions --------------------------------------------===//

#include "flashc/Dialect/Flash/IR/ScoreDerivative.h"
#include "flashc/Dialect/Flash/Transforms/Passes.h"
#include "mlir/IR/Dominance.h"
#include "mlir/Transforms/CSE.h"

namespace mlir::flash {
#define GEN_PASS_DEF_DIFFERENTIATESCORES
#include "flashc/Dialect/Flash/Transforms/Passes.h.inc"
} // namespace mlir::flash

using namespace mlir;
using namespace mlir::flash;

namespace {
struct DifferentiateScores : flash::impl::DifferentiateScoresBase<DifferentiateScores> {
  void runOnOperation() override {
    IRRewriter rewriter(&getContext());
    WalkResult walk = getOperation()->walk([&](ScoresOpInterface op) {
      if (!op.lacksDerivative())
        return WalkResult::advance();
      if (failed(differentiateScore(op.getScore(), *op.getDerivativeRegion())))
        return WalkResult::interrupt();
      DominanceInfo dominance;
      eliminateCommonSubExpressions(rewriter, dominance, op);
      ++numDifferentiated;
      return WalkResult::advance();
    });
    if (walk.wasInterrupted())
      signalPassFailure();
  }
};
} // namespace
