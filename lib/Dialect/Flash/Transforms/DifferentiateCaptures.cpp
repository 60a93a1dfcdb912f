//===- DifferentiateCaptures.cpp - gradients of the tensors that a score reads ------------------------------------===//

#include "CaptureIndex.h"
#include "flashc/Dialect/Flash/IR/Arguments.h"
#include "flashc/Dialect/Flash/IR/ScoreDerivative.h"
#include "flashc/Dialect/Flash/Transforms/Passes.h"
#include "flashc/Dialect/Flash/Transforms/Transforms.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Arith/Utils/Utils.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/IR/Dominance.h"
#include "mlir/Transforms/CSE.h"
#include "mlir/Transforms/RegionUtils.h"

namespace mlir::flash {
#define GEN_PASS_DEF_DIFFERENTIATECAPTURES
#include "flashc/Dialect/Flash/Transforms/Passes.h.inc"
} // namespace mlir::flash

using namespace mlir;
using namespace mlir::flash;

namespace {
/// A read of the captured tensor, and how the score's gradients are summed for this read.
struct CapturedRead {
  tensor::ExtractOp read;
  CaptureIndex index;
};

class Rewriter {
public:
  Rewriter(RewriterBase &rewriter, CapturedGradientOp op) : b(rewriter), op(op), loc(op.getLoc()) {}

  /// Replaces the op by sums of score gradients. Returns the number of reads of the captured tensor.
  FailureOr<int64_t> run() {
    FailureOr<SmallVector<CapturedRead>> reads = findReads();
    if (failed(reads))
      return failure();
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPoint(op);
    // If `emitSums` fails, the ops that are created before it stay in the IR.
    Value result = createZeros(b, loc, tensor::getMixedSizes(b, loc, op.getCaptured()));
    Value delta = emitRowDots(b, loc, op.getO(), op.getDout(), op.getDlse());
    for (auto [number, read] : llvm::enumerate(*reads)) {
      FailureOr<Value> sums = emitSums(read, delta, number);
      if (failed(sums))
        return failure();
      result = emitScatter(read, *sums, result);
    }
    if (Type type = op.getResult(0).getType(); result.getType() != type)
      result = tensor::CastOp::create(b, loc, type, result);
    b.replaceOp(op, result);
    return reads->size();
  }

private:
  FailureOr<SmallVector<CapturedRead>> findReads();
  FailureOr<Value> emitSums(CapturedRead &read, Value delta, int64_t number);
  Value emitScatter(CapturedRead &read, Value sums, Value init);

  OpFoldResult getExtent(Value array, int64_t dim) { return tensor::getMixedSize(b, loc, array, dim); }
  Value getValue(OpFoldResult extent) { return getValueOrCreateConstantIndexOp(b, loc, extent); }

  RewriterBase &b;
  CapturedGradientOp op;
  Location loc;
};
} // namespace

FailureOr<SmallVector<CapturedRead>> Rewriter::findReads() {
  BlockArgument captured = getRootArgument(op.getCaptured());
  if (!captured || op.getCaptured() != captured)
    return op.emitOpError() << "expected the captured tensor to be an argument of the function (C12)";
  SmallVector<CapturedRead> reads;
  if (!op.hasScore())
    return reads;
  Region &score = op.getScore();
  DominanceInfo dominance;
  eliminateCommonSubExpressions(b, dominance, op); // equal reads become one
  (void)runRegionDCE(b, score);
  WalkResult walk = score.walk([&](Operation *nested) {
    auto read = dyn_cast<tensor::ExtractOp>(nested);
    if (!read || read.getTensor() != captured)
      return WalkResult::advance();
    auto refuse = [&](StringRef expected) {
      InFlightDiagnostic error = op.emitOpError() << "expected " << expected << " (C12)";
      error.attachNote(read.getLoc()) << "of this read";
      return WalkResult::interrupt();
    };
    if (read->getParentRegion() != &score)
      return refuse("the captured tensor to be read outside of control flow");
    reads.push_back({read, analyzeCaptureIndex(score, read)});
    return WalkResult::advance();
  });
  if (walk.wasInterrupted())
    return failure();
  return reads;
}

/// Emits the step that sums the score's gradients for read number `number`.
FailureOr<Value> Rewriter::emitSums(CapturedRead &read, Value delta, int64_t number) {
  Gradients gradients = read.index.gradients;
  SmallVector<OpFoldResult> sizes{getExtent(op.getQ(), 0), getExtent(op.getQ(), 1)};
  OpFoldResult queries = getExtent(op.getQ(), 2), keys = getExtent(op.getK(), 2);
  if (gradients == Gradients::Rows || gradients == Gradients::Pairs)
    sizes.push_back(queries);
  if (gradients == Gradients::Columns || gradients == Gradients::Pairs)
    sizes.push_back(keys);
  if (gradients == Gradients::Pairs || gradients == Gradients::Diagonals)
    sizes[0] = read.index.dependsOnBatch ? sizes[0] : b.getIndexAttr(1);
  if (gradients == Gradients::Pairs) // diagonals of heads stay apart: a kernel has room for those of one head
    sizes[1] = read.index.dependsOnHead ? sizes[1] : b.getIndexAttr(1);
  if (gradients == Gradients::Diagonals) {
    AffineExpr q, k;
    bindDims(b.getContext(), q, k);
    sizes.push_back(affine::makeComposedFoldedAffineApply(b, loc, q + k - 1, {queries, keys}));
  }
  Value zeros = createZeros(b, loc, sizes), zero = arith::ConstantIndexOp::create(b, loc, 0);
  auto step = AccumulateGradientsOp::create(b, loc, zeros.getType(), op.getQ(), op.getK(), op.getV(), op.getDout(),
                                            op.getLse(), delta, zeros, op.getPhilox(), zero, zero, zero, zero,
                                            op.getScaleAttr(), GradientsAttr::get(b.getContext(), gradients),
                                            op.getGroupSizeAttr(), op.getDropoutPAttr(), b.getI64IntegerAttr(number));
  if (failed(differentiateScore(op.getScore(), read.read.getResult(), step.getDerivative())))
    return failure();
  IRMapping mapping;
  op.getScore().cloneInto(&step.getScore(), mapping);
  op.getMask().cloneInto(&step.getMask(), mapping);
  DominanceInfo dominance;
  eliminateCommonSubExpressions(b, dominance, step);
  return step.getResult(0);
}

Value Rewriter::emitScatter(CapturedRead &read, Value sums, Value init) {
  Value queries = getValue(getExtent(op.getQ(), 2));
  auto scatter = ScatterSumOp::create(b, loc, init.getType(), sums, init, op.getCaptured(), queries,
                                      GradientsAttr::get(b.getContext(), read.index.gradients));
  OpBuilder::InsertionGuard guard(b);
  SmallVector<Type> types(4, b.getIndexType());
  Block *block = b.createBlock(&scatter.getIndex(), {}, types, SmallVector<Location>(4, loc));
  IRMapping mapping;
  mapping.map(op.getScore().getArguments().drop_front(), block->getArguments());
  for (Operation &nested : op.getScore().front().without_terminator()) {
    if (&nested == read.read)
      break;
    // Ops that depend on the score are not part of an index.
    if (llvm::all_of(nested.getOperands(), [&](Value operand) {
          return !op.getScore().isAncestor(operand.getParentRegion()) || mapping.contains(operand);
        }))
      b.clone(nested, mapping);
  }
  YieldIndexOp::create(
      b, loc, llvm::map_to_vector(read.read.getIndices(), [&](Value index) { return mapping.lookupOrDefault(index); }));
  (void)runRegionDCE(b, scatter.getIndex());
  return scatter.getResult();
}

FailureOr<int64_t> mlir::flash::differentiateCaptures(RewriterBase &rewriter, CapturedGradientOp op) {
  return Rewriter(rewriter, op).run();
}

namespace {
struct DifferentiateCaptures : flash::impl::DifferentiateCapturesBase<DifferentiateCaptures> {
  void runOnOperation() override {
    IRRewriter rewriter(&getContext());
    bool isDone = true; // go on after a failure: each refused op gets its diagnostic
    getOperation()->walk([&](CapturedGradientOp op) {
      FailureOr<int64_t> count = differentiateCaptures(rewriter, op);
      isDone &= succeeded(count);
      numSums += count.value_or(0);
    });
    if (!isDone)
      signalPassFailure();
  }
};
} // namespace
