//===- LoopNest.h - what an L1 function computes, as a value ------------------------------------------------------===//
#ifndef FLASHC_LIB_CONVERSION_FLASHTOTILE_LOOPNEST_H
#define FLASHC_LIB_CONVERSION_FLASHTOTILE_LOOPNEST_H

#include "flashc/Dialect/Flash/IR/Flash.h"
#include "flashc/Dialect/Flash/Transforms/Transforms.h"
#include "flashc/Dialect/Tile/IR/Tile.h"
#include "flashc/LaunchKernels/LaunchNest.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

namespace flashc {

/// An operand of the nest's steps: the array from which its tiles are taken, and the batch and head of a tile.
struct NestOperand {
  mlir::flash::StepOperand info;
  /// An argument of the entry function, or the delta of a backward pass (another kernel computes it first).
  mlir::Value array;
  mlir::OpFoldResult batch, head;
  mlir::RankedTensorType tile;
  bool isStreamed;
  /// The op that takes the tile from a cache. Null if the operand is a slice of the array.
  mlir::flash::CacheTileOp cache = {};

  /// Whether the operand is a matrix that a product reads. Otherwise it has one element for each position.
  bool isMatrix() const { return info.movesWith(mlir::flash::StepDim::Whole); }
  int64_t getCols() const { return tile.getShape().back(); }
  /// The number of the argument. None for delta.
  std::optional<unsigned> getArgument() const {
    auto argument = mlir::dyn_cast<mlir::BlockArgument>(array);
    return argument ? std::optional(argument.getArgNumber()) : std::nullopt;
  }
  /// The rows of a page of the operand's cache. 0 if there are no pages.
  int64_t getPageRows() const {
    mlir::flash::CacheTileOp op = cache;
    return op && op.getTable() ? mlir::cast<mlir::ShapedType>(op.getCache().getType()).getDimSize(2) : 0;
  }
  /// The type of the elements in memory. It differs from the tile's element type for a cache with scales.
  mlir::Type getStoredType() const {
    mlir::flash::CacheTileOp op = cache;
    return op ? mlir::getElementTypeOrSelf(op.getCache()) : tile.getElementType();
  }
};

/// Consecutive tiles of the streamed dimension, which have the same regions: from `begin` (inclusive) to `end`
/// (exclusive).
struct Segment {
  mlir::flash::StepOpInterface op;
  mlir::OpFoldResult begin, end;

  bool isMasked() { return op.hasMask(); }
};

/// The table of runs (flash.tile_runs) from which the segments are read, and the indices of the row that a work tile
/// reads. The table is null if the segments come from no table.
struct RunsOfSegments {
  mlir::flash::TileRunsOp table;
  mlir::SmallVector<mlir::Value, 3> place;
};

/// How a kernel visits pairs for a step whose state is a score matrix. Level L1 does not tile such a step. A CTA
/// computes one tile of the matrix, or with `isDiagonal` all tiles on a diagonal. The CTA sums over the dimensions that
/// the state lacks.
struct PairWalk {
  bool sumsBatches, sumsHeads, isDiagonal;
  /// The keys that the mask needs, if they are the same for all visits of a CTA. None if they differ between visits, or
  /// if there is no mask.
  std::optional<mlir::flash::NeededKeys> neededKeys = {};
};

/// The rows of a tile of several heads: query heads of one group times query tokens.
struct PackedShape {
  int64_t heads, tokens;
};

/// The loops of one step at level L1 (StepOpInterface), as `convert-flash-to-tile` needs them: a parallel loop over
/// batches, heads and tiles of the resident dimension, and in it loops over tiles of the streamed dimension that carry
/// the step's state. A LoopNest refers to the IR and does not change it.
struct LoopNest : LaunchNest {
  mlir::SmallVector<Segment> segments; // in order of positions, disjoint; any may be empty
  RunsOfSegments runs;
  ParallelDim batch, head, resident;
  /// The op that gives the position of a resident tile, if tiles follow packed sequences. `resident` then counts tiles.
  mlir::flash::SegmentTileOp segmentTile;
  /// The batch that keys, scores and masks have, where it is the sequence of a tile's rows (flash-pack-rows). `batch`
  /// then has the extent 1. Null elsewhere.
  mlir::Value sequence;
  mlir::SmallVector<NestOperand, 3> operands; // in the order of the step
  /// The op that takes the state after the loops (flash.finalize). Null if the state is the result.
  mlir::Operation *epilogue = nullptr;
  std::optional<PairWalk> pairs;
  /// The rows of a tile if a tile has several heads, or if it is a tile of flash-split-kv.
  std::optional<PackedShape> packed;
  mlir::Type elementType;             // the type of the elements that products multiply
  mlir::Region *score = nullptr;      // the score region of all segments
  mlir::Region *derivative = nullptr; // the score's derivative, if the step computes gradients
  mlir::Region *mask = nullptr;       // the mask region of all masked segments

  mlir::flash::StepOpInterface getStep() const { return segments.front().op; }
  std::optional<mlir::flash::Dropout> getDropout() const {
    mlir::flash::ScoresOpInterface scores = getStep().getScores();
    return scores ? scores.getDropout() : std::nullopt;
  }
  /// The operand with this name, which the step must have.
  const NestOperand &getOperand(llvm::StringRef name) const;
  /// Returns the first operand that has dimension `dim`. The step must have such an operand.
  const NestOperand &getOperand(mlir::flash::StepDim dim) const;
  /// Whether a row may see no key.
  bool mayHaveEmptyRows() const;
  /// Whether the nest is of flash-split-kv, for a decoding kernel: its tiles have the rows of one warp.
  bool isOfDecoding() const { return packed && packed->heads * packed->tokens <= mlir::tile::kWarpRows; }
};

/// Matches the nests of a module: one nest, or for a backward pass one for each step of flash-split-gradients. The
/// module must have one function, which computes the nests by the algorithm fa2. Otherwise emits an error that says
/// what was expected, and fails.
mlir::FailureOr<mlir::SmallVector<LoopNest, 1>> matchLoopNests(mlir::ModuleOp module);

} // namespace flashc

#endif // FLASHC_LIB_CONVERSION_FLASHTOTILE_LOOPNEST_H
