//===- AlignQueries.cpp - tiles of queries begin where packed sequences begin -------------------------------------===//

#include "flashc/Analysis/TilePartition.h"
#include "flashc/Dialect/Flash/IR/SortedData.h"
#include "flashc/Dialect/Flash/Transforms/Passes.h"
#include "flashc/Dialect/Flash/Transforms/Transforms.h"
#include "mlir/Dialect/Affine/IR/AffineOps.h"
#include "mlir/Dialect/Arith/Utils/Utils.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/Dialect/Utils/StaticValueUtils.h"
#include "mlir/IR/Remarks.h"

namespace mlir::flash {
#define GEN_PASS_DEF_ALIGNQUERIES
#include "flashc/Dialect/Flash/Transforms/Passes.h.inc"
} // namespace mlir::flash

using namespace mlir;
using namespace mlir::flash;

namespace {
/// A loop over tiles of queries, and the op of the mask that counts sequences. The pass lets the tiles begin where
/// these sequences begin.
struct QueryLoop {
  OnlineAttentionOp op;
  scf::ForOp loop;
  int64_t tile;
  /// The op before which the number of tiles is computed.
  Operation *anchor;
  CountLeOp sequence;
  /// The ops that compute the sizes of slices. Each is the minimum of the tile size and the number of queries from the
  /// tile's begin on.
  SmallVector<affine::AffineMinOp> sizes;
};
} // namespace

/// Emits a remark that the loop around `op` stays as it is.
static std::nullopt_t reject(OnlineAttentionOp op, StringRef reason) {
  remark::missed(op->getLoc(), remark::RemarkOpts::name("align-queries").category("flash")) << reason;
  return std::nullopt;
}

/// Returns the op of the mask that counts the sequences that begin at the query or before it. The array of the op must
/// be defined outside of `anchor`. Null if there is no such op.
static CountLeOp findSequence(OnlineAttentionOp op, Operation *anchor) {
  Region &mask = op.getMask();
  auto isOutside = [&](Value value) { return !anchor->isAncestor(value.getParentRegion()->getParentOp()); };
  CountLeOp found;
  mask.walk([&](CountLeOp count) {
    auto isKnown = [&](Value index) { return index == mask.getArgument(0) || isOutside(index); };
    bool isOfQuery = LinearExpr::get(count.getValue()) == LinearExpr::symbol(mask.getArgument(2));
    Value array = count.getSorted().getDefiningOp<AssumeSortedOp>().getSource();
    if (!isOfQuery || count.getStrict() || !isOutside(array) || !llvm::all_of(count.getIndices(), isKnown))
      return WalkResult::advance();
    found = count;
    return WalkResult::interrupt();
  });
  return found;
}

/// Returns the outermost loop, among `loop` and the loops around it, before which the upper bound of `loop` is known.
static Operation *findAnchor(scf::ForOp loop) {
  while (auto outer = dyn_cast<scf::ForOp>(loop->getParentOp())) {
    if (!outer.isDefinedOutsideOfLoop(loop.getUpperBound()))
      break;
    loop = outer;
  }
  return loop;
}

/// Whether the slices that `loop` inserts fit `sizes`: each slice whose offset in a dimension is the induction variable
/// has one of `sizes` as its size in this dimension.
static bool writesTile(scf::ForOp loop, ArrayRef<affine::AffineMinOp> sizes) {
  return llvm::all_of(loop.getBody()->getOps<tensor::InsertSliceOp>(), [&](tensor::InsertSliceOp write) {
    return llvm::all_of(llvm::zip(write.getMixedOffsets(), write.getMixedSizes()), [&](auto dim) {
      auto isSize = [&](affine::AffineMinOp min) { return std::get<1>(dim) == OpFoldResult(min.getResult()); };
      return std::get<0>(dim) != OpFoldResult(loop.getInductionVar()) || llvm::any_of(sizes, isSize);
    });
  });
}

static std::optional<QueryLoop> match(OnlineAttentionOp op) {
  QueryLoop result{op, {}, op.getQType().getDimSize(2), nullptr, {}, {}};
  result.loop = scf::getForInductionVarOwner(op.getI0());
  bool isTiled = result.loop && getConstantIntValue(result.loop.getLowerBound()) == 0 &&
                 getConstantIntValue(result.loop.getStep()) == result.tile &&
                 result.loop.isDefinedOutsideOfLoop(op.getB0());
  if (!isTiled)
    return reject(op, "there is no loop over tiles of queries from 0");
  if (op.getDropout())
    return reject(op, "dropout counts queries from 0 in blocks of 16");
  result.anchor = findAnchor(result.loop);
  result.sequence = findSequence(op, result.anchor);
  if (!result.sequence)
    return reject(op, "the mask has no sequences by sorted offsets");
  LinearExpr rest = LinearExpr::get(result.loop.getUpperBound()) - LinearExpr::symbol(op.getI0());
  result.loop.walk([&](affine::AffineMinOp min) {
    if (isClamped(min, result.tile, rest))
      result.sizes.push_back(min);
  });
  if (result.sizes.empty() || !writesTile(result.loop, result.sizes))
    return reject(op, "the queries are known to be whole tiles");
  if (!beginsAnywhere(op))
    return reject(op, "the keys of a tile of queries do not begin anywhere, or in several places");
  return result;
}

static void align(QueryLoop &queries) {
  scf::ForOp loop = queries.loop;
  Location loc = loop.getLoc();
  OpBuilder b(queries.anchor);
  Value array = queries.sequence.getSorted();
  if (queries.anchor->isAncestor(array.getDefiningOp()))
    array = AssumeSortedOp::create(b, loc, array.getType(), array.getDefiningOp<AssumeSortedOp>().getSource());
  Value length = loop.getUpperBound();
  Value count = getValueOrCreateConstantIndexOp(b, loc, countSegmentTiles(b, loc, array, length, queries.tile));
  Value one = arith::ConstantIndexOp::create(b, loc, 1);
  b.setInsertionPointToStart(loop.getBody());
  Value number = loop.getInductionVar(), batch = queries.op.getMask().getArgument(0);
  SmallVector<Value> indices;
  for (Value index : queries.sequence.getIndices())
    indices.push_back(index == batch ? queries.op.getB0() : index);
  Type index = b.getIndexType();
  auto tile = SegmentTileOp::create(b, loc, index, index, index, number, array, indices, length,
                                    b.getI64IntegerAttr(queries.tile));
  for (affine::AffineMinOp size : queries.sizes) {
    size.replaceAllUsesWith(tile.getSize());
    size.erase();
  }
  number.replaceAllUsesExcept(tile.getBegin(), tile);
  loop.setUpperBound(count);
  loop.setStep(one);
}

namespace {
struct AlignQueries : flash::impl::AlignQueriesBase<AlignQueries> {
  using AlignQueriesBase::AlignQueriesBase;

  void runOnOperation() override {
    SmallVector<OnlineAttentionOp> ops;
    getOperation()->walk([&](OnlineAttentionOp op) {
      if (op.hasMask())
        ops.push_back(op);
    });
    for (OnlineAttentionOp op : ops)
      if (std::optional<QueryLoop> queries = match(op)) {
        align(*queries);
        ++numAligned;
      }
  }
};
} // namespace
