//===- LoopNest.h - what an L1 function computes, as a value ------------------------------------------------------===//
#ifndef FLASHC_LIB_CONVERSION_FLASHTOTILE_LOOPNEST_H
#define FLASHC_LIB_CONVERSION_FLASHTOTILE_LOOPNEST_H

#include "flashc/Dialect/Flash/IR/Flash.h"
#include "flashc/Dialect/Flash/Transforms/Transforms.h"
#include "flashc/LaunchKernels/LaunchNest.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

namespace flashc {

/// An operand of the nest's steps: which array it is a tile of, and that tile's batch and head.
struct NestOperand {
  mlir::flash::StepOperand info;
  /// An argument of the entry function, or the delta of a backward pass, which a kernel before this one computes.
  mlir::Value array;
  mlir::OpFoldResult batch, head;
  mlir::RankedTensorType tile;
  bool isStreamed;
  /// The tile of a cache that it is; null if it is a slice of the array.
  mlir::flash::CacheTileOp cache = {};

  /// Whether it has rows of elements, which a product reads; otherwise it has one element for each position.
  bool isMatrix() const { return info.movesWith(mlir::flash::StepDim::Whole); }
  int64_t getCols() const { return tile.getShape().back(); }
  /// The number of the argument; none of delta.
  std::optional<unsigned> getArgument() const {
    auto argument = mlir::dyn_cast<mlir::BlockArgument>(array);
    return argument ? std::optional(argument.getArgNumber()) : std::nullopt;
  }
  /// The rows of a page of its cache; 0: there are no pages.
  int64_t getPageRows() const {
    mlir::flash::CacheTileOp op = cache;
    return op && op.getTable() ? mlir::cast<mlir::ShapedType>(op.getCache().getType()).getDimSize(2) : 0;
  }
  /// The type of its elements in memory, which in a cache may have scales.
  mlir::Type getStoredType() const {
    mlir::flash::CacheTileOp op = cache;
    return op ? mlir::getElementTypeOrSelf(op.getCache()) : tile.getElementType();
  }
};

/// Consecutive tiles of the streamed dimension from `begin` (inclusive) to `end`, all with the same regions.
struct Segment {
  mlir::flash::StepOpInterface op;
  mlir::OpFoldResult begin, end;

  bool isMasked() { return op.hasMask(); }
};

/// The table whose runs the segments are, and its row; null if they are not.
struct RunsOfSegments {
  mlir::flash::TileRunsOp table;
  mlir::SmallVector<mlir::Value, 3> place;
};

/// Of a step that L1 does not tile, because its state is of pairs: how a kernel passes over them. A CTA has a tile of
/// pairs, or all those on a diagonal of tiles, and adds them up over what the state has one of.
struct PairWalk {
  bool sumsBatches, sumsHeads, isDiagonal;
  /// What the mask needs of the tiles in all visits, where that is known from the first one.
  std::optional<mlir::flash::NeededKeys> neededKeys = {};
};

/// Of a decoding kernel's nest (flash-split-kv): rows of a tile are query heads of one group times query tokens.
struct PackedShape {
  int64_t heads, tokens;
};

/// The loops of one step in L1 (StepOpInterface), as `convert-flash-to-tile` needs them: in parallel over batches,
/// heads and tiles of the resident dimension, and for each of those over tiles of the streamed one, with the step's
/// state carried from tile to tile. Holds references into the IR and makes none.
struct LoopNest : LaunchNest {
  mlir::SmallVector<Segment> segments; // in order of positions, disjoint; any of them may be empty
  RunsOfSegments runs;
  ParallelDim batch, head, resident;
  /// Where a resident tile lies, if they follow segments: `resident` then counts tiles.
  mlir::flash::SegmentTileOp segmentTile;
  mlir::SmallVector<NestOperand, 3> operands; // in the step's order
  /// What takes the state when the loops have ended (flash.finalize); null if the state is the result.
  mlir::Operation *epilogue = nullptr;
  std::optional<PairWalk> pairs;
  std::optional<PackedShape> packed;
  mlir::Type elementType;             // of what products read
  mlir::Region *score = nullptr;      // of all segments
  mlir::Region *derivative = nullptr; // of the score, where the step computes gradients
  mlir::Region *mask = nullptr;       // of all masked segments

  mlir::flash::StepOpInterface getStep() const { return segments.front().op; }
  std::optional<mlir::flash::Dropout> getDropout() const {
    mlir::flash::ScoresOpInterface scores = getStep().getScores();
    return scores ? scores.getDropout() : std::nullopt;
  }
  /// The operand of this name; the step has one.
  const NestOperand &getOperand(llvm::StringRef name) const;
  /// The first operand that moves with a dimension; the step has one.
  const NestOperand &getOperand(mlir::flash::StepDim dim) const;
  /// Whether a row may see nothing, for all that is known.
  bool mayHaveEmptyRows() const;
};

/// Reads the nests off a module: one, or of a backward pass one for each step of flash-split-gradients. Emits an error
/// that names what was expected and fails if the module is anything but one function that computes them with the
/// algorithm fa2.
mlir::FailureOr<mlir::SmallVector<LoopNest, 1>> matchLoopNests(mlir::ModuleOp module);

} // namespace flashc

#endif // FLASHC_LIB_CONVERSION_FLASHTOTILE_LOOPNEST_H
