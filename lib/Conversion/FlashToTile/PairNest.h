//===- PairNest.h - the nest of a step of pairs -------------------------------------------------------------------===//
#ifndef FLASHC_LIB_CONVERSION_FLASHTOTILE_PAIRNEST_H
#define FLASHC_LIB_CONVERSION_FLASHTOTILE_PAIRNEST_H

#include "KernelFrame.h"
#include "flashc/Runtime/GridFormula.h"

namespace flashc {

/// What a kernel is to do for a step that L1 leaves whole (StepOpInterface::isTiled): without loops, with all of its
/// operands streamed, and tiles as the schedule says. Changes the step's regions so that tiles may stick out. Emits an
/// error and fails if its sums are not added up where code says, or an operand is no argument.
mlir::FailureOr<LoopNest> matchPairNest(mlir::func::FuncOp func, mlir::flash::AccumulateGradientsOp op);

/// The schedule of such a nest, and its tiles: as `schedule`, with as many slots as fit.
Schedule choosePairSchedule(LoopNest &nest, Schedule schedule);

/// The grid. Emits an error and fails if an extent is no formula.
mlir::FailureOr<std::array<GridFormula, 3>> getPairExtents(LoopNest &nest);

/// The kernel's frame: in each visit a tile of all operands is loaded, of 64 queries for each warpgroup.
///
///   pairs        work tile (i, j, n): tile i of queries, tile j of keys; visits: the batches and heads that are added
///   up diagonals    CTA (t, h, n): the tiles whose first key is (t - q) tiles of keys behind their first query, with
///                q tiles of keys' extent in all tiles of queries; visits: the tiles of queries, and batches
class PairFrame : public KernelFrame {
public:
  using KernelFrame::KernelFrame;

private:
  /// A tile of pairs.
  struct Place {
    mlir::Value batch, head, query, key;
  };

  mlir::FailureOr<mlir::SmallVector<mlir::Value>> emitGrid() override;
  mlir::LogicalResult emitPositions() override;
  mlir::LogicalResult emitExtents();
  mlir::FailureOr<mlir::ValueRange> emitLoop(TileStep &step) override;
  mlir::LogicalResult skipUnneeded();
  void emitPairPositions();
  void emitDiagonalPositions();
  Place getPlace(mlir::Value visit);

  mlir::Value add(mlir::Value x, mlir::Value y);
  mlir::Value sub(mlir::Value x, mlir::Value y);
  mlir::Value mul(mlir::Value x, mlir::Value y);
  mlir::Value div(mlir::Value x, mlir::Value y);
  mlir::Value rem(mlir::Value x, mlir::Value y);
  mlir::Value ceilDiv(mlir::Value x, mlir::Value y);
  mlir::Value max(mlir::Value x, mlir::Value y);

  mlir::Value batches, heads, queries, keys;
  /// Of the CTA: the batch and the head, if they are not added up over; its first query and key, or of a diagonal the
  /// distance between them.
  mlir::Value ownBatch, ownHead, firstQuery, firstKey, distance;
  /// Of a diagonal: its first tile of queries, and how many tiles it has; and the visits in all.
  mlir::Value firstTile, numTiles, total;
};

} // namespace flashc

#endif // FLASHC_LIB_CONVERSION_FLASHTOTILE_PAIRNEST_H
