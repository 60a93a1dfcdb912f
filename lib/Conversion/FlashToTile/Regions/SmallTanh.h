//===- SmallTanh.h - tanh of small scores as a polynomial ---------------------------------------------------------===//
#ifndef FLASHC_LIB_CONVERSION_FLASHTOTILE_SMALLTANH_H
#define FLASHC_LIB_CONVERSION_FLASHTOTILE_SMALLTANH_H

#include "flashc/Dialect/Tile/IR/Tile.h"

namespace flashc {

/// Whether a score region (of flash.attention or flash.online_attention, or the region of a tile.map) is a soft cap:
/// tanh in f32 of something that depends on the score, times positive constants.
bool isSoftCap(mlir::Region &score);

/// What the tanh of a soft cap takes, over the score that the region is given; nothing where that is no constant.
std::optional<double> getTanhFactor(mlir::Region &score);

/// How large an argument of tanh may be for the polynomial of the most terms, three.
double getSmallTanhLimit();

/// Every tanh in f32 of the ops in `block` and in their regions becomes an odd polynomial of three terms.
void expandSmallTanh(mlir::Block &block);

/// Puts branches in the place of a map that simplifyScoreMap has left of a soft cap. Where the arguments of its tanh
/// are small in all of a warp's part of the tile, as they nearly always are, it is an odd polynomial there, of two
/// terms or of three: as few as do. Elsewhere, and where there is a NaN among the arguments, it stays
/// what it is. Before, and after, with two terms only:
///
///   %y = tile.map %s { tanh(k * e) }
///
///   %isSmall = tile.all_within %s {limit = 0.35 / k}
///   %y = scf.if %isSmall { tile.map %s { e * (a - e * e) } } else { tile.map %s { c * tanh(k * e) } }
///
/// c makes the leading coefficient of two terms 1, which saves a multiplication; `factor`, which the scores are still
/// to be multiplied with, is divided by it. An argument that is not a constant times the score becomes a map of its own
/// in front. Returns the branches' result: what `finish` makes of each branch's map, at the end of the branch.
mlir::Value splitSmallTanh(mlir::tile::MapOp map, double &factor,
                           llvm::function_ref<mlir::Value(mlir::OpBuilder &, mlir::Value)> finish);

} // namespace flashc

#endif // FLASHC_LIB_CONVERSION_FLASHTOTILE_SMALLTANH_H
