//===- PackRows.cpp - each row of packed sequences is visited once, in its own sequence ---------------------------===//

#include "QueryTiles.h"
#include "flashc/Dialect/Flash/IR/SortedData.h"
#include "flashc/Dialect/Flash/Transforms/Passes.h"
#include "mlir/Dialect/Arith/Utils/Utils.h"
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
  SmallVector<tensor::DimOp> dims;
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
      loops.dims.push_back(dim);
    else if (auto slice = dyn_cast<tensor::ExtractSliceOp>(user);
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
  PackedLoops loops{*tiles, scf::getForInductionVarOwner(step.getB0()), {}, {}, {}};
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

/// Gives the arrays that `loop` and the loops inside of it carry a first extent of 1.
static void retype(scf::ForOp loop) {
  for (auto [result, carried, init] : llvm::zip_equal(loop.getResults(), loop.getRegionIterArgs(), loop.getInits())) {
    result.setType(init.getType());
    carried.setType(init.getType());
  }
}

static void pack(RewriterBase &rewriter, UnpackRowsOp op, PackedLoops &loops) {
  scf::ForOp sequences = loops.sequences, queries = loops.tiles.loop;
  Location loc = sequences.getLoc();
  Attribute zero = rewriter.getIndexAttr(0);
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
    SmallVector<OpFoldResult> offsets = read.getMixedOffsets();
    offsets[0] = zero;
    rewriter.replaceOpWithNewOp<tensor::ExtractSliceOp>(read, read.getType(), op.getSource(), offsets,
                                                        read.getMixedSizes(), read.getMixedStrides());
  }
  for (tensor::InsertSliceOp write : loops.writes) {
    rewriter.setInsertionPoint(write);
    SmallVector<OpFoldResult> offsets = write.getMixedOffsets();
    offsets[0] = zero;
    rewriter.replaceOpWithNewOp<tensor::InsertSliceOp>(write, write.getSource(), write.getDest(), offsets,
                                                       write.getMixedSizes(), write.getMixedStrides());
  }
  sequences.getInductionVar().replaceAllUsesWith(sequence);
  for (Value result : sequences.getResults())
    for (Operation *user : llvm::make_early_inc_range(result.getUsers())) {
      auto packed = cast<PackRowsOp>(user);
      rewriter.setInsertionPoint(packed);
      if (packed.getType() == result.getType())
        rewriter.replaceOp(packed, result);
      else
        rewriter.replaceOpWithNewOp<tensor::CastOp>(packed, packed.getType(), result);
    }
  for (tensor::DimOp dim : loops.dims) {
    rewriter.setInsertionPoint(dim);
    int64_t number = *dim.getConstantIndex();
    OpFoldResult size = number == 0 ? countSequences(rewriter, dim.getLoc(), op.getOffsets())
                                    : tensor::getMixedSize(rewriter, dim.getLoc(), op.getSource(), number);
    rewriter.replaceOp(dim, getValueOrCreateConstantIndexOp(rewriter, dim.getLoc(), size));
  }
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
