//===- MaskBounds.h - which tiles a mask keeps --------------------------------------------------------------------===//
// Computes ranges of tiles from a mask that is read as unions of conjunctions (`MaskSet`): the tiles that hold a kept
// pair (query, key), and the tiles that hold a pair that is not kept. The functions here create no IR;
// `flash-bound-loops` creates it from a `LoopBounds`.
//===--------------------------------------------------------------------------------------------------------------===//
#ifndef FLASHC_ANALYSIS_MASKBOUNDS_H
#define FLASHC_ANALYSIS_MASKBOUNDS_H

#include "flashc/Analysis/MaskProver.h"
#include "mlir/IR/AffineExpr.h"

namespace mlir::flash {

/// The loop that bounds are computed for. In the primal view the loop runs over tiles of keys, for one tile of queries.
/// In the dual view (`MaskView::Dual`) it runs over tiles of queries, for one tile of keys. The bounds are then
/// computed as in the primal view for the mask with i and j exchanged: i is the key, and j the query. The "other
/// direction" is the one that the loop does not run over; its tile stays the same in all iterations.
struct MaskLoop {
  MaskView view = MaskView::Primal;
  int64_t tileSize = 0;
  int64_t otherTileSize = 0;            // the upper bound of `count`
  std::optional<LinearExpr> begin, end; // bounds of the loop
  std::optional<LinearExpr> count;      // number of positions in the other direction's tile
  std::optional<LinearExpr> from, to;   // the other direction has tiles at from, from + otherTileSize, ... < to
  bool isMoved = false;                 // tiles begin at the first position that may be kept; see mayMoveTiles
};

/// The tiles from max(begin) on, below min(end). If one of the `conditions` or `rooms` is negative, the interval is
/// empty. An empty list stands for the loop's own bound. Each bound is the loop's begin plus a multiple of the tile
/// size. But if tiles are moved, bounds are positions: the first tile begins at or after max(begin), and the last tile
/// reaches min(end).
struct TileInterval {
  SmallVector<AffineExpr> begin, end, conditions;
  /// Each of the `rooms` limits the interval to (room + 1) tiles: its end becomes the minimum of the end and begin +
  /// (room + 1) tiles. If a room is negative, this minimum makes the interval empty. A select on the sign of the room
  /// would do so, too, but the minimum is known to be a multiple of the tile size.
  SmallVector<AffineExpr> rooms;
  /// For proofs: the bounds as numbers of tiles from the loop's begin (empty lists if tiles are moved), and the
  /// conditions together with the rooms.
  SmallVector<MaskExpr> beginTiles, endTiles, conditionExprs;
  bool isExact = true;       // each tile holds a kept pair (for a kept interval) or a cut pair (for a cut interval)
  bool mayHaveGaps = false;  // not exact: a key that lies between the keys of two queries may be seen by no query
  bool isEverything = false; // proven to be all tiles of the loop; tried only if the mask has opaque parts

  bool isPrefix() const { return begin.empty(); }
  bool isSuffix() const { return end.empty(); }
};

/// A value that the expressions of bounds use. If it depends on the query, `at` is the query for which it is taken.
struct CapturedValue {
  Value value;
  MaskSpace::At at;
};

/// The tiles that the loop has to visit, and those that it has to mask, for one tile of the other direction. Without
/// these bounds the loop visits the tiles at begin, begin + tile, ... below end. A tile outside all `kept` intervals
/// has no kept pair. A tile outside all `cut` intervals has only kept pairs, except for the last tile if it exceeds the
/// loop's end.
struct LoopBounds {
  /// The symbols of the expressions: the loop's begin and end; the first position and the number of positions of the
  /// other direction's tile; and from FirstCaptured on, the elements of `captured`.
  enum Symbol : unsigned { Begin, End, First, Count, FirstCaptured };

  std::vector<TileInterval> kept, cut;
  SmallVector<CapturedValue> captured;
  SmallVector<MaskExpr> facts; // constraints that hold where the loop runs
  MaskExpr begin, end;         // bounds of the loop
  /// If there are more intervals than this, one range that encloses all of them takes their place.
  static constexpr size_t kMaxIntervals = 6;
  MaskView view = MaskView::Primal;
  int64_t tileSize;
  /// Whether tiles are moved: for each tile of the other direction, the first tile begins where the only kept interval
  /// begins, instead of at a multiple of the tile size.
  bool isMoved = false;

  /// Prints `kept [max(..), min(..)) if 0 <= min(..) or [..) cut [..)`, and `origin max(..)` if tiles are moved. The
  /// tile of the other direction is printed as `rows` queries from `i0` on, or as `keys` keys from `j0` on.
  void print(raw_ostream &os, PrintValue printValue) const;
};

/// How exactly the bounds fit the mask.
struct MaskClass {
  enum Kind {
    Exact,        // visits no tile without a kept pair, and masks no tile without a cut pair
    Mapped,       // as Exact, since a kernel evaluates the mask at run time (flash.tile_classes)
    Conservative, // may visit tiles without a kept pair, or mask tiles without a cut pair
    Opaque        // visits and masks all tiles
  };
  Kind kind;
  std::string reason; // why the bounds are not exact

  static StringRef getName(Kind kind);
};

MaskClass classify(const MaskSet &mask, const LoopBounds &bounds);

/// Whether it pays to move the loop's tiles, because then fewer tiles are visited, or fewer need the mask. If tiles are
/// moved, the first one begins at the first position that may be kept, which differs between the tiles of the other
/// direction. If tiles are not moved, they begin at the loop's begin plus multiples of the tile size. The result is
/// true if
/// 1. there is one kept interval, and the cuts are at its ends (moved tiles of several intervals would overlap);
/// 2. the begin of the interval is none of the following: a constant; a position at a constant distance from the other
///    direction's tile, as in a sliding window, whose first tile needs the mask even if tiles are moved; a multiple of
///    the tile size;
/// 3. the end of the interval is not known to be where a tile of the loop ends.
///
/// Adds variables to the mask's space.
bool mayMoveTiles(MaskSet &mask, const MaskLoop &loop, MLIRContext *context);

/// Computes the bounds of a loop over tiles. Adds variables to the mask's space.
LoopBounds computeLoopBounds(MaskSet &mask, const MaskLoop &loop, MLIRContext *context);

/// Whether the mask provably keeps at least one key for every query of the tile. `bounds` must be those of a loop over
/// keys.
bool keepsEveryRow(MaskSet &mask, const LoopBounds &bounds);

} // namespace mlir::flash

#endif // FLASHC_ANALYSIS_MASKBOUNDS_H
