//===- AlignQueries.cpp - tiles of queries begin where packed sequences begin -------------------------------------===//

#include "QueryTiles.h"
#include "flashc/Analysis/LinearExpr.h"
#include "flashc/Dialect/Flash/IR/SortedData.h"
#include "flashc/Dialect/Flash/Transforms/Passes.h"
#include "flashc/Dialect/Flash/Transforms/Transforms.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
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
  QueryTiles tiles;
  /// The op before which the number of tiles is computed.
  Operation *anchor;
  CountLeOp sequence;
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

static std::optional<QueryLoop> match(OnlineAttentionOp op) {
  std::optional<QueryTiles> tiles = matchQueryTiles(op);
  if (!tiles)
    return reject(op, "there is no loop over tiles of queries from 0");
  if (op.getDropout())
    return reject(op, "dropout counts queries from 0 in blocks of 16");
  Operation *anchor = findAnchor(tiles->loop);
  CountLeOp sequence = findSequence(op, anchor);
  if (!sequence)
    return reject(op, "the mask has no sequences by sorted offsets");
  if (!tiles->mayBeShort())
    return reject(op, "the queries are known to be whole tiles");
  if (!beginsAnywhere(op))
    return reject(op, "the keys of a tile of queries do not begin anywhere, or in several places");
  return QueryLoop{*tiles, anchor, sequence};
}

static void align(QueryLoop &queries) {
  OpBuilder b(queries.anchor);
  OnlineAttentionOp op = queries.tiles.op;
  Value array = queries.sequence.getSorted();
  if (queries.anchor->isAncestor(array.getDefiningOp()))
    array = AssumeSortedOp::create(b, queries.tiles.loop.getLoc(), array.getType(),
                                   array.getDefiningOp<AssumeSortedOp>().getSource());
  SmallVector<Value> indices;
  for (Value index : queries.sequence.getIndices())
    indices.push_back(index == op.getMask().getArgument(0) ? op.getB0() : index);
  cutIntoSegments(queries.tiles, queries.anchor, array, indices);
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
