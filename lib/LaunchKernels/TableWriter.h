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
/// one tile of a table. The warps of the first table come first. A tile is called open as long as it is not known
/// whether the mask keeps all of its pairs, none, or some.
///
/// - flash.row_table: a tile is kTableRows rows, one for each lane.
/// - flash.tile_classes: the class of a tile is found in up to three steps.
///   1. The warp computes the class as far as it is known without evaluating pairs. In a flash.tile_range, lane l has
///      the positions l, l + 32, ... of the tile; then the lanes exchange minimum and maximum (redux.sync). Without a
///      tile_range a warp has several tiles if there are many, and each lane has one of them.
///   2. If a tile is still open, the warp samples some queries that are spread over the tile: lane l evaluates the mask
///      for these queries and the keys l, l + 32, ... Votes find whether one pair is kept and another one is cut.
///   3. If a tile is open even after that (mostly because its pairs are all alike), the whole CTA evaluates all of its
///      pairs. The CTA handles such tiles one after another; each warp has queries of its own (bar.red).
///   Then the tile's lane, or the first lane of its warp, writes the class.
/// - flash.tile_runs: in step n, lane l evaluates the streamed tile 32 n + l. By votes every lane learns which of the
///   32 tiles are masked and which are full. A first pass over the tiles counts both kinds; a second pass writes each
///   tile to its place.
///
/// Warps after the last tile do nothing. If a warp exchanges values, all of its lanes take part; all warps of a CTA
/// take part in each barrier.
class TableWriter : public KernelBody {
public:
  /// `ops` make tables, of which none reads another.
  TableWriter(mlir::gpu::GPUFuncOp kernel, KernelSignature &signature, llvm::ArrayRef<mlir::Operation *> ops)
      : KernelBody(kernel, signature), ops(ops) {}

  mlir::LogicalResult emit();

private:
  /// Returns the number, among all warps, of warp `inCTA` of this CTA. Tiles whose class takes long to find are mostly
  /// next to each other. So the tiles of a CTA's warps are far apart, both along rows of tiles and across them.
  mlir::Value emitWarp(mlir::Value inCTA);
  /// Writes the part of this warp in the table of `op`. Warp `first` is the first one of that table. Returns the number
  /// of warps that the table has.
  mlir::FailureOr<mlir::Value> emitTable(mlir::Operation *op, mlir::Value first);
  mlir::Value emitCount(llvm::ArrayRef<mlir::Value> extents);
  llvm::SmallVector<mlir::Value> emitTilePlace(mlir::Value number, llvm::ArrayRef<mlir::Value> extents);
  mlir::LogicalResult emitRowValue(mlir::flash::RowTableOp op, mlir::ValueRange place);
  mlir::LogicalResult emitClasses(mlir::flash::TileClassesOp op, mlir::Value first, llvm::ArrayRef<mlir::Value> extents,
                                  mlir::Value count);
  /// Returns two values for the tile that this lane (or this warp) has: the tile's class as far as it is known without
  /// evaluating pairs, and whether the class is still open. Returns nothing after an error.
  mlir::ValueRange emitFirstLook(mlir::flash::TileClassesOp op, llvm::ArrayRef<mlir::Value> extents,
                                 mlir::Value exists);
  /// Evaluates some pairs of each open tile of the warp. Returns whether this lane's tile is still open.
  mlir::Value emitSamples(mlir::flash::TileClassesOp op, mlir::Value begin, llvm::ArrayRef<mlir::Value> extents,
                          mlir::Value isOpen);
  /// Evaluates all pairs of the open tiles of warp `other`, with all warps of the CTA. Returns the class of this lane's
  /// tile.
  mlir::Value emitOpenTiles(mlir::flash::TileClassesOp op, mlir::Value first, llvm::ArrayRef<mlir::Value> extents,
                            mlir::Value other, mlir::Value isOpen, mlir::Value visit);
  mlir::FailureOr<mlir::Value> emitTilesOfWarp();
  /// Returns the class of a tile as far as it is known without evaluating pairs; null after an error.
  mlir::Value emitKnown(mlir::flash::TileClassesOp op, mlir::ValueRange place);
  /// Returns whether a tile is still open after some of its pairs are evaluated; null after an error.
  mlir::Value emitSample(mlir::flash::TileClassesOp op, mlir::ValueRange place);
  /// Emits the minimum and the maximum of a flash.tile_range. `known` has the values of the op's operands, and gets
  /// those of its results.
  mlir::LogicalResult emitRange(mlir::flash::TileRangeOp op, ScalarCloner &known);
  /// The first query and the first key of a tile, the end of its queries, the number of all keys, and whether the tile
  /// reaches beyond the last key.
  struct TileEnds {
    mlir::Value query, end, key, keys, exceedsKeys;
  };
  std::optional<TileEnds> getEnds(mlir::flash::TileClassesOp op, mlir::ValueRange place);
  /// Evaluates all pairs of a tile, with all warps of the CTA. Returns the class. Null after an error.
  mlir::Value emitClassByPairs(mlir::flash::TileClassesOp op, mlir::ValueRange place);
  std::pair<mlir::Value, mlir::Value> emitPairs(mlir::flash::TileClassesOp op, mlir::ValueRange place,
                                                llvm::ArrayRef<mlir::Value> queries, mlir::Value key, mlir::Value keys);
  std::pair<mlir::Value, mlir::Value> emitPair(mlir::flash::TileClassesOp op, mlir::ValueRange pair, mlir::Value kept,
                                               mlir::Value cut);
  mlir::LogicalResult emitRuns(mlir::flash::TileRunsOp op, mlir::ValueRange place);
  /// What a warp finds out in a step about 32 streamed tiles, one for each lane. `isMasked` and `isFull` are flags of
  /// the lane's tile, which begins at `key`. `masked` and `full` hold these flags of all 32 tiles as bits, in every
  /// lane.
  struct Votes {
    mlir::Value key, isMasked, isFull, masked, full;
  };
  std::optional<Votes> emitVotes(mlir::flash::TileRunsOp op, mlir::ValueRange place, mlir::Value first);
  /// Emits a loop over all streamed tiles. `state` has the initial values of its two iteration arguments.
  mlir::FailureOr<mlir::scf::ForOp>
  emitPass(mlir::flash::TileRunsOp op, mlir::ValueRange place, mlir::Value end, mlir::ValueRange state,
           llvm::function_ref<std::pair<mlir::Value, mlir::Value>(const Votes &, mlir::ValueRange)> emitBody);
  /// Returns the minimum or maximum over all lanes, in each lane.
  mlir::Value emitReduce(mlir::Value value, bool isMin);
  mlir::Value emitBallot(mlir::Value condition);
  /// Returns whether `condition` holds in any lane of the warp (emitAnyOfWarp), or in any thread of the CTA
  /// (emitAnyOfCTA).
  mlir::Value emitAnyOfWarp(mlir::Value condition);
  mlir::Value emitAnyOfCTA(mlir::Value condition);
  mlir::Value emitNot(mlir::Value condition) { return mlir::arith::XOrIOp::create(b, condition, boolean(true)); }
  mlir::Value i32(int64_t value) { return mlir::arith::ConstantOp::create(b, b.getI32IntegerAttr(value)); }

  llvm::ArrayRef<mlir::Operation *> ops;
  /// Maps values of level L1 to their clones, for the table that is written now. Other tables have mappings of their
  /// own.
  std::optional<ScalarCloner> cloner;
  /// `warp` is the number of this warp among all warps, and `ownWarp` its number in its CTA. `tile` is a number among
  /// the tiles (or rows) of the table that is written now: that of the warp's tile or, if each lane has its own tile,
  /// that of the lane's. `tilesOfWarp` is the number of tiles of flash.tile_classes that a warp has.
  mlir::Value warp, ownWarp, lane, tile, tilesOfWarp;
};

} // namespace flashc

#endif // FLASHC_LIB_LAUNCHKERNELS_TABLEWRITER_H
