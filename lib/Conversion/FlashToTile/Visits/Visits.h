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

/// Numbers the tiles of a nest's segments, so that one loop over visits replaces level L1's loops over keys. The visits
/// without a mask are one interval of the numbers:
///
///   one run of keys, one run of full tiles in it        several runs of either
///   keys       | masked | full | masked |               | masked | full |   | masked | full |   | masked |
///   visits     |   2    |   1  |   0    |               |   2    |   4  |   |   1    |   3  |   |   0    |
///
/// On the left, numbers ascend with the keys if no tile is masked, and otherwise descend: the masked tiles at the end
/// (the diagonal) then come first, and CTAs that work on the same keys at the same time are more likely to share them
/// in the L2 cache. On the right, masked tiles come first, then full ones, each from the last key to the first. A chain
/// of selects finds the segment of a visit. All masked tiles are then in one loop, so that code does not grow with the
/// number of segments. If runs are read from a table (flash.tile_runs), the visits are a list, masked ones first; see
/// VisitsRow.
///
/// If CTAs add to the streamed tiles that they visit, they should not reach the same tile at the same time. The visits
/// of one run then ascend from the diagonal on. If all CTAs have the same run, each begins at another one of its full
/// tiles, and wraps around.
///
/// With own-keys, each warpgroup leaves out visits that its own rows do not need, and the visits that it makes must be
/// consecutive. If there are several runs, the last run moves with the rows, and its tiles are visited in descending
/// order. The visits of the other runs come among those of the last run, at a place where all warpgroups are within the
/// last run:
///
///   keys       | masked |   | masked |    full    | masked |
///   visits     |   2    |   |  6, 5  |    4, 3    |  1, 0  |
class Visits {
public:
  /// Emits values that are the same for all visits. With own-keys, also emits an interval of visits (`getOwn`), which
  /// contains all visits that the unit's rows need, and few others. For this the mask must have bounds that read no
  /// array (flash::emitRowBounds). With a work list, bounds that read arrays (flash::emitReadRowBounds) will do, too.
  static mlir::FailureOr<Visits> emit(KernelFrame &frame);

  /// Returns `total` visits, all of which are masked. The caller knows their positions.
  static Visits allMasked(mlir::Value total) {
    Visits visits;
    visits.total = total, visits.isMasked = true, visits.isFull = false;
    return visits;
  }

  /// Returns the visits of a loop over positions. The number of a visit is its position. All visits are masked if there
  /// is a mask.
  static Visits ofPositions(bool isMasked) {
    Visits visits;
    visits.arePositions = true, visits.isMasked = isMasked, visits.isFull = false;
    return visits;
  }

  /// Returns the number of visits. It is at least one, since the pipeline needs a first visit: without tiles, one tile
  /// is visited in which all elements are masked.
  mlir::Value getTotal() const { return total; }
  /// Returns the number of tiles. Null if the tiles are not counted.
  mlir::Value getCount() const { return count; }
  /// Returns the visits of a warpgroup that has a key range of its own (tile.own_visits). Null if all warpgroups make
  /// all visits.
  mlir::tile::OwnVisitsOp getOwn() const { return own; }
  /// Whether some visits are masked, and whether some are not.
  bool hasMask() const { return isMasked; }
  bool hasFull() const { return isFull; }
  /// Whether the position of each visit is read from a table.
  bool isInTable() const { return table != nullptr; }
  /// Emits whether a visit is masked. Only if some visits are masked and some are not.
  mlir::Value emitIsMasked(mlir::ImplicitLocOpBuilder &b, mlir::Value visit) const;
  /// Emits the first position of a visit in the streamed dimension.
  mlir::Value emitPosition(mlir::ImplicitLocOpBuilder &b, mlir::Value visit) const;

private:
  class Emitter;
  /// The visits from number `begin` until the next piece begins. Visit u, counted from the first visit of all pieces,
  /// is the tile at `key - u * tile`, or at `key + u * tile`.
  struct Piece {
    mlir::Value begin, key;
  };

  mlir::Value emitKeyOfTable(mlir::ImplicitLocOpBuilder &b, mlir::Value visit) const;

  int64_t tile;
  mlir::Value count, total, fullBegin, fullEnd;
  /// The number of full visits by which the CTA's full visits are rotated. Null if they are not rotated.
  mlir::Value rotation;
  mlir::tile::OwnVisitsOp own;
  bool isMasked, isFull, isBackwards, arePositions = false;
  /// Pieces in the order of visits. If keys are one run, `masked` has a single piece, for all visits. With own-keys and
  /// several runs, `masked` has all pieces. If both lists have pieces, `emitIsMasked` says which list a visit's piece
  /// is in.
  llvm::SmallVector<Piece> masked, full;
  /// The table of the visits (VisitsRow), and where its row for this work tile begins. Null if visits are in no table.
  mlir::Value table, row;
};

} // namespace flashc

#endif // FLASHC_LIB_CONVERSION_FLASHTOTILE_VISITS_H
