//===- MaskBounds.h - which tiles a mask keeps --------------------------------------------------------------------===//
// Computes ranges of tiles from a mask that is read as a union of conjunctions (`MaskSet`): the tiles that hold a kept
// pair (query, key), and the tiles that hold a pair that is not kept. Nothing here makes IR: `flash-bound-loops` makes
// it from a `LoopBounds`.
//===--------------------------------------------------------------------------------------------------------------===//
#ifndef FLASHC_ANALYSIS_MASKBOUNDS_H
#define FLASHC_ANALYSIS_MASKBOUNDS_H

#include "flashc/Analysis/MaskProver.h"
#include "mlir/IR/AffineExpr.h"

namespace mlir::flash {

/// The loop that bounds are computed for. In the primal view it runs over tiles of keys, for one tile of queries. In
/// the dual view (`MaskView::Dual`) it runs over tiles of queries, for one tile of keys, and has the bounds of the mask
/// with i and j exchanged: i is the key there, and j the query. The "other direction" is the one of the tile that stays
/// the same.
struct MaskLoop {
  MaskView view = MaskView::Primal;
  int64_t tileSize = 0;
  int64_t otherTileSize = 0;            // the upper bound of `count`
  std::optional<LinearExpr> begin, end; // bounds of the loop
  std::optional<LinearExpr> count;      // number of positions in the other direction's tile
  std::optional<LinearExpr> from, to;   // the other direction's tiles begin at from, from + otherTileSize, ... < to
  bool isMoved = false;                 // tiles begin at the first position that may be kept; see mayMoveTiles
};

/// A range of tiles, [max(begin), min(end)), which counts only if all `conditions` and `rooms` are >= 0. Bounds are
/// multiples of the tile size, counted from the loop's begin. An empty list stands for the loop's own bound. If tiles
/// are moved, the bounds are positions instead: no tile begins before the begins, and the last one ends at or after the
/// ends.
struct TileInterval {
  SmallVector<AffineExpr> begin, end, conditions;
  /// Conditions on the distance between the first and the last position: the end exceeds the begin by at most (room +
  /// 1) tiles. A minimum with that bound does what a select would do, after which the bounds would not be known to be
  /// multiples of the tile.
  SmallVector<AffineExpr> rooms;
  /// The bounds in tiles, counted from the loop's begin (empty if tiles are moved), and the conditions and rooms; used
  /// in proofs about them.
  SmallVector<MaskExpr> beginTiles, endTiles, conditionExprs;
  bool isExact = true;       // each tile holds a pair of the kind (kept or cut) that the interval is for
  bool mayHaveGaps = false;  // inexact, because a key between the keys of two queries may belong to no query
  bool isEverything = false; // known to be all tiles of the loop; computed for masks with opaque parts only

  bool isPrefix() const { return begin.empty(); }
  bool isSuffix() const { return end.empty(); }
};

/// A value that expressions of bounds use, and the query for which it is taken if it depends on the query.
struct CapturedValue {
  Value value;
  MaskSpace::At at;
};

/// The tiles that one tile of the other direction needs. The original loop visits the tiles at begin, begin + tile, ...
/// below end. A tile outside all `kept` intervals has no kept pair. A tile outside all `cut` intervals has only kept
/// pairs, except for the last tile if it exceeds the loop's end.
struct LoopBounds {
  /// The symbols of the expressions: the loop's begin and end, the first position and the number of positions of the
  /// other direction's tile; then `captured`.
  enum Symbol : unsigned { Begin, End, First, Count, FirstCaptured };

  std::vector<TileInterval> kept, cut;
  SmallVector<CapturedValue> captured;
  SmallVector<MaskExpr> facts; // constraints that hold where the loop runs
  MaskExpr begin, end;         // bounds of the loop
  /// More intervals than this are replaced by one range that encloses them.
  static constexpr size_t kMaxIntervals = 6;
  MaskView view = MaskView::Primal;
  int64_t tileSize;
  /// Whether tiles begin at the begin of the only kept interval, for each tile of the other direction by itself,
  /// instead of at multiples of the tile size.
  bool isMoved = false;

  /// Prints `kept [max(..), min(..)) if 0 <= min(..) or [..) cut [..)`, and `origin max(..)` if tiles are moved. The
  /// tile of the other direction is printed as `rows` queries from `i0` on, or as `keys` keys from `j0` on.
  void print(raw_ostream &os, PrintValue printValue) const;
};

/// How close the bounds are to the mask.
struct MaskClass {
  enum Kind {
    Exact,        // no empty tile is visited, no whole tile is masked
    Mapped,       // the same, because a kernel evaluates the mask at run time (flash.tile_classes)
    Conservative, // empty tiles may be visited, or whole tiles masked
    Opaque        // all tiles are visited with the mask
  };
  Kind kind;
  std::string reason; // why the bounds are not exact

  static StringRef getName(Kind kind);
};

MaskClass classify(const MaskSet &mask, const LoopBounds &bounds);

/// Whether it saves visited or masked tiles to begin them at the first position that may be kept, for each tile of the
/// other direction by itself, instead of at multiples of the tile size from the loop's begin on. True if
/// 1. there is one kept interval, and the cuts are at its ends: tiles of several intervals would overlap;
/// 2. its begin is a position that is neither a constant, nor at a constant distance from the other direction's tile
///    (as a window's begin is, which is cut either way), nor known to be a multiple of the tile size;
/// 3. its end is not where a tile of the loop ends.
///
/// Adds variables to the mask's space.
bool mayMoveTiles(MaskSet &mask, const MaskLoop &loop, MLIRContext *context);

/// Computes the bounds of a loop over tiles. Adds variables to the mask's space.
LoopBounds computeLoopBounds(MaskSet &mask, const MaskLoop &loop, MLIRContext *context);

/// Whether the mask provably keeps at least one key for every query of the tile. `bounds` are the bounds of a loop over
/// keys.
bool keepsEveryRow(MaskSet &mask, const LoopBounds &bounds);

} // namespace mlir::flash

#endif // FLASHC_ANALYSIS_MASKBOUNDS_H
