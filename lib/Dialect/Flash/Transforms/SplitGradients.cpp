//===- SplitGradients.cpp - the gradients of queries and of keys in loops of their own ----------------------------===//

#include "flashc/Dialect/Flash/Transforms/Passes.h"
#include "flashc/Dialect/Flash/Transforms/Transforms.h"

namespace mlir::flash {
#define GEN_PASS_DEF_SPLITGRADIENTS
#include "flashc/Dialect/Flash/Transforms/Passes.h.inc"
} // namespace mlir::flash

using namespace mlir;
using namespace mlir::flash;

/// Emits a step for `gradients` alone. Its states are the states of `op` with the numbers `begin` to `end` - 1.
static AccumulateGradientsOp emitPart(RewriterBase &rewriter, AccumulateGradientsOp op, Gradients gradients,
                                      unsigned begin, unsigned end) {
  TypeRange types = op->getResults().slice(begin, end - begin).getTypes();
  auto part = cast<AccumulateGradientsOp>(clone(rewriter, op, types, op->getOperands()));
  part.getStateMutable().assign(op.getState().slice(begin, end - begin));
  part.setGradients(gradients);
  return part;
}

SmallVector<AccumulateGradientsOp> mlir::flash::splitGradients(RewriterBase &rewriter, AccumulateGradientsOp op,
                                                               bool each) {
  OpBuilder::InsertionGuard guard(rewriter);
  rewriter.setInsertionPoint(op);
  SmallVector<AccumulateGradientsOp> parts;
  if (each)
    parts = {emitPart(rewriter, op, Gradients::DK, 1, 2), emitPart(rewriter, op, Gradients::DV, 2, 3)};
  else
    parts = {emitPart(rewriter, op, Gradients::DK | Gradients::DV, 1, 3)};
  parts.push_back(emitPart(rewriter, op, Gradients::DQ, 0, 1));
  SmallVector<Value> results(parts.back().getResults());
  for (AccumulateGradientsOp part : ArrayRef(parts).drop_back())
    llvm::append_range(results, part.getResults());
  rewriter.replaceOp(op, results);
  return parts;
}

namespace {
struct SplitGradients : flash::impl::SplitGradientsBase<SplitGradients> {
  using SplitGradientsBase::SplitGradientsBase;

  void runOnOperation() override {
    IRRewriter rewriter(&getContext());
    getOperation()->walk([&](AccumulateGradientsOp op) {
      if (op.getGradients() != kAllGradients || op->getParentOfType<LoopLikeOpInterface>())
        return;
      splitGradients(rewriter, op, each);
      ++numSplit;
    });
  }
};
} // namespace
