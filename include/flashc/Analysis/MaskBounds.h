//===- MaskBounds.h - which tiles a mask keeps --------------------------------------------------------------------===//
//
// From a mask as a union of conjunctions (`MaskSet`) to intervals of tiles: those that hold a kept pair, and those that
// hold a pair that is not kept. Nothing here makes IR: `flash-bound-loops` does, from a `LoopBounds`.
//
//===--------------------------------------------------------------------------------------------------------------===//
#ifndef FLASHC_ANALYSIS_MASKBOUNDS_H
#define FLASHC_ANALYSIS_MASKBOUNDS_H

#include "flashc/Analysis/MaskProver.h"
#include "mlir/IR/AffineExpr.h"

namespace mlir::flash {

/// Which loop the bounds are for, and what is known where it runs. It goes over tiles of keys, for a tile of queries.
/// Its dual goes over tiles of queries, for a tile of keys, and has the bounds of the mask with i and j exchanged
/// (`MaskView::Dual`): i stands for the key there, and j for the query.
struct MaskLoop {
  MaskView view = MaskView::Primal;
  int64_t tileSize = 0;
  int64_t otherTileSize = 0;            // Count is at most this
  std::optional<LinearExpr> begin, end; // the loop's
  std::optional<LinearExpr> count;      // of positions in the other direction's tile
  std::optional<LinearExpr> from, to;   // the other direction's tiles begin at from, from + otherTileSize, ... < to
  bool isMoved = false;                 // tiles begin at the first position that may be kept; see mayMoveTiles
};

/// Tiles between bounds that are multiples of the tile from the loop's begin on: [max(begin), min(end)), and only if
/// all conditions and rooms are >= 0. Without an entry a bound is that of the loop. Where tiles are moved, bounds are
/// positions: none in front of the begins is meant, and none from the ends on.
struct TileInterval {
  SmallVector<AffineExpr> begin, end, conditions;
  /// Conditions that say how far the last position is behind the first: the end is not further than (room + 1) tiles
  /// behind the begin. That bound says the same without a choice, which would make the bounds uneven.
  SmallVector<AffineExpr> rooms;
  /// The bounds in tiles, counted from the loop's begin, unless tiles are moved; the conditions and rooms; for proofs
  /// about them.
  SmallVector<MaskExpr> beginTiles, endTiles, conditionExprs;
  bool isExact = true;       // each of the tiles holds a pair that the interval is for
  bool mayHaveGaps = false;  // it is not: keys between those of two queries may be no query's
  bool isEverything = false; // known to be all tiles of the loop; asked of masks with opaque parts only

  bool isPrefix() const { return begin.empty(); }
  bool isSuffix() const { return end.empty(); }
};

/// A value that the expressions of bounds use, and the position i that it is for if it depends on one.
struct CapturedValue {
  Value value;
  MaskSpace::At at;
};

/// The tiles that a tile of the other direction needs. The original loop visits those at begin, begin + tile, ... below
/// end. No tile outside all `kept` intervals has a kept pair, and no tile outside all `cut` ones has a pair that is not
/// kept, but for the last tile if it sticks out of the loop.
struct LoopBounds {
  /// The symbols of the expressions: where the loop begins and ends, the first position of the other direction's tile,
  /// and how many there are; then `captured`.
  enum Symbol : unsigned { Begin, End, First, Count, FirstCaptured };

  std::vector<TileInterval> kept, cut;
  SmallVector<CapturedValue> captured;
  SmallVector<MaskExpr> facts; // that hold where the loop runs
  MaskExpr begin, end;         // of the loop
  /// The most disjoint intervals; of more only the hull is used.
  static constexpr size_t kMaxIntervals = 6;
  MaskView view = MaskView::Primal;
  int64_t tileSize;
  /// For each tile of the other direction, tiles begin at the begin of the only kept interval instead of the loop's.
  bool isMoved = false;

  /// Prints `kept [max(..), min(..)) if 0 <= min(..) or [..) cut [..)`, and `origin max(..)` if tiles are moved. The
  /// tile of the other direction is one of `rows` queries from `i0` on, or one of `keys` keys from `j0` on.
  void print(raw_ostream &os, PrintValue printValue) const;
};

/// How well bounds say what a mask keeps.
struct MaskClass {
  enum Kind {
    Exact,        // no empty tile is visited, no whole tile is masked
    Mapped,       // the same, by running the mask (flash.tile_classes)
    Conservative, // that may happen
    Opaque        // there is no bound
  };
  Kind kind;
  std::string reason; // why not exact

  static StringRef getName(Kind kind);
};

MaskClass classify(const MaskSet &mask, const LoopBounds &bounds);

/// Whether fewer tiles are visited, or masked, if they begin at the first position that may be kept, for each tile of
/// the other direction by itself, instead of at multiples of the tile from the loop's begin on:
/// 1. There is one kept interval, and the cuts are at its ends: tiles of several intervals would overlap.
/// 2. It begins anywhere: at a position that is neither a constant nor at a distance from the other direction's tile (a
///    window's would be cut all the same), nor known to be a multiple of the tile.
/// 3. It does not end where a tile of the loop ends, which is as good a place to begin from.
/// Adds variables to the mask's space.
bool mayMoveTiles(MaskSet &mask, const MaskLoop &loop, MLIRContext *context);

/// The bounds of a loop over tiles. Adds variables to the mask's space.
LoopBounds computeLoopBounds(MaskSet &mask, const MaskLoop &loop, MLIRContext *context);

/// Whether every query of the tile is known to have a key that the mask keeps. `bounds` are those of a loop over keys.
bool keepsEveryRow(MaskSet &mask, const LoopBounds &bounds);

} // namespace mlir::flash

#endif // FLASHC_ANALYSIS_MASKBOUNDS_H
