//===- MaskProjection.h - which tiles a conjunction of constraints meets ------------------------------------------===//
#ifndef FLASHC_LIB_ANALYSIS_MASKPROJECTION_H
#define FLASHC_LIB_ANALYSIS_MASKPROJECTION_H

#include "flashc/Analysis/MaskProver.h"

namespace mlir::flash {

/// A conjunction of constraints seen from a loop over tiles: `MaskSpace::Tile` is where a tile begins.
struct MaskProjection {
  SmallVector<MaskExpr> bounds;     // with Tile in them
  SmallVector<MaskExpr> conditions; // without
  bool isEmpty = false;
  bool isExact = true;      // each tile within the bounds has a pair that satisfies all constraints
  bool mayHaveGaps = false; // not exact, since keys between those of two queries may be no query's
};

/// Eliminates i, j and the quotients of them, where j is in [Tile, Tile + tileSize), in front of `end` if that is
/// given, and i in [First, First + Count). Fourier and Motzkin's elimination, with a proof at each step that no tile is
/// added which only fractions would reach. What does not follow from a single constraint and the tile is left out where
/// the other bounds and the facts imply it.
MaskProjection projectOntoTiles(MaskSpace &space, const MaskConjunct &conjunct, int64_t tileSize,
                                const std::optional<MaskExpr> &end, ArrayRef<MaskExpr> facts);

/// Eliminates j, which goes over [begin, end), and the quotients of it: constraints on i, of which each that satisfies
/// them all has a key in the conjunct. False if that may not be so.
bool projectOntoRows(MaskSpace &space, const MaskConjunct &conjunct, const MaskExpr &begin, const MaskExpr &end,
                     ArrayRef<MaskExpr> facts, SmallVectorImpl<MaskExpr> &result);

} // namespace mlir::flash

#endif // FLASHC_LIB_ANALYSIS_MASKPROJECTION_H
