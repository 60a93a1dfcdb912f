//===- MaskProjection.h - which tiles a conjunction of constraints meets ------------------------------------------===//
#ifndef FLASHC_LIB_ANALYSIS_MASKPROJECTION_H
#define FLASHC_LIB_ANALYSIS_MASKPROJECTION_H

#include "flashc/Analysis/MaskProver.h"

namespace mlir::flash {

/// The constraints that a conjunction puts on the tiles of a loop; variable `MaskSpace::Tile` is the begin of a tile.
struct MaskProjection {
  SmallVector<MaskExpr> bounds;     // constraints that contain Tile
  SmallVector<MaskExpr> conditions; // constraints that do not
  bool isEmpty = false;
  bool isExact = true;      // each tile within the bounds has a pair that satisfies all constraints
  bool mayHaveGaps = false; // inexact, because a key between the keys of two queries may belong to no query
};

/// Eliminates i, j and their quotients, where j is in [Tile, Tile + tileSize) and, if `end` is given, below `end`, and
/// i is in [First, First + Count). Uses Fourier-Motzkin elimination; at each step it proves that no tile is added that
/// only fractional positions would reach. A bound that follows from several constraints is dropped if the other bounds
/// and the facts imply it.
MaskProjection projectOntoTiles(MaskSpace &space, const MaskConjunct &conjunct, int64_t tileSize,
                                const std::optional<MaskExpr> &end, ArrayRef<MaskExpr> facts);

/// Eliminates j, which is in [begin, end), and its quotients. Appends to `result` constraints on i such that each query
/// that satisfies all of them has a key in the conjunct. Returns false if that is not proven.
bool projectOntoRows(MaskSpace &space, const MaskConjunct &conjunct, const MaskExpr &begin, const MaskExpr &end,
                     ArrayRef<MaskExpr> facts, SmallVectorImpl<MaskExpr> &result);

} // namespace mlir::flash

#endif // FLASHC_LIB_ANALYSIS_MASKPROJECTION_H
