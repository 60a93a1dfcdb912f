//===- PackRows.cpp - each row of packed sequences is visited once, in its own sequence ---------------------------===//

#include "LoopUtils.h"
#include "QueryTiles.h"
#include "flashc/Dialect/Flash/IR/SortedData.h"
#include "flashc/Dialect/Flash/Transforms/Passes.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/Dialect/Utils/StaticValueUtils.h"
#include "mlir/IR/PatternMatch.h"
#include "mlir/IR/Remarks.h"

namespace mlir::flash {
#define GEN_PASS_DEF_PACKROWS
#include "flashc/Dialect/Flash/Transforms/Passes.h.inc"
} // namespace mlir::flash

using namespace mlir;
using namespace mlir::flash;

namespace {
/// The loops of an attention of unpacked rows, and the ops that read or write the batch of sequences.
struct PackedLoops {
  QueryTiles tiles;
  scf::ForOp sequences;
  SmallVector<tensor::ExtractSliceOp> reads;
  SmallVector<tensor::InsertSliceOp> writes;
};
} // namespace

/// Emits a remark that `op` stays as it is.
static std::nullopt_t reject(UnpackRowsOp op, StringRef reason) {
  remark::missed(op->getLoc(), remark::RemarkOpts::name("pack-rows").category("flash")) << reason;
  return std::nullopt;
}

static Value getSource(Value sorted) { return sorted.getDefiningOp<AssumeSortedOp>().getSource(); }

/// Returns the step whose queries are slices of `op`. Null if there is none.
static OnlineAttentionOp findStep(UnpackRowsOp op) {
  for (Operation *user : op->getUsers()) {
    if (!isa<tensor::ExtractSliceOp>(user))
      continue;
    Operation *tile = user;
    if (user->hasOneUse() && isa<tensor::PadOp>(*user->user_begin()))
      tile = *user->user_begin();
    for (Operation *reader : tile->getUsers())
      if (auto step = dyn_cast<OnlineAttentionOp>(reader))
        return step;
  }
  return {};
}

/// Collects the users of the result of `op`: reads of extents, and slices at the induction variable of the loop over
/// sequences. Fails if there are others.
static LogicalResult collectReads(UnpackRowsOp op, PackedLoops &loops) {
  for (Operation *user : op->getUsers()) {
    if (auto dim = dyn_cast<tensor::DimOp>(user); dim && dim.getConstantIndex())
      continue;
    if (auto slice = dyn_cast<tensor::ExtractSliceOp>(user);
        slice && slice.getMixedOffsets()[0] == OpFoldResult(loops.sequences.getInductionVar()))
      loops.reads.push_back(slice);
    else
      return failure();
  }
  return success();
}

/// Follows `carried`, which a loop carries, to the slices that are inserted. Fails if another op uses it.
static LogicalResult collectWrites(BlockArgument carried, PackedLoops &loops) {
  if (!carried.hasOneUse())
    return failure();
  OpOperand &use = *carried.use_begin();
  if (auto inner = dyn_cast<scf::ForOp>(use.getOwner()))
    return collectWrites(inner.getTiedLoopRegionIterArg(&use), loops);
  auto write = dyn_cast<tensor::InsertSliceOp>(use.getOwner());
  if (!write || write.getDest() != carried || !write->hasOneUse() || !isa<scf::YieldOp>(*write->user_begin()) ||
      write.getMixedOffsets()[0] != OpFoldResult(loops.sequences.getInductionVar()))
    return failure();
  loops.writes.push_back(write);
  return success();
}

static std::optional<PackedLoops> match(UnpackRowsOp op) {
  OnlineAttentionOp step = findStep(op);
  std::optional<QueryTiles> tiles = step ? matchQueryTiles(step) : std::nullopt;
  if (!tiles)
    return reject(op, "there is no loop over tiles of queries from 0");
  PackedLoops loops{*tiles, scf::getForInductionVarOwner(step.getB0()), {}, {}};
  scf::ForOp sequences = loops.sequences;
  if (!sequences || getConstantIntValue(sequences.getLowerBound()) != 0 ||
      getConstantIntValue(sequences.getStep()) != 1 || !sequences->isProperAncestor(tiles->loop) ||
      !sequences.isDefinedOutsideOfLoop(tiles->loop.getUpperBound()))
    return reject(op, "there is no loop over sequences around the tiles");
  auto isInTile = [&](Operation *user) { return tiles->loop->isProperAncestor(user); };
  if (!llvm::all_of(sequences.getInductionVar().getUsers(), isInTile) || failed(collectReads(op, loops)))
    return reject(op, "another op reads the batch of sequences");
  for (auto [result, carried, init] :
       llvm::zip_equal(sequences.getResults(), sequences.getRegionIterArgs(), sequences.getInits())) {
    bool isPacked = llvm::all_of(result.getUsers(), [&](Operation *user) {
      auto pack = dyn_cast<PackRowsOp>(user);
      return pack && getSource(pack.getOffsets()) == getSource(op.getOffsets());
    });
    if (!isPacked || !init.getDefiningOp<tensor::EmptyOp>() || failed(collectWrites(carried, loops)))
      return reject(op, "the results are not packed by the same offsets");
  }
  if (!tiles->mayBeShort())
    return reject(op, "the queries are known to be whole tiles");
  return loops;
}

/// Gives the arrays that `loop` carries the types that they begin with.
static void retype(scf::ForOp loop) {
  for (auto [result, carried, init] : llvm::zip_equal(loop.getResults(), loop.getRegionIterArgs(), loop.getInits())) {
    result.setType(init.getType());
    carried.setType(init.getType());
  }
}

/// The offsets of a slice of a batch of sequences, in the only batch of the packed array.
static SmallVector<OpFoldResult> getPackedOffsets(OffsetSizeAndStrideOpInterface slice) {
  SmallVector<OpFoldResult> offsets = slice.getMixedOffsets();
  offsets[0] = Builder(slice.getContext()).getIndexAttr(0);
  return offsets;
}

static void pack(RewriterBase &rewriter, UnpackRowsOp op, PackedLoops &loops) {
  scf::ForOp sequences = loops.sequences, queries = loops.tiles.loop;
  Location loc = sequences.getLoc();
  rewriter.setInsertionPoint(sequences);
  for (OpOperand &init : sequences.getInitsMutable()) {
    auto empty = init.get().getDefiningOp<tensor::EmptyOp>();
    SmallVector<OpFoldResult> sizes = empty.getMixedSizes();
    sizes[0] = rewriter.getIndexAttr(1);
    init.set(tensor::EmptyOp::create(rewriter, empty.getLoc(), sizes, empty.getType().getElementType()));
  }
  sequences.walk<WalkOrder::PreOrder>([&](scf::ForOp loop) {
    if (loop == sequences || loop->isAncestor(queries))
      retype(loop);
  });
  SegmentTileOp tile = cutIntoSegments(loops.tiles, sequences, op.getOffsets(), {});
  rewriter.setInsertionPointAfter(tile);
  Value sequence = emitSequence(rewriter, loc, tile.getSegment(), op.getOffsets());
  for (tensor::ExtractSliceOp read : loops.reads) {
    rewriter.setInsertionPoint(read);
    rewriter.replaceOpWithNewOp<tensor::ExtractSliceOp>(read, read.getType(), op.getSource(), getPackedOffsets(read),
                                                        read.getMixedSizes(), read.getMixedStrides());
  }
  for (tensor::InsertSliceOp write : loops.writes) {
    rewriter.setInsertionPoint(write);
    rewriter.replaceOpWithNewOp<tensor::InsertSliceOp>(write, write.getSource(), write.getDest(),
                                                       getPackedOffsets(write), write.getMixedSizes(),
                                                       write.getMixedStrides());
  }
  sequences.getInductionVar().replaceAllUsesWith(sequence);
  for (Value result : sequences.getResults())
    for (Operation *user : llvm::make_early_inc_range(result.getUsers())) {
      rewriter.setInsertionPoint(user);
      Type type = cast<PackRowsOp>(user).getType();
      rewriter.replaceOp(user, rewriter.createOrFold<tensor::CastOp>(user->getLoc(), type, result));
    }
  replaceDims(rewriter, cast<OpResult>(op.getResult()));
  rewriter.eraseOp(op);
  rewriter.setInsertionPoint(sequences);
  sequences.setUpperBound(arith::ConstantIndexOp::create(rewriter, loc, 1));
  (void)sequences.promoteIfSingleIteration(rewriter); // it has one
}

namespace {
struct PackRows : flash::impl::PackRowsBase<PackRows> {
  using PackRowsBase::PackRowsBase;

  void runOnOperation() override {
    IRRewriter rewriter(&getContext());
    SmallVector<UnpackRowsOp> ops;
    getOperation()->walk([&](UnpackRowsOp op) { ops.push_back(op); });
    for (UnpackRowsOp op : ops)
      if (std::optional<PackedLoops> loops = match(op)) {
        pack(rewriter, op, *loops);
        ++numPacked;
      }
  }
};
} // namespace
