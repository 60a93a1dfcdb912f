//===- Visits.h - the key tiles of a query tile, in the order of visits -------------------------------------------===//
#ifndef FLASHC_LIB_CONVERSION_FLASHTOTILE_VISITS_H
#define FLASHC_LIB_CONVERSION_FLASHTOTILE_VISITS_H

#include "LoopNest.h"
#include "Visits/RunsTable.h"
#include "flashc/Conversion/HostToKernel/ScalarCloner.h"
#include "flashc/Dialect/Tile/IR/Tile.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"

namespace flashc {

class KernelFrame;

/// Numbers the tiles of a nest's segments, so that one loop over visits replaces L1's loops over keys. The visits
/// without a mask are one interval of the numbers:
///
///   one run of keys, one run of full tiles in it        several runs of either
///   keys       | masked | full | masked |               | masked | full |   | masked | full |   | masked |
///   visits     |   2    |   1  |   0    |               |   2    |   4  |   |   1    |   3  |   |   0    |
///
/// On the left, numbers ascend with the keys, or descend if some tiles are masked: the masked tiles at the end (the
/// diagonal) come first, and CTAs that work on the same keys at the same time are more likely to share them in L2. On
/// the right, masked tiles come first, then full ones, each from the last key to the first; a chain of selects finds
/// the segment of a visit. All masked tiles are then in one loop, so that code does not grow with the number of
/// segments. For a table (flash.tile_runs) the visits are a list, masked ones first; see VisitsRow.
///
/// If CTAs add to the streamed tiles that they visit, they should not reach the same tile at the same time: one run of
/// tiles ascends from the diagonal on; and if all CTAs have the same run, each begins at another one of its full tiles,
/// and wraps around.
///
/// With own-keys the visits of a warpgroup must be consecutive. The visits of several runs are then those of the last
/// run, which moves with the rows, in descending order; and, at a place where all warpgroups are within their last run,
/// those of the other runs:
///
///   keys       | masked |   | masked |    full    | masked |
///   visits     |   2    |   |  6, 5  |    4, 3    |  1, 0  |
class Visits {
public:
  /// Emits values that are the same for all visits. With own-keys, only visits of the unit's rows, and few others, are
  /// between begin and end, if the mask has bounds for them: bounds that read no array (flash::emitRowBounds), or, for
  /// a work list, bounds that read arrays (flash::emitReadRowBounds).
  static mlir::FailureOr<Visits> emit(KernelFrame &frame);

  /// `total` visits, all of which are masked. The caller knows their positions.
  static Visits allMasked(mlir::Value total) {
    Visits visits;
    visits.total = total, visits.isMasked = true, visits.isFull = false;
    return visits;
  }

  /// Visits of a loop over positions, which are the positions; all are masked if there is a mask.
  static Visits ofPositions(bool isMasked) {
    Visits visits;
    visits.arePositions = true, visits.isMasked = isMasked, visits.isFull = false;
    return visits;
  }

  /// The number of visits, at least one: without tiles, one tile is visited that is masked as a whole. The pipeline
  /// needs a first visit.
  mlir::Value getTotal() const { return total; }
  /// The number of tiles. Null if it is not counted.
  mlir::Value getCount() const { return count; }
  /// The visits of a warpgroup that has a key range of its own (tile.own_visits). Null if all warpgroups make all
  /// visits.
  mlir::tile::OwnVisitsOp getOwn() const { return own; }
  /// Whether some visits are masked, and whether some are not.
  bool hasMask() const { return isMasked; }
  bool hasFull() const { return isFull; }
  /// Whether keys are read from a table.
  bool isInTable() const { return table != nullptr; }
  /// Emits whether a visit is masked, if some visits are and some are not.
  mlir::Value emitIsMasked(mlir::ImplicitLocOpBuilder &b, mlir::Value visit) const;
  /// Emits the first position of a visit in the streamed dimension.
  mlir::Value emitPosition(mlir::ImplicitLocOpBuilder &b, mlir::Value visit) const;

private:
  class Emitter;
  /// Visits from `begin` on, until the next piece begins: visit u is the tile of key `key - u * tile`, or `key + u *
  /// tile`.
  struct Piece {
    mlir::Value begin, key;
  };

  mlir::Value emitKeyOfTable(mlir::ImplicitLocOpBuilder &b, mlir::Value visit) const;

  int64_t tile;
  mlir::Value count, total, fullBegin, fullEnd;
  /// The number of full visits by which a CTA's first visit is shifted. Null: none.
  mlir::Value rotation;
  mlir::tile::OwnVisitsOp own;
  bool isMasked, isFull, isBackwards, arePositions = false;
  /// Pieces in the order of visits. One run of keys is one masked piece, and with own-keys all pieces are masked. If
  /// there are pieces of both kinds, `emitIsMasked` chooses.
  llvm::SmallVector<Piece> masked, full;
  /// The table of the visits (VisitsRow) and the beginning of its row. Null if visits are in no table.
  mlir::Value table, row;
};

} // namespace flashc

#endif // FLASHC_LIB_CONVERSION_FLASHTOTILE_VISITS_H
