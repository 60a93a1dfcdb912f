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

/// Replaces `op`, if it is on memrefs, by one on tensors between bufferization.to_tensor and
/// materialize_in_destination.
void convertToTensors(RewriterBase &rewriter, WholeOpInterface op);

/// Computes what elementwise ops compute where the scores and masks inside `root` read it. Returns how many reads
/// became code.
int64_t fuseProducers(RewriterBase &rewriter, Operation *root);

/// An op of a score or mask region that reads memory for every key, or null.
Operation *findReadForKeys(Region &region);

/// Has what the mask of `op` reads for every key replaced by searches that depend on the query, and these computed once
/// for every query in front of `op`, if the mask then reads nothing for a key. Returns how many tables that takes.
int64_t tabulateRows(RewriterBase &rewriter, AttentionOp op);

/// Replaces a flash op on tensors by linalg. Fails, with the IR unchanged, if it does not decompose.
LogicalResult decomposeFlashOp(RewriterBase &rewriter, linalg::AggregatedOpInterface op);

/// Replaces `op`, on tensors, by one flash.online_attention over all keys and a flash.finalize; returns the former.
/// Emits an error and fails if `op` is on memrefs.
FailureOr<OnlineAttentionOp> convertToOnlineSoftmax(RewriterBase &rewriter, AttentionOp op, Normalize normalize);

/// Replaces `op`, on tensors, by one flash.accumulate_column_sums over all queries, and sums over groups if it has
/// them; returns the former. Emits an error and fails if `op` is on memrefs.
FailureOr<AccumulateColumnSumsOp> convertToColumnSumsStep(RewriterBase &rewriter, ColumnSumsOp op);

/// Replaces `op`, on tensors, by the row sums of o and do, one flash.accumulate_gradients of all three gradients, sums
/// over groups and the gradients' rounding; returns the step. Emits an error and fails if `op` is on memrefs, or has a
/// score without its derivative.
FailureOr<AccumulateGradientsOp> convertToGradientStep(RewriterBase &rewriter, AttentionBackwardOp op);

/// Replaces `op` by sums of score gradients for each read of the captured tensor; returns how many reads there are.
/// Emits an error and fails, with code in front of the op that nothing uses, if a read, or the score's derivative, is
/// refused.
FailureOr<int64_t> differentiateCaptures(RewriterBase &rewriter, CapturedGradientOp op);

/// Zeros of f32.
Value createZeros(OpBuilder &b, Location loc, ArrayRef<OpFoldResult> sizes);

/// Replaces `op`, which accumulates all gradients, by one that accumulates those of keys and values, or with `each` by
/// one for either, and one for those of queries; returns them.
SmallVector<AccumulateGradientsOp> splitGradients(RewriterBase &rewriter, AccumulateGradientsOp op, bool each);

/// Computes the slice of delta that `op` reads where it reads it. Returns whether there is such a slice.
bool recomputeDelta(RewriterBase &rewriter, AccumulateGradientsOp op);

/// Splits the keys of `op` into chunks of `kvChunk`, folded side by side in an scf.forall and merged by log-sum-exp,
/// and replaces it. Emits an error and fails if the chunk is not positive.
FailureOr<scf::SCFTilingResult> splitKeys(RewriterBase &rewriter, OnlineAttentionOp op, int64_t kvChunk);

/// The tiles of a decoding kernel, and how many parts their keys have.
struct SplitSizes {
  /// Rows of a tile, which are query heads times tokens, and its keys.
  int64_t rows = 16, kv = 16;
  /// Equal parts of each tile's keys; or with `chunk` parts of so many keys.
  int64_t splits = 1, chunk = 0;
};

/// Replaces `op`, on whole sequences, and the flash.finalize of its state by tiled loops over parts of the keys
/// (flash-split-kv says how). Emits an error and fails if there is no such finalize, or a size is not positive.
LogicalResult splitTiles(RewriterBase &rewriter, OnlineAttentionOp op, const SplitSizes &sizes);

/// Cuts the loops over keys in `loop`, a parallel loop that ends in a flash.finalize, into `splits` parts side by side,
/// and merges their results (flash-split-key-loops says how). Emits an error and fails where it refuses.
LogicalResult splitKeyLoops(RewriterBase &rewriter, scf::ForallOp loop, int64_t splits);

/// Queries and keys per tile (FlashAttention's Br and Bc).
struct TileSizes {
  int64_t q = 64, kv = 64;
};

/// Whether `op` is one tile of `sizes`, in a loop.
bool isTile(StepOpInterface op, TileSizes sizes);

/// Tiles `op` by one head and `sizes`, in scf.for loops over batch, head, key tiles, query tiles (innermost), and
/// replaces it; returns its tile. Emits an error and fails if a size is not positive.
FailureOr<StepOpInterface> tileStep(RewriterBase &rewriter, StepOpInterface op, TileSizes sizes);

/// The tiles of keys that a tile of queries from `query` on may need, of one batch and head: those at 0, sizes.kv, ...
/// that have a key from `begin` to `end`. The three positions are values that stand for any: code of a kernel has its
/// own in their place.
struct NeededKeys {
  Value batch, head, query;
  OpFoldResult begin, end;
  /// Whether begin or end hang on the batch, or the head.
  bool dependsOnBatch, dependsOnHead;
  /// Whether the mask does on i and j by their distance alone, so that what holds for one tile holds for all equally
  /// far from the diagonal, as far as there are queries and keys.
  bool isOfDistance;
};

/// Computes them in front of `op`, a step on whole sequences; none without a mask.
std::optional<NeededKeys> emitNeededKeys(StepOpInterface op, TileSizes sizes);

/// A mask, and the bounds that it gives to the loop over tiles of the streamed dimension, in that loop's view.
struct KeyBounds {
  std::unique_ptr<SearchedMask> searched; // whose values the others have
  MaskSet mask;
  LoopBounds bounds;
  /// In place of the bounds, where they leave tiles open on which the mask is run.
  std::unique_ptr<RangedMask> ranged;
};

/// The bounds of the loop around `op`, which has a mask, and that as a `SearchedMask` while they live; none, and a
/// missed-optimisation remark, where it is not a loop over streamed tiles that does nothing else.
/// `mayRunMask`: what the bounds leave open may become runs of tiles.
std::optional<KeyBounds> computeKeyBounds(StepOpInterface op, bool mayRunMask = true);

/// Key tiles that some rows of a tile of queries need, as bounds among those that the whole tile visits: `begin` to
/// `end`, and from `fullBegin` to `fullEnd` these rows need no mask. `begin` <= `fullBegin` <= `fullEnd` <= `end`.
struct RowBounds {
  OpFoldResult begin, fullBegin, fullEnd, end;
};

/// Whether `emitRowBounds` has something to say of a mask: it is understood, the keys of a few rows are one interval,
/// which moves with the rows (and not by the steps of chunks), and its bounds read no array. There may be other
/// intervals if they end at keys that are the same for all rows, and the one that moves begins where the rows say.
bool hasRowBounds(Region &mask);

/// Computes the bounds for `rows` rows from `first` on by the mask of `op`, among the tiles at `begin`, `begin` + tile,
/// ... below `end`: those of the interval that moves, so that the tiles in front of `emitFixedEnd` may be needed, too.
/// None where `hasRowBounds` does not hold.
std::optional<RowBounds> emitRowBounds(OpBuilder &b, OnlineAttentionOp op, OpFoldResult begin, OpFoldResult end,
                                       Value first, int64_t rows);

/// Whether `emitReadRowBounds` has something to say of a mask: it is understood, the keys of a few rows are one
/// interval, whose bounds read arrays, and other rows have others. Where tiles of queries follow segments (`op`), rows
/// of a tile may be missing, and have none.
bool hasReadRowBounds(Region &mask);
bool hasReadRowBounds(OnlineAttentionOp op);

/// `count` rows from `first` on, of which those from `end` on do not exist. If tiles are full in front, the first ones
/// of the tile of queries whose rows they are are never cut.
struct RowRange {
  Value first;
  OpFoldResult end;
  int64_t count;
  bool isFullInFront;
};

/// Computes the bounds for some rows by the mask of `op`, among the tiles at `begin`, `begin` + tile, ... below `end`,
/// by what arrays say of the first and the last one that exists. Without one `begin` and `end` are the same. They may
/// lie in front of the tiles, where the rows see none of these. None where `hasReadRowBounds` does not hold.
std::optional<RowBounds> emitReadRowBounds(OpBuilder &b, OnlineAttentionOp op, OpFoldResult begin, OpFoldResult end,
                                           const RowRange &rows);

/// Where the tiles end that the intervals need which do not move with the rows, among those from `begin` to `end`. Null
/// where there is no such interval, or `hasRowBounds` does not hold.
OpFoldResult emitFixedEnd(OpBuilder &b, OnlineAttentionOp op, OpFoldResult begin, OpFoldResult end);

/// Whether the keys of a tile of queries begin at a position of its own, so that tiles of both had better begin there
/// (`mayMoveTiles`): whatever is known of where tiles of queries begin now.
bool beginsAnywhere(OnlineAttentionOp op);

/// The class of a mask, with arrays called as `getName` says. `ranged` may be null.
MaskClass classify(const MaskSet &mask, const LoopBounds &bounds, const RangedMask *ranged,
                   llvm::function_ref<std::string(Value)> getName);

} // namespace mlir::flash

#endif // FLASHC_DIALECT_FLASH_TRANSFORMS_TRANSFORMS_H
