//===- ScoreMap.h - score maps without the factors that the exponent can take -------------------------------------===//
#ifndef FLASHC_LIB_CONVERSION_FLASHTOTILE_SCOREMAP_H
#define FLASHC_LIB_CONVERSION_FLASHTOTILE_SCOREMAP_H

#include "flashc/Dialect/Tile/IR/Tile.h"
#include "llvm/Support/MathExtras.h"

namespace flashc {

/// The map that replaces another one. Its results must still be multiplied by `factor`, a positive constant. The
/// exponent has a factor anyway, and a positive factor does not change which score is the greatest.
struct ScoreMap {
  mlir::tile::MapOp map;
  double factor;
  /// The slopes that the product of Q and K must add: for each row, the factor of an element's column in the tile.
  mlir::Value slopes;
};

/// Rewrites a map whose scores are f(scale * s), where `scale` is a constant factor, so that an element costs less:
///
///   scale * s + slope * d     ->  s + (slope / scale) * d, times scale
///   scale * s + bias          ->  fma(s, scale, bias)
///   cap * tanh(scale * s / cap)  ->  tanh(s * (scale / cap)), times cap
///   x / y, where y is known before the loop  ->  x * (1 / y)
///   f(s) + slope * (j - i)  ->  f(s) + slope * (j - first) and slope * (first - i), apart (ScoreSplit.h)
///   |i - j|, where a mask keeps pairs of one order only  ->  i - j, or j - i
///
/// Also lets products and sums contract. With `canSplit` the map may have a second result, which must be added by the
/// code that computes the maximum and the exponentials. With `toProduct`, if the score is the raw score plus slopes,
/// the slopes are returned apart, as values before the loop. Scores of pairs that `mask` (a region of flash.attention,
/// or null) hides may become any value. With `rowsAreKeys` the rows are keys and the columns are queries, instead of
/// the other way around.
ScoreMap simplifyScoreMap(mlir::tile::MapOp map, bool canSplit, bool toProduct, mlir::Region *mask, bool rowsAreKeys);

/// Simplifies the map of a score's derivative in the same way, without changing its result. Code that score and
/// derivative share, such as a soft cap's tanh, stays equal, and LLVM computes it once.
void simplifyDerivativeMap(mlir::tile::MapOp map, mlir::Region *mask, bool rowsAreKeys);

/// Multiplies `term`, a value of the map, by `factor` if that is free for an element: the factor goes to a value that
/// is constant in a row. Returns null otherwise.
mlir::Value scaleTerm(mlir::OpBuilder &b, mlir::tile::MapOp map, mlir::Value term, double factor);

/// If `value` is a product or a quotient of f32 with a constant, returns the constant factor and sets `other` to the
/// other operand. None otherwise.
std::optional<double> getConstantFactor(mlir::Region &region, mlir::Value value, mlir::Value &other);

/// Whether the exponent's factor can include the constant `factor`. It must be positive, and its product with a masked
/// score must be neither tiny nor infinite.
bool isExponentFactor(double factor);

/// The greatest bound of scores for which no maximum need be subtracted with bf16. Up to it, weights (exponentials to
/// the base 2) are between 2^-80 and 2^80. Their products with values, and sums over keys, may then grow by another
/// 2^46 before f32 overflows.
constexpr double kUnifiedMaxBound = 80.0 * llvm::numbers::ln2;

/// Returns an upper bound of the magnitudes that a score region of flash.attention yields. Knows sums and products of
/// constants, tanh, sin, cos and erf, and selections among these. None if the bound is unknown.
std::optional<double> getScoreBound(mlir::Region &score);

/// Whether simplifyScoreMap finds slopes for the product in a score region of flash.attention or flash.online_attention
/// with this scale.
bool hasSlopes(mlir::Region &score, double scale);

} // namespace flashc

#endif // FLASHC_LIB_CONVERSION_FLASHTOTILE_SCOREMAP_H
