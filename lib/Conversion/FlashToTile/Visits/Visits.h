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

/// Numbers the tiles of a nest's segments, so that one loop over visits takes the place of L1's loops over keys. Those
/// that need no mask are one interval of the numbers:
///
///   one run of keys, one run of full tiles in it        several of either
///   keys       | masked | full | masked |               | masked | full |   | masked | full |   | masked |
///   visits     |   2    |   1  |   0    |               |   2    |   4  |   |   1    |   3  |   |   0    |
///
/// Where CTAs add to the streamed tiles that they pass, they do not come to one at the same time: one run of tiles runs
/// with the positions, from the diagonal on; and if all CTAs have the same run, each begins at another one of its full
/// tiles, and goes round.
///
/// On the left the numbers run with the keys, backwards if some tiles are masked: the masked tiles at the end (the
/// diagonal) come first, and CTAs that work on the same keys at the same time are more likely to share them in L2. On
/// the right the masked tiles come first, then the full ones, each from the last key to the first; which segment a
/// visit lies in decides a chain of selects. All masked tiles are then in one loop: code does not grow with the number
/// of segments. Of a table (flash.tile_runs) the visits are a list, masked ones first; see VisitsRow.
///
/// With own rows (own-keys) a warpgroup's visits must follow on each other. Then the visits of several runs are those
/// of the last run, which moves with the rows, backwards; and in the midst of them, where all warpgroups are on their
/// way, those of the others:
///
///   keys       | masked |   | masked |    full    | masked |
///   visits     |   2    |   |  6, 5  |    4, 3    |  1, 0  |
class Visits {
public:
  /// Emits what is the same for all visits. With own-keys only those of the unit's rows are between begin and end, and
  /// few others, where the mask lets that be known: by itself (flash::emitRowBounds),
  /// or, if there is to be a list for it, by arrays (flash::emitReadRowBounds).
  static mlir::FailureOr<Visits> emit(KernelFrame &frame);

  /// `total` visits, all of which are masked, and whose positions the caller knows.
  static Visits allMasked(mlir::Value total) {
    Visits visits;
    visits.total = total, visits.isMasked = true, visits.isFull = false;
    return visits;
  }

  /// Of a loop over positions: visits are these, and all are masked if there is a mask.
  static Visits ofPositions(bool isMasked) {
    Visits visits;
    visits.arePositions = true, visits.isMasked = isMasked, visits.isFull = false;
    return visits;
  }

  /// At least one: without tiles, one is visited all the same, masked as a whole. The pipeline needs a first one.
  mlir::Value getTotal() const { return total; }
  /// How many tiles there are; null where that is not counted.
  mlir::Value getCount() const { return count; }
  /// The visits of a warpgroup, if they are its own and not all; see tile.own_visits.
  mlir::tile::OwnVisitsOp getOwn() const { return own; }
  /// Whether some visits are masked, and whether some are not.
  bool hasMask() const { return isMasked; }
  bool hasFull() const { return isFull; }
  /// Whether keys are read from a table.
  bool isInTable() const { return table != nullptr; }
  /// Whether a visit is masked; if some are and some are not.
  mlir::Value emitIsMasked(mlir::ImplicitLocOpBuilder &b, mlir::Value visit) const;
  /// The first position of a visit in the streamed dimension.
  mlir::Value emitPosition(mlir::ImplicitLocOpBuilder &b, mlir::Value visit) const;

private:
  class Emitter;
  /// The visits from `begin` on, until another piece begins: visit u is the tile of the key `key - u * tile`, or plus.
  struct Piece {
    mlir::Value begin, key;
  };

  mlir::Value emitKeyOfTable(mlir::ImplicitLocOpBuilder &b, mlir::Value visit) const;

  int64_t tile;
  mlir::Value count, total, fullBegin, fullEnd;
  /// The number of full visits that a CTA's first one is behind that of the first tile; null: none.
  mlir::Value rotation;
  mlir::tile::OwnVisitsOp own;
  bool isMasked, isFull, isBackwards, arePositions = false;
  /// In the order of visits; one run of keys is one masked piece, and all pieces among own visits are. With pieces of
  /// both kinds `emitIsMasked` chooses.
  llvm::SmallVector<Piece> masked, full;
  /// If the visits lie in a table (VisitsRow): that, and where its row begins.
  mlir::Value table, row;
};

} // namespace flashc

#endif // FLASHC_LIB_CONVERSION_FLASHTOTILE_VISITS_H
