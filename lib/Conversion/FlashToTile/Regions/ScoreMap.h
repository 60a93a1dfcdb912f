//===- ScoreMap.h - score maps without the factors that the exponent can take -------------------------------------===//
#ifndef FLASHC_LIB_CONVERSION_FLASHTOTILE_SCOREMAP_H
#define FLASHC_LIB_CONVERSION_FLASHTOTILE_SCOREMAP_H

#include "flashc/Dialect/Tile/IR/Tile.h"
#include "llvm/Support/MathExtras.h"

namespace flashc {

/// A map in place of the one before, and the positive constant that its results are still to be multiplied with: the
/// exponent has a factor anyway, and a factor above 0 does not change which score is the greatest.
struct ScoreMap {
  mlir::tile::MapOp map;
  double factor;
  /// Of each row, times the element's column in the tile: what the map leaves to the product that makes its scores.
  mlir::Value slopes;
};

/// Rewrites a map whose scores are f(scale * s), `scale` being a product with a constant, so that an element costs
/// less:
///
///   scale * s + slope * d     ->  s + (slope / scale) * d, times scale
///   scale * s + bias          ->  fma(s, scale, bias)
///   cap * tanh(scale * s / cap)  ->  tanh(s * (scale / cap)), times cap
///   x / y, where y is known before the loop  ->  x * (1 / y)
///   f(s) + slope * (j - i)  ->  f(s) + slope * (j - first) and slope * (first - i), apart (ScoreSplit.h)
///   |i - j|, where a mask keeps pairs of one order only  ->  i - j, or j - i
///
/// and lets products and sums contract. The second result comes about if `canSplit`: whoever takes the maximum and the
/// exponentials of the scores must add it. If `toProduct`, slopes of an otherwise plain score are apart, too, in front
/// of the loop. Scores of pairs that `mask` (a region of flash.attention, or null) does not keep may become anything.
/// `rowsAreKeys`: and columns queries; otherwise it is the other way around.
ScoreMap simplifyScoreMap(mlir::tile::MapOp map, bool canSplit, bool toProduct, mlir::Region *mask, bool rowsAreKeys);

/// Simplifies the map of a score's derivative, in the same way but for its result: what both compute, a soft cap's
/// tanh, is the same code afterwards, which LLVM computes once.
void simplifyDerivativeMap(mlir::tile::MapOp map, mlir::Region *mask, bool rowsAreKeys);

/// `term`, a value of the map, times `factor`, if that costs nothing for an element: the factor goes to what is the
/// same in the row. Otherwise null.
mlir::Value scaleTerm(mlir::OpBuilder &b, mlir::tile::MapOp map, mlir::Value term, double factor);

/// The constant that a product or quotient in a region multiplies its other operand, `other`, with, both of f32.
std::optional<double> getConstantFactor(mlir::Region &region, mlir::Value value, mlir::Value &other);

/// Whether a constant may be left to the exponent's factor: positive, and a masked score times it is neither tiny nor
/// infinite.
bool isExponentFactor(double factor);

/// Scores of at most so much need no maximum taken off for bf16: weights, exponentials to the base 2, are between 2^-80
/// and 2^80, whose products with values and sums over keys have another 2^46 up to the end of f32.
constexpr double kUnifiedMaxBound = 80.0 * llvm::numbers::ln2;

/// What the scores of a region of flash.attention are at most, as magnitudes, or nothing where that is not known: sums
/// and products of constants, tanh, sin, cos and erf, and selections of them.
std::optional<double> getScoreBound(mlir::Region &score);

/// Whether simplifyScoreMap finds slopes for the product in a score region of flash.attention or flash.online_attention
/// with this scale.
bool hasSlopes(mlir::Region &score, double scale);

} // namespace flashc

#endif // FLASHC_LIB_CONVERSION_FLASHTOTILE_SCOREMAP_H
