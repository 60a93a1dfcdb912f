//===- MaskProjection.h - which tiles a conjunction of constraints meets ------------------------------------------===//
#ifndef FLASHC_LIB_ANALYSIS_MASKPROJECTION_H
#define FLASHC_LIB_ANALYSIS_MASKPROJECTION_H

#include "flashc/Analysis/MaskProver.h"

namespace mlir::flash {

/// The constraints that a conjunction puts on the tiles of a loop; variable `MaskSpace::Tile` is the begin of a tile.
struct MaskProjection {
  SmallVector<MaskExpr> bounds;     // constraints that contain Tile
  SmallVector<MaskExpr> conditions; // constraints that do not contain Tile
  bool isEmpty = false;
  bool isExact = true;      // each tile within the bounds has a pair that satisfies all constraints
  bool mayHaveGaps = false; // not exact: a key that lies between the keys of two queries may be seen by no query
};

/// Eliminates i, j and their quotients from the constraints of `conjunct`. Here j is in [Tile, Tile + tileSize) and, if
/// `end` is given, below `end`; i is in [First, First + Count). The method is Fourier-Motzkin elimination. In each step
/// the function tries to prove that an integer position reaches every tile that a fractional one reaches; without a
/// proof the result is not exact. A bound that follows from several constraints is dropped if the other bounds and the
/// facts imply it.
MaskProjection projectOntoTiles(MaskSpace &space, const MaskConjunct &conjunct, int64_t tileSize,
                                const std::optional<MaskExpr> &end, ArrayRef<MaskExpr> facts);

/// Eliminates j and its quotients, where j is in [begin, end). Appends constraints on i to `result`: if a query
/// satisfies all of them, the conjunct has a pair of the query and some key. Returns false if that is not proven.
bool projectOntoRows(MaskSpace &space, const MaskConjunct &conjunct, const MaskExpr &begin, const MaskExpr &end,
                     ArrayRef<MaskExpr> facts, SmallVectorImpl<MaskExpr> &result);

} // namespace mlir::flash

#endif // FLASHC_LIB_ANALYSIS_MASKPROJECTION_H
