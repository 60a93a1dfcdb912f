//===- SmallTanh.h - tanh of small scores as a polynomial ---------------------------------------------------------===//
#ifndef FLASHC_LIB_CONVERSION_FLASHTOTILE_SMALLTANH_H
#define FLASHC_LIB_CONVERSION_FLASHTOTILE_SMALLTANH_H

#include "flashc/Dialect/Tile/IR/Tile.h"

namespace flashc {

/// Whether a score region (of flash.attention or flash.online_attention, or the region of a tile.map) is a soft cap: tanh
/// in f32 of something that depends on the score, times positive constants.
bool isSoftCap(mlir::Region &score);

/// Puts a branch in the place of a map that simplifyScoreMap has left of a soft cap. Where the arguments of its tanh are
/// small in all of a warp's part of the tile, as they nearly always are, it is an odd polynomial of `terms` terms there, 2
/// or 3; elsewhere, and where there is a NaN among them, it stays what it is. Before, and after, for 3 terms:
///
///   %y = tile.map %s { tanh(k * e) }
///
///   %isSmall = tile.all_within %s {limit = 0.75 / k}
///   %y = scf.if %isSmall { tile.map %s { e * ((e * e + a)^2 + b) } } else { tile.map %s { c * tanh(k * e) } }
///
/// c makes the polynomial's leading coefficient 1, which saves a multiplication; `factor`, which the scores are still to be
/// multiplied with, is divided by it. An argument that is not a constant times the score becomes a map of its own in front.
/// Returns the branch's result.
mlir::Value splitSmallTanh(mlir::tile::MapOp map, int64_t terms, double &factor);

} // namespace flashc

#endif // FLASHC_LIB_CONVERSION_FLASHTOTILE_SMALLTANH_H
