//===- TableWriter.h - the body of a kernel that computes tables of tiles -----------------------------------------===//
//
// The frame is TableKernel.cpp; what a warp does for a tile is TileClasses.cpp and TileRuns.cpp.
//
//===--------------------------------------------------------------------------------------------------------------===//
#ifndef FLASHC_LIB_LAUNCHKERNELS_TABLEWRITER_H
#define FLASHC_LIB_LAUNCHKERNELS_TABLEWRITER_H

#include "KernelBody.h"
#include "flashc/Dialect/Flash/IR/TileTables.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

namespace flashc {

constexpr int64_t kTableThreads = 256, kWarps = kTableThreads / kLanes;

/// Writes the body of a kernel whose CTAs have kTableThreads threads, and whose warps compute a tile of a table each,
/// those of one table behind those of another:
///
///   flash.row_table     a tile is kTableRows rows; each lane computes one.
///   flash.tile_classes  first what is known of the tile. There, of a flash.tile_range, lane l of 32 has the positions
///   l,
///                       l + 32, ...; then the lanes exchange what they have (redux.sync). Without one a warp has more
///                       tiles where there are many, and each lane looks at one. If that leaves a tile open,
///                       lane l has the keys l, l + 32, ... of it, of some queries that lie apart; votes find whether
///                       one pair is kept and another one is not. What is open then, mostly tiles of which all pairs
///                       are alike, the CTA looks at whole, a tile after the other, each warp at queries of its own
///                       (bar.red). The tile's lane, or the first one, writes.
///   flash.tile_runs     lane l looks at the streamed tile 32 n + l, in steps n; by a vote every lane learns which of
///   the
///                       32 are visited with the mask, and which are full: first how many there are, then where each
///                       has its place.
///
/// Warps beyond the last tile have nothing to do; in those with exchanges all lanes meet every one, and all warps every
/// barrier.
class TableWriter : public KernelBody {
public:
  /// The ops make tables that do not read each other.
  TableWriter(mlir::gpu::GPUFuncOp kernel, KernelSignature &signature, llvm::ArrayRef<mlir::Operation *> ops)
      : KernelBody(kernel, signature), ops(ops) {}

  mlir::LogicalResult emit();

private:
  /// The number of a CTA's warp among all. Those of one CTA lie apart, along rows of tiles and across them: what takes
  /// long, open tiles, is neighbours.
  mlir::Value emitWarp(mlir::Value inCTA);
  /// `first` is the first of the op's warps; returns how many it has.
  mlir::FailureOr<mlir::Value> emitTable(mlir::Operation *op, mlir::Value first);
  mlir::Value emitCount(llvm::ArrayRef<mlir::Value> extents);
  llvm::SmallVector<mlir::Value> emitTilePlace(mlir::Value number, llvm::ArrayRef<mlir::Value> extents);
  mlir::LogicalResult emitRowValue(mlir::flash::RowTableOp op, mlir::ValueRange place);
  mlir::LogicalResult emitClasses(mlir::flash::TileClassesOp op, mlir::Value first, llvm::ArrayRef<mlir::Value> extents,
                                  mlir::Value count);
  /// The class of this lane's tile, or of the warp's, and whether its pairs must be looked at; none after an error.
  mlir::ValueRange emitFirstLook(mlir::flash::TileClassesOp op, llvm::ArrayRef<mlir::Value> extents,
                                 mlir::Value exists);
  /// Whether some pairs of the tiles that are open leave them open.
  mlir::Value emitSamples(mlir::flash::TileClassesOp op, mlir::Value begin, llvm::ArrayRef<mlir::Value> extents,
                          mlir::Value isOpen);
  /// The class of this lane's tile when the CTA has looked at those of warp `other` that are open.
  mlir::Value emitOpenTiles(mlir::flash::TileClassesOp op, mlir::Value first, llvm::ArrayRef<mlir::Value> extents,
                            mlir::Value other, mlir::Value isOpen, mlir::Value visit);
  mlir::FailureOr<mlir::Value> emitTilesOfWarp();
  /// What is known of a tile without its pairs; null after an error.
  mlir::Value emitKnown(mlir::flash::TileClassesOp op, mlir::ValueRange place);
  /// Whether looking at some pairs leaves it open; null after an error.
  mlir::Value emitSample(mlir::flash::TileClassesOp op, mlir::ValueRange place);
  /// Maps its results in `known`, which has its operands.
  mlir::LogicalResult emitRange(mlir::flash::TileRangeOp op, ScalarCloner &known);
  /// The first query and the end of them, the first key and how many there are in all, and whether some of the tile's
  /// do not exist.
  struct TileEnds {
    mlir::Value query, end, key, keys, sticksOut;
  };
  std::optional<TileEnds> getEnds(mlir::flash::TileClassesOp op, mlir::ValueRange place);
  /// The class that the CTA finds; null after an error.
  mlir::Value emitClassByPairs(mlir::flash::TileClassesOp op, mlir::ValueRange place);
  std::pair<mlir::Value, mlir::Value> emitPairs(mlir::flash::TileClassesOp op, mlir::ValueRange place,
                                                llvm::ArrayRef<mlir::Value> queries, mlir::Value key, mlir::Value keys);
  std::pair<mlir::Value, mlir::Value> emitPair(mlir::flash::TileClassesOp op, mlir::ValueRange pair, mlir::Value kept,
                                               mlir::Value cut);
  mlir::LogicalResult emitRuns(mlir::flash::TileRunsOp op, mlir::ValueRange place);
  /// What lanes know of their streamed tiles, of the 32 from `first` on: whether a tile is visited with the mask, or
  /// full, as flags of the lane and as bits of all lanes.
  struct Votes {
    mlir::Value key, isMasked, isFull, masked, full;
  };
  std::optional<Votes> emitVotes(mlir::flash::TileRunsOp op, mlir::ValueRange place, mlir::Value first);
  /// Passes over all streamed tiles, with state of two numbers.
  mlir::FailureOr<mlir::scf::ForOp>
  emitPass(mlir::flash::TileRunsOp op, mlir::ValueRange place, mlir::Value end, mlir::ValueRange state,
           llvm::function_ref<std::pair<mlir::Value, mlir::Value>(const Votes &, mlir::ValueRange)> emitBody);
  /// The same value in all lanes: the least or the greatest of theirs.
  mlir::Value emitReduce(mlir::Value value, bool isMin);
  mlir::Value emitBallot(mlir::Value condition);
  /// Whether it holds in one lane of the warp, or in one thread of the CTA.
  mlir::Value emitAnyOfWarp(mlir::Value condition);
  mlir::Value emitAnyOfCTA(mlir::Value condition);
  mlir::Value emitNot(mlir::Value condition) {
    return mlir::arith::XOrIOp::create(b, condition, mlir::arith::ConstantOp::create(b, b.getBoolAttr(true)));
  }
  mlir::Value i32(int64_t value) { return mlir::arith::ConstantOp::create(b, b.getI32IntegerAttr(value)); }

  llvm::ArrayRef<mlir::Operation *> ops;
  /// For the table that is written: what it copies is seen there only.
  std::optional<ScalarCloner> cloner;
  /// `tile` is the number of this warp's tile in the table that is written, or of this lane's row or tile; `ownWarp`
  /// the warp's number in its CTA; `tilesOfWarp` how many tiles of classes a warp has.
  mlir::Value warp, ownWarp, lane, tile, tilesOfWarp;
};

} // namespace flashc

#endif // FLASHC_LIB_LAUNCHKERNELS_TABLEWRITER_H
