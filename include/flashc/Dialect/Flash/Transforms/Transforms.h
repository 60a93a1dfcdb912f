//===- Transforms.h - the work of the flash passes, as functions --------------------------------------------------===//
//
// The passes of Passes.td are thin shells around these functions. On failure a function leaves the IR as it was,
// unless it says otherwise.
//
//===--------------------------------------------------------------------------------------------------------------===//
#ifndef FLASHC_DIALECT_FLASH_TRANSFORMS_TRANSFORMS_H
#define FLASHC_DIALECT_FLASH_TRANSFORMS_TRANSFORMS_H

#include "flashc/Analysis/MaskBounds.h"
#include "flashc/Dialect/Flash/Transforms/RangedMask.h"
#include "flashc/Dialect/Flash/Transforms/SearchedMask.h"
#include "mlir/Dialect/SCF/Transforms/TileUsingInterface.h"
#include "mlir/IR/PatternMatch.h"

namespace mlir::flash {

/// Replaces `op`, if `op` is on memrefs, by an op on tensors. Before the new op comes a bufferization.to_tensor for
/// each input, and after the new op a materialize_in_destination for each result.
void convertToTensors(RewriterBase &rewriter, WholeOpInterface op);

/// In the scores and masks inside of `root`, replaces reads of tensors: if elementwise ops compute the tensor, their
/// code takes the place of the read (flash-fuse). Returns the number of replaced reads.
int64_t fuseProducers(RewriterBase &rewriter, Operation *root);

/// Returns an op of `region`, a score or a mask, that reads memory for every key. Null if there is none.
Operation *findReadForKeys(Region &region);

/// Makes the mask of `op` compare the key's position with entries of tables, where it compared an element of a sorted
/// array for every key. A table (flash.row_table) has one entry for each query: the result of a search in the sorted
/// array (flash-tabulate-rows). Does nothing if the mask would still read an array for a key. Returns the number of
/// tables.
int64_t tabulateRows(RewriterBase &rewriter, AttentionOp op);

/// Replaces `op`, a flash op on tensors, by linalg. Fails, and leaves the IR unchanged, if `op` does not decompose.
LogicalResult decomposeFlashOp(RewriterBase &rewriter, linalg::AggregatedOpInterface op);

/// Replaces `op`, which is on tensors, by one flash.online_attention over all keys and a flash.finalize. Returns the
/// flash.online_attention. Emits an error and fails if `op` is on memrefs.
FailureOr<OnlineAttentionOp> convertToOnlineSoftmax(RewriterBase &rewriter, AttentionOp op, Normalize normalize);

/// Replaces `op`, which is on tensors, by one flash.accumulate_column_sums over all queries. With `sum_groups`, a sum
/// over each group of heads follows. Returns the flash.accumulate_column_sums. Emits an error and fails if `op` is on
/// memrefs.
FailureOr<AccumulateColumnSumsOp> convertToColumnSumsStep(RewriterBase &rewriter, ColumnSumsOp op);

/// Replaces `op`, which is on tensors, by the row sums of o * do, one flash.accumulate_gradients of all three
/// gradients, sums over groups of heads, and the rounding of the gradients. Returns the flash.accumulate_gradients.
/// Emits an error and fails if `op` is on memrefs, or has a score without its derivative.
FailureOr<AccumulateGradientsOp> convertToGradientStep(RewriterBase &rewriter, AttentionBackwardOp op);

/// Replaces `op` by sums of score gradients for each read of the captured tensor. Returns the number of reads. Emits an
/// error and fails if a read, or the score's derivative, is refused; there may then be unused code before `op`.
FailureOr<int64_t> differentiateCaptures(RewriterBase &rewriter, CapturedGradientOp op);

/// Emits a tensor of f32 zeros with `sizes`.
Value createZeros(OpBuilder &b, Location loc, ArrayRef<OpFoldResult> sizes);

/// Replaces `op`, which accumulates all gradients, by one op for the gradients of keys and values and one for the
/// gradients of queries. With `each`, the gradients of keys and those of values have an op each. Returns the new ops.
SmallVector<AccumulateGradientsOp> splitGradients(RewriterBase &rewriter, AccumulateGradientsOp op, bool each);

/// Moves the computation of delta into the loops around `op`: each iteration computes the slice that `op` reads
/// (flash-recompute-delta). Returns whether `op` reads such a slice.
bool recomputeDelta(RewriterBase &rewriter, AccumulateGradientsOp op);

/// Replaces `op` by an scf.forall over chunks of `kvChunk` keys, and then merges the states of the chunks by
/// log-sum-exp. Emits an error and fails if the chunk is not positive.
FailureOr<scf::SCFTilingResult> splitKeys(RewriterBase &rewriter, OnlineAttentionOp op, int64_t kvChunk);

/// The sizes of a decoding kernel's tiles, and the parts into which the keys of a tile of queries are cut.
struct SplitSizes {
  /// The number of rows of a tile (query heads times tokens), and the number of its keys.
  int64_t rows = 16, kv = 16;
  /// The number of equal parts of each tile's keys; if `chunk` is not 0, parts have `chunk` keys instead.
  int64_t splits = 1, chunk = 0;
};

/// Replaces `op`, which is on whole sequences, and the flash.finalize of its state by tiled loops over parts of the
/// keys (see flash-split-kv). Emits an error and fails if there is no such flash.finalize, or if a size is not
/// positive.
LogicalResult splitTiles(RewriterBase &rewriter, OnlineAttentionOp op, const SplitSizes &sizes);

/// Cuts the loops over keys in `loop`, a parallel loop that ends in a flash.finalize, into `splits` parallel parts, and
/// merges their results (see flash-split-key-loops). `isByWork`: the launch decides how long the parts are. Emits an
/// error and fails if the loops cannot be cut.
LogicalResult splitKeyLoops(RewriterBase &rewriter, scf::ForallOp loop, int64_t splits, bool isByWork = false);

/// Queries and keys per tile (FlashAttention's Br and Bc), and query heads per tile, all of one group.
struct TileSizes {
  int64_t q = 64, kv = 64, heads = 1;
};

/// Whether `op` is in a loop and is one tile of `sizes`.
bool isTile(StepOpInterface op, TileSizes sizes);

/// Replaces `op` by a tile of `sizes` in scf.for loops over batch, heads, key tiles and, innermost, query tiles.
/// Returns the tile. Emits an error and fails if a size is not positive, or if `sizes.heads` does not divide the group.
FailureOr<StepOpInterface> tileStep(RewriterBase &rewriter, StepOpInterface op, TileSizes sizes);

/// The keys [begin, end) that a tile of queries may need in one batch and head. The tile of queries begins at `query`.
/// Tiles of keys begin at 0, sizes.kv, ...; a tile of keys is needed if one of its keys is in [begin, end). `batch`,
/// `head` and `query` are placeholders, which a kernel replaces by its own values.
struct NeededKeys {
  Value batch, head, query;
  OpFoldResult begin, end;
  /// Whether `begin` or `end` depends on the batch, and whether one of them depends on the head.
  bool dependsOnBatch, dependsOnHead;
  /// Whether the mask depends on i and j by their distance alone. If so, tiles that are equally far from the diagonal
  /// are alike, except at the ends of queries and keys.
  bool isOfDistance;
};

/// Emits the needed keys before `op`, a step on whole sequences. None if `op` has no mask.
std::optional<NeededKeys> emitNeededKeys(StepOpInterface op, TileSizes sizes);

/// A mask, and the bounds that the mask gives to the loop over tiles of the streamed dimension. Both are in the view in
/// which the loop reads the mask (MaskView).
struct KeyBounds {
  std::unique_ptr<SearchedMask> searched; // owns the values of `mask` and `bounds`
  MaskSet mask;
  LoopBounds bounds;
  /// The runs of tiles that replace the bounds, if the mask is evaluated at run time.
  std::unique_ptr<RangedMask> ranged;
};

/// Returns the bounds of the loop around `op`, which must have a mask. As long as the result lives, the mask of `op` is
/// that of a `SearchedMask`. None, with a missed-optimisation remark, if the loop goes over anything but streamed
/// tiles. With `mayRunMask`, a mask whose bounds are not exact may be evaluated at run time.
std::optional<KeyBounds> computeKeyBounds(StepOpInterface op, bool mayRunMask = true);

/// The key tiles that some rows of a tile of queries need, among the key tiles that the whole tile visits. The rows
/// need the tiles from `begin` to `end`; those from `fullBegin` to `fullEnd` need no mask. `begin` <= `fullBegin` <=
/// `fullEnd` <= `end`.
struct RowBounds {
  OpFoldResult begin, fullBegin, fullEnd, end;
};

/// Whether `emitRowBounds` applies to a mask. The analysis has to understand the mask. The keys of a few rows have to
/// be one interval, whose bounds read no array and move with the rows from row to row, not in steps of several rows.
/// There may be other intervals if each of them ends at a key that is the same for all rows, and if the begin of the
/// moving interval depends on the rows.
bool hasRowBounds(Region &mask);

/// Computes the bounds that the moving interval of the mask of `op` gives to `rows` rows from `first` on, among the key
/// tiles at `begin`, `begin` + tile, ... below `end`. The rows may also need tiles of the other intervals: those before
/// `emitFixedEnd`. None if `hasRowBounds` does not hold.
std::optional<RowBounds> emitRowBounds(OpBuilder &b, OnlineAttentionOp op, OpFoldResult begin, OpFoldResult end,
                                       Value first, int64_t rows);

/// Whether `emitReadRowBounds` applies to a mask. The analysis has to understand the mask. The keys of a few rows have
/// to be one interval, whose bounds read arrays and differ between rows. For an `op` whose tiles of queries follow
/// segments, the bounds need not differ between rows: a row of such a tile may not exist, and then needs no keys.
bool hasReadRowBounds(Region &mask);
bool hasReadRowBounds(OnlineAttentionOp op);

/// The rows of a tile of queries from `first` on, `count` of them. Rows from `end` on do not exist. If `isFullInFront`,
/// the mask never cuts the first key tiles that the tile of queries visits.
struct RowRange {
  Value first;
  OpFoldResult end;
  int64_t count;
  bool isFullInFront;
};

/// Computes the bounds that the mask of `op` gives to `rows`, among the key tiles at `begin`, `begin` + tile, ... below
/// `end`. Uses the elements that the mask reads for the first and for the last row that exists. If no row exists, the
/// resulting `begin` and `end` are equal. The result may lie before the key tiles if the rows see none of them. None if
/// `hasReadRowBounds` does not hold.
std::optional<RowBounds> emitReadRowBounds(OpBuilder &b, OnlineAttentionOp op, OpFoldResult begin, OpFoldResult end,
                                           const RowRange &rows);

/// Returns the end of the last key tile, among those from `begin` to `end`, that a fixed interval needs. A fixed
/// interval is one that does not move with the rows. Null if there is none, or if `hasRowBounds` does not hold.
OpFoldResult emitFixedEnd(OpBuilder &b, OnlineAttentionOp op, OpFoldResult begin, OpFoldResult end);

/// Whether the keys of a tile of queries begin at a position that depends on the tile. If so, tiles of keys and of
/// queries should begin there (`mayMoveTiles`). The result does not depend on where they begin at the time of the call.
bool beginsAnywhere(OnlineAttentionOp op);

/// Returns how exactly the bounds fit the mask. `getName` gives the names of arrays. `ranged` is null if the mask is
/// not evaluated at run time.
MaskClass classify(const MaskSet &mask, const LoopBounds &bounds, const RangedMask *ranged,
                   llvm::function_ref<std::string(Value)> getName);

} // namespace mlir::flash

#endif // FLASHC_DIALECT_FLASH_TRANSFORMS_TRANSFORMS_H
