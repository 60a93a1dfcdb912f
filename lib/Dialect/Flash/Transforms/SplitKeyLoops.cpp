//===- SplitKeyLoops.cpp - parts of the keys of query tiles that run in parallel ----------------------------------===//

#include "KeyParts.h"
#include "LoopUtils.h"
#include "flashc/Dialect/Flash/Transforms/Passes.h"
#include "flashc/Dialect/Flash/Transforms/Transforms.h"
#include "mlir/Dialect/Affine/IR/AffineOps.h"
#include "mlir/Dialect/Arith/Utils/Utils.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/Dialect/Utils/StaticValueUtils.h"
#include "mlir/IR/Dominance.h"

namespace mlir::flash {
#define GEN_PASS_DEF_SPLITKEYLOOPS
#include "flashc/Dialect/Flash/Transforms/Passes.h.inc"
} // namespace mlir::flash

using namespace mlir;
using namespace mlir::flash;

static constexpr Refusal refuse{"split keys"};

static FinalizeOp findFinalize(scf::ForallOp loop) {
  auto ops = loop.getBody()->getOps<FinalizeOp>();
  return ops.empty() ? FinalizeOp() : *ops.begin();
}

namespace {
class Splitter {
public:
  Splitter(RewriterBase &b, scf::ForallOp forall, int64_t splits, bool isByWork)
      : b(b), loc(forall.getLoc()), forall(forall), finalize(findFinalize(forall)), splits(splits), isByWork(isByWork) {
  }

  LogicalResult run();

private:
  LogicalResult findLoops();
  LogicalResult findWrites();
  void emitBounds(Value part, const IRMapping &mapping);
  void emitPart(scf::ForallOp parts);

  RewriterBase &b;
  Location loc;
  scf::ForallOp forall;
  FinalizeOp finalize;
  int64_t splits;
  bool isByWork;
  /// The loops over keys, in ascending order.
  SmallVector<scf::ForOp> loops;
  /// Whether each loop begins where the loop before it ends.
  bool areOneRun = true;
  /// The write of o and the write of lse. Null for a result that is not used.
  tensor::ParallelInsertSliceOp writes[2];
};
} // namespace

LogicalResult Splitter::findLoops() {
  if (finalize.getNormalize() != Normalize::Deferred)
    return refuse(finalize, "expected normalize = deferred");
  SmallVector<Value> state(finalize.getState());
  while (auto loop = state.front().getDefiningOp<scf::ForOp>()) {
    if (ValueRange(state) != loop->getResults())
      return refuse(loop, "expected a loop over keys that carries the state alone");
    loops.insert(loops.begin(), loop);
    state.assign(loop.getInitArgs().begin(), loop.getInitArgs().end());
  }
  if (loops.empty())
    return refuse(finalize, "expected loops over keys");
  DominanceInfo dominance(forall);
  for (auto [number, loop] : llvm::enumerate(loops)) {
    for (Value bound : {loop.getLowerBound(), loop.getUpperBound()}) {
      if (!dominance.properlyDominates(bound, loops.front()))
        return refuse(loop, "expected all bounds before the first loop", bound.getDefiningOp());
      SetVector<Operation *> slice;
      if (failed(getBackwardSlice(bound, &slice)))
        return failure();
      if (auto *runs = llvm::find_if(slice, llvm::IsaPred<TileRunsOp>); runs != slice.end())
        return refuse(loop, "the bounds are runs of a table, which are those of all keys", *runs);
    }
    areOneRun &= number == 0 || loop.getLowerBound() == loops[number - 1].getUpperBound();
  }
  return success();
}

/// Finds the writes of the two results. A result that is used must have one use only: a write by the parallel loop.
LogicalResult Splitter::findWrites() {
  for (auto [result, write] : llvm::zip_equal(finalize->getResults(), writes)) {
    if (result.use_empty())
      continue;
    Value value = result;
    if (value.hasOneUse())
      if (auto cut = dyn_cast<tensor::ExtractSliceOp>(*value.user_begin()))
        value = cut;
    write = value.hasOneUse() ? dyn_cast<tensor::ParallelInsertSliceOp>(*value.user_begin())
                              : tensor::ParallelInsertSliceOp();
    if (!write)
      return refuse(finalize, "expected o and lse to be written once, and used for nothing else");
  }
  if (!writes[0])
    return refuse(finalize, "expected o to be used");
  // A result that nothing writes would have no value after the split.
  if (forall.getNumResults() != (writes[1] ? 2 : 1))
    return refuse(forall, "expected the parallel loop to write all its results");
  return success();
}

/// Restricts the clones of `loops` in `mapping` to the keys of part number `part`.
void Splitter::emitBounds(Value part, const IRMapping &mapping) {
  OpBuilder::InsertionGuard guard(b);
  SmallVector<scf::ForOp> copies = llvm::map_to_vector(
      loops, [&](scf::ForOp loop) { return cast<scf::ForOp>(mapping.lookup(loop.getOperation())); });
  b.setInsertionPoint(copies.front());
  int64_t tile = *getConstantIntValue(copies.front().getStep());
  auto x = b.getAffineDimExpr(0), y = b.getAffineDimExpr(1);
  AffineMap both = AffineMap::get(2, 0, {x, y}, b.getContext());
  auto least = [&](OpFoldResult p, OpFoldResult q) {
    return affine::makeComposedFoldedAffineMin(b, loc, both, {p, q});
  };
  auto most = [&](OpFoldResult p, OpFoldResult q) { return affine::makeComposedFoldedAffineMax(b, loc, both, {p, q}); };
  auto apply = [&](AffineExpr expr, ArrayRef<OpFoldResult> operands) {
    return affine::makeComposedFoldedAffineApply(b, loc, expr, operands);
  };
  auto set = [&](OpOperand &bound, OpFoldResult value) { bound.set(getValueOrCreateConstantIndexOp(b, loc, value)); };
  if (areOneRun) {
    OpFoldResult begin = getAsOpFoldResult(copies.front().getLowerBound()),
                 end = getAsOpFoldResult(copies.back().getUpperBound());
    auto [from, to] = emitKeysOfPart(b, loc, begin, end, part, splits, tile, isByWork);
    OpFoldResult last = from;
    for (scf::ForOp copy : copies) {
      set(copy.getLowerBoundMutable(), last);
      if (copy != copies.back())
        last = least(most(getAsOpFoldResult(copy.getUpperBound()), from), to);
      else
        last = least(end, to); // the last tile may exceed the keys
      set(copy.getUpperBoundMutable(), last);
    }
    return;
  }
  // The tiles of all loops are numbered in order. counts[i] is the number of tiles before loop i.
  SmallVector<Value> counts{arith::ConstantIndexOp::create(b, loc, 0)};
  SmallVector<OpFoldResult> ends;
  for (scf::ForOp copy : copies) {
    OpFoldResult lower = getAsOpFoldResult(copy.getLowerBound());
    ends.push_back(most(lower, getAsOpFoldResult(copy.getUpperBound())));
    Value own = getValueOrCreateConstantIndexOp(b, loc, apply((y - x).ceilDiv(tile), {lower, ends.back()}));
    counts.push_back(arith::AddIOp::create(b, loc, counts.back(), own));
  }
  auto [first, last] = emitTilesOfPart(b, loc, counts.back(), part, splits, isByWork);
  for (auto [number, copy] : llvm::enumerate(copies)) {
    // Returns the key at which tile `at` of all loops begins, or the nearest bound of this loop.
    auto cut = [&, before = counts[number], end = ends[number],
                lower = getAsOpFoldResult(copy.getLowerBound())](OpFoldResult at) {
      Value tiles = arith::MaxSIOp::create(b, loc, getValueOrCreateConstantIndexOp(b, loc, at), before);
      tiles = arith::SubIOp::create(b, loc, tiles, before);
      return least(apply(x + y * tile, {lower, OpFoldResult(tiles)}), end);
    };
    OpFoldResult from = cut(first), to = cut(last);
    set(copy.getLowerBoundMutable(), from);
    set(copy.getUpperBoundMutable(), to);
  }
}

/// Emits the body of the parallel loop over parts.
void Splitter::emitPart(scf::ForallOp parts) {
  OpBuilder::InsertionGuard guard(b);
  scf::InParallelOp terminator = parts.getTerminator();
  b.setInsertionPoint(terminator);
  Value part = parts.getInductionVars().back();
  IRMapping mapping;
  for (auto [before, after] : llvm::zip(forall.getInductionVars(), parts.getInductionVars()))
    mapping.map(before, after);
  for (Operation &op : forall.getBody()->without_terminator())
    b.clone(op, mapping);
  emitBounds(part, mapping);
  auto ofAll = cast<FinalizeOp>(mapping.lookup(finalize.getOperation()));
  b.setInsertionPoint(ofAll);
  auto getInit = [&](Value result) {
    return tensor::EmptyOp::create(b, loc, cast<RankedTensorType>(result.getType()).getShape(), b.getF32Type())
        .getResult();
  };
  Value o = getInit(ofAll.getO()), lse = getInit(ofAll.getLse());
  auto ofPart = FinalizeOp::create(b, loc, TypeRange{o.getType(), lse.getType()}, ofAll.getAcc(), ofAll.getM(),
                                   ofAll.getL(), o, lse,
                                   /*sinks=*/Value(), ofAll.getNormalizeAttr(), /*no_empty_rows=*/UnitAttr());
  SmallVector<OpFoldResult> offsets = remap(mapping, writes[0].getMixedOffsets()),
                            sizes = remap(mapping, writes[0].getMixedSizes());
  for (auto [result, output] : llvm::zip_equal(ofPart.getResults(), parts.getRegionIterArgs()))
    emitWriteOfPart(b, result, output, offsets, sizes, part);
  for (Operation *user : llvm::make_early_inc_range(ofAll->getUsers())) // unused slices of the outputs
    b.eraseOp(user);
  b.eraseOp(ofAll);
}

LogicalResult Splitter::run() {
  if (splits < 1)
    return refuse(forall, "expected a positive number of parts, got " + Twine(splits));
  if (failed(findLoops()) || failed(findWrites()))
    return failure();
  if (splits == 1)
    return success();
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPoint(forall);
  auto getOut = [&](tensor::ParallelInsertSliceOp write) {
    return forall.getTiedOpOperand(cast<BlockArgument>(write.getDest()))->get();
  };
  SmallVector<OpFoldResult> extents = tensor::getMixedSizes(b, loc, getOut(writes[0]));
  extents.insert(extents.begin(), b.getIndexAttr(splits));
  Value o = tensor::EmptyOp::create(b, loc, extents, b.getF32Type());
  Value lse = tensor::EmptyOp::create(b, loc, ArrayRef(extents).drop_back(), b.getF32Type());
  SmallVector<OpFoldResult> lower = forall.getMixedLowerBound(), upper = forall.getMixedUpperBound(),
                            steps = forall.getMixedStep();
  lower.push_back(b.getIndexAttr(0)), upper.push_back(b.getIndexAttr(splits)), steps.push_back(b.getIndexAttr(1));
  auto parts = scf::ForallOp::create(b, loc, lower, upper, steps, ValueRange{o, lse}, /*mapping=*/std::nullopt);
  emitPart(parts);
  Value sinks = finalize.getSinks();
  if (auto slice = sinks ? sinks.getDefiningOp<tensor::ExtractSliceOp>() : nullptr)
    sinks = slice.getSource();
  auto outType = cast<RankedTensorType>(getOut(writes[0]).getType());
  Type lseType = RankedTensorType::get(outType.getShape().drop_back(), b.getF32Type());
  auto merge = MergeStatesOp::create(b, loc, TypeRange{outType, lseType}, parts.getResult(0), parts.getResult(1), sinks,
                                     /*outs=*/ValueRange());
  SmallVector<Value> results(forall.getNumResults());
  for (auto [number, write] : llvm::enumerate(writes))
    if (write)
      results[forall.getTiedOpResult(forall.getTiedOpOperand(cast<BlockArgument>(write.getDest()))).getResultNumber()] =
          merge->getResult(number);
  b.replaceOp(forall, results);
  return success();
}

LogicalResult mlir::flash::splitKeyLoops(RewriterBase &rewriter, scf::ForallOp loop, int64_t splits, bool isByWork) {
  return Splitter(rewriter, loop, splits, isByWork).run();
}

namespace {
struct SplitKeyLoops : flash::impl::SplitKeyLoopsBase<SplitKeyLoops> {
  using SplitKeyLoopsBase::SplitKeyLoopsBase;

  void runOnOperation() override {
    SmallVector<scf::ForallOp> loops;
    getOperation()->walk([&](scf::ForallOp loop) {
      if (findFinalize(loop))
        loops.push_back(loop);
    });
    IRRewriter rewriter(&getContext());
    for (scf::ForallOp loop : loops)
      if (failed(splitKeyLoops(rewriter, loop, splits, byWork)))
        return signalPassFailure();
  }
};
} // namespace
