//===- SmallTanh.h - tanh of small scores as a polynomial ---------------------------------------------------------===//
#ifndef FLASHC_LIB_CONVERSION_FLASHTOTILE_SMALLTANH_H
#define FLASHC_LIB_CONVERSION_FLASHTOTILE_SMALLTANH_H

#include "flashc/Dialect/Tile/IR/Tile.h"

namespace flashc {

/// Whether a score region (of flash.attention or flash.online_attention, or the region of a tile.map) is a soft cap:
/// tanh in f32 of a value that depends on the score, times positive constants.
bool isSoftCap(mlir::Region &score);

/// The constant k of a soft cap tanh(k * score). None if the argument is no constant times the score.
std::optional<double> getTanhFactor(mlir::Region &score);

/// The largest argument of tanh for which the polynomial of three terms is exact enough.
double getSmallTanhLimit();

/// Replaces every tanh in f32 in `block` and in nested regions by an odd polynomial of three terms.
void expandSmallTanh(mlir::Block &block);

/// Replaces a map that simplifyScoreMap has made of a soft cap by branches. If the arguments of tanh are small in all
/// of a warp's part of the tile, as they nearly always are, a branch computes the shortest odd polynomial of two or
/// three terms that is exact enough. Otherwise, or if an argument is NaN, a branch computes tanh. The map before, and
/// the branches that replace it, here with the polynomial of two terms only:
///
///   %y = tile.map %s { tanh(k * e) }
///
///   %isSmall = tile.all_within %s {limit = 0.35 / k}
///   %y = scf.if %isSmall { tile.map %s { e * (a - e * e) } } else { tile.map %s { c * tanh(k * e) } }
///
/// With the constant c, the leading coefficient of the polynomial of two terms is 1, which saves a multiplication. So
/// `factor`, by which the scores must still be multiplied, is divided by c. If the argument of tanh is no constant
/// times the score, a map of its own computes the argument first. `finish` makes a branch's result from its map, at the
/// end of the branch. Returns the result of the branches.
mlir::Value splitSmallTanh(mlir::tile::MapOp map, double &factor,
                           llvm::function_ref<mlir::Value(mlir::OpBuilder &, mlir::Value)> finish);

} // namespace flashc

#endif // FLASHC_LIB_CONVERSION_FLASHTOTILE_SMALLTANH_H
