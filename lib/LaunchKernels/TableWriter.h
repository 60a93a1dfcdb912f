//===- TableWriter.h - the body of a kernel that computes tables of tiles -----------------------------------------===//
// The frame of the kernel is in TableKernel.cpp; the code of a warp for one tile is in TileClasses.cpp and
// TileRuns.cpp.
//===--------------------------------------------------------------------------------------------------------------===//
#ifndef FLASHC_LIB_LAUNCHKERNELS_TABLEWRITER_H
#define FLASHC_LIB_LAUNCHKERNELS_TABLEWRITER_H

#include "KernelBody.h"
#include "flashc/Dialect/Flash/IR/TileTables.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

namespace flashc {

constexpr int64_t kTableThreads = 256, kWarps = kTableThreads / kLanes;

/// Writes the body of a kernel that computes tables of masks. CTAs have kTableThreads threads, and each warp computes
/// one tile of a table; the warps of the first table come first. An "open" tile is undecided: not known to be empty,
/// full or masked.
///
/// - flash.row_table: a tile is kTableRows rows, one for each lane.
/// - flash.tile_classes: first the warp evaluates what is known of its tile without pairs. In a flash.tile_range, lane
///   l has the positions l, l + 32, ... of the tile; then the lanes exchange minimum and maximum (redux.sync). Without
///   a tile_range a warp has several tiles if there are many, and each lane evaluates one. If a tile is still open,
///   lane l evaluates the mask for the keys l, l + 32, ... of some queries that are spread over the tile; votes find
///   whether one pair is kept and another one is cut. The CTA then evaluates all pairs of the tiles that are open even
///   so (mostly tiles whose pairs are all alike), one tile after another, each warp for its own queries (bar.red). The
///   tile's lane, or the first lane, writes the class.
/// - flash.tile_runs: in step n, lane l evaluates the streamed tile 32 n + l; by votes every lane learns which of the
///   32 tiles are masked and which are full. The first pass counts both; the second one writes each tile to its place.
///
/// Warps after the last tile do nothing. All lanes of a warp that has exchanges take part in each of them, and all
/// warps of a CTA in each barrier.
class TableWriter : public KernelBody {
public:
  /// `ops` make tables that do not read each other.
  TableWriter(mlir::gpu::GPUFuncOp kernel, KernelSignature &signature, llvm::ArrayRef<mlir::Operation *> ops)
      : KernelBody(kernel, signature), ops(ops) {}

  mlir::LogicalResult emit();

private:
  /// Returns the number of a CTA's warp among all warps. The warps of a CTA are spread along rows of tiles and across
  /// them, because open tiles, which take long, are next to each other.
  mlir::Value emitWarp(mlir::Value inCTA);
  /// Writes the table of `op`, whose first warp is number `first`. Returns the number of the op's warps.
  mlir::FailureOr<mlir::Value> emitTable(mlir::Operation *op, mlir::Value first);
  mlir::Value emitCount(llvm::ArrayRef<mlir::Value> extents);
  llvm::SmallVector<mlir::Value> emitTilePlace(mlir::Value number, llvm::ArrayRef<mlir::Value> extents);
  mlir::LogicalResult emitRowValue(mlir::flash::RowTableOp op, mlir::ValueRange place);
  mlir::LogicalResult emitClasses(mlir::flash::TileClassesOp op, mlir::Value first, llvm::ArrayRef<mlir::Value> extents,
                                  mlir::Value count);
  /// Returns the class of this lane's (or warp's) tile as far as it is known without pairs, and whether it is open;
  /// nothing after an error.
  mlir::ValueRange emitFirstLook(mlir::flash::TileClassesOp op, llvm::ArrayRef<mlir::Value> extents,
                                 mlir::Value exists);
  /// Returns whether the lane's tile is still open after some pairs of each open tile are evaluated.
  mlir::Value emitSamples(mlir::flash::TileClassesOp op, mlir::Value begin, llvm::ArrayRef<mlir::Value> extents,
                          mlir::Value isOpen);
  /// Returns the class of this lane's tile after the CTA evaluated the open tiles of warp `other`.
  mlir::Value emitOpenTiles(mlir::flash::TileClassesOp op, mlir::Value first, llvm::ArrayRef<mlir::Value> extents,
                            mlir::Value other, mlir::Value isOpen, mlir::Value visit);
  mlir::FailureOr<mlir::Value> emitTilesOfWarp();
  /// Returns the class of a tile as far as it is known without pairs; null after an error.
  mlir::Value emitKnown(mlir::flash::TileClassesOp op, mlir::ValueRange place);
  /// Returns whether a tile is still open after some of its pairs are evaluated; null after an error.
  mlir::Value emitSample(mlir::flash::TileClassesOp op, mlir::ValueRange place);
  /// Emits the minimum and maximum of a range, and maps the op's results to them in `known`, which maps its operands.
  mlir::LogicalResult emitRange(mlir::flash::TileRangeOp op, ScalarCloner &known);
  /// The tile's first query and the end of its queries, its first key, the number of all keys, and whether the tile
  /// exceeds that number.
  struct TileEnds {
    mlir::Value query, end, key, keys, exceedsKeys;
  };
  std::optional<TileEnds> getEnds(mlir::flash::TileClassesOp op, mlir::ValueRange place);
  /// Returns the class that the CTA finds by evaluating all pairs; null after an error.
  mlir::Value emitClassByPairs(mlir::flash::TileClassesOp op, mlir::ValueRange place);
  std::pair<mlir::Value, mlir::Value> emitPairs(mlir::flash::TileClassesOp op, mlir::ValueRange place,
                                                llvm::ArrayRef<mlir::Value> queries, mlir::Value key, mlir::Value keys);
  std::pair<mlir::Value, mlir::Value> emitPair(mlir::flash::TileClassesOp op, mlir::ValueRange pair, mlir::Value kept,
                                               mlir::Value cut);
  mlir::LogicalResult emitRuns(mlir::flash::TileRunsOp op, mlir::ValueRange place);
  /// The classes of the lanes' 32 streamed tiles from `first` on: whether a tile is masked or full, as a flag in its
  /// lane and as bits of all lanes.
  struct Votes {
    mlir::Value key, isMasked, isFull, masked, full;
  };
  std::optional<Votes> emitVotes(mlir::flash::TileRunsOp op, mlir::ValueRange place, mlir::Value first);
  /// Emits a loop over all streamed tiles, with two numbers as iteration arguments.
  mlir::FailureOr<mlir::scf::ForOp>
  emitPass(mlir::flash::TileRunsOp op, mlir::ValueRange place, mlir::Value end, mlir::ValueRange state,
           llvm::function_ref<std::pair<mlir::Value, mlir::Value>(const Votes &, mlir::ValueRange)> emitBody);
  /// Returns the minimum or maximum over all lanes, in each lane.
  mlir::Value emitReduce(mlir::Value value, bool isMin);
  mlir::Value emitBallot(mlir::Value condition);
  /// Returns whether a condition holds in one lane of the warp, or in one thread of the CTA.
  mlir::Value emitAnyOfWarp(mlir::Value condition);
  mlir::Value emitAnyOfCTA(mlir::Value condition);
  mlir::Value emitNot(mlir::Value condition) { return mlir::arith::XOrIOp::create(b, condition, boolean(true)); }
  mlir::Value i32(int64_t value) { return mlir::arith::ConstantOp::create(b, b.getI32IntegerAttr(value)); }

  llvm::ArrayRef<mlir::Operation *> ops;
  /// The values cloned for the table that is written; they are not visible to the other tables.
  std::optional<ScalarCloner> cloner;
  /// `warp` is the warp's number among all warps, `ownWarp` its number in its CTA; `tile` is the number of this warp's
  /// tile (or this lane's row or tile) in the table that is written; `tilesOfWarp` is the number of class tiles of a
  /// warp.
  mlir::Value warp, ownWarp, lane, tile, tilesOfWarp;
};

} // namespace flashc

#endif // FLASHC_LIB_LAUNCHKERNELS_TABLEWRITER_H
