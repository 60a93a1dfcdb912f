//===- MaskBounds.h - which key tiles a mask keeps ----------------------------------------------------------------===//
//
// A mask region is read as a conjunction of comparisons that are linear in the query i and the key j. For a tile of
// queries, each of them says where the key tiles begin and end that it keeps in part, and that it keeps as a whole.
// Nothing here makes IR: `flash-bound-loops` does, from a `LoopBounds`.
//
// It is assumed that positions and what is computed from them in `index`, `i64` and `i32` do not overflow. Arithmetic
// in narrower integers, and a cast to them, may: those comparisons are opaque.
//
//===--------------------------------------------------------------------------------------------------------------===//
#ifndef FLASHC_ANALYSIS_MASKBOUNDS_H
#define FLASHC_ANALYSIS_MASKBOUNDS_H

#include "flashc/Analysis/LinearExpr.h"
#include "mlir/IR/AffineExpr.h"

namespace mlir::flash {

/// One comparison of a mask, as `j * key + i * query + rest >= 0`. The values of `rest` depend on neither i nor j: they
/// are captured from outside, the region's arguments b and h, or computed from those in the region.
struct MaskConstraint {
  int64_t key;
  int64_t query;
  LinearExpr rest;

  /// Prints `j <= i + %shift`, `j >= i - 255`, or `i - %n - 1 >= 0` where no key occurs.
  void print(raw_ostream &os, AsmState &state) const;
};

/// What is known about a mask: it keeps only what satisfies every constraint, and exactly that if nothing is opaque.
struct MaskBounds {
  SmallVector<MaskConstraint> constraints;
  SmallVector<Operation *> opaque; // conjuncts that are not linear comparisons

  /// One line per conjunct.
  void print(raw_ostream &os, AsmState &state) const;
};

/// Reads a mask region. Understands arith.andi of arith.cmpi (signed; eq as two constraints; unsigned against a
/// constant) of what LinearExpr looks through, and constants. Any other conjunct, and `ne`, is opaque.
MaskBounds analyzeMask(Region &mask);

/// The key tiles that a tile of queries needs. The original loop visits the tiles at begin, begin + tile, ... below
/// end; the bounds are positions of that sequence:
///
///     begin ... keptBegin ... fullBegin ... fullEnd ... keptEnd ... end
///       skipped  | some kept   | all kept    | some kept  | skipped
///
/// Each list holds lower bounds for a begin and upper bounds for an end: the bound itself is their maximum or minimum,
/// still to be clamped to the original range and ordered as drawn. No tile with a kept pair (i, j) is skipped, and
/// every pair is kept between fullBegin and fullEnd; for a single constraint both are tight.
struct LoopBounds {
  /// The symbols of the expressions: where the loop begins and ends, the first query of the tile, and how many there
  /// are; then `captured`.
  enum Symbol : unsigned { Begin, End, FirstQuery, NumQueries, FirstCaptured };

  SmallVector<AffineExpr> keptBegin, fullBegin, fullEnd, keptEnd;
  SmallVector<AffineExpr> keptIf, fullIf; // unless all are >= 0 the range is empty
  bool hasFull = true;                    // false: no tile is known to be kept as a whole
  SmallVector<Value> captured;

  /// Prints `kept [max(..), min(..)) full [max(..), min(..))`.
  void print(raw_ostream &os, AsmState &state) const;
};

/// The bounds of a loop over tiles of `tileSize` keys.
LoopBounds computeLoopBounds(const MaskBounds &mask, int64_t tileSize, MLIRContext *context);

} // namespace mlir::flash

#endif // FLASHC_ANALYSIS_MASKBOUNDS_H
