//===- ScoreMap.h - score maps without the factors that the exponent can take -------------------------------------===//
#ifndef FLASHC_LIB_CONVERSION_FLASHTOTILE_SCOREMAP_H
#define FLASHC_LIB_CONVERSION_FLASHTOTILE_SCOREMAP_H

#include "flashc/Dialect/Tile/IR/Tile.h"
#include "llvm/Support/MathExtras.h"

namespace flashc {

/// The map that replaces another one, and the positive constant by which its results are still to be multiplied. The
/// exponent has a factor anyway, and a positive factor does not change which score is the greatest.
struct ScoreMap {
  mlir::tile::MapOp map;
  double factor;
  /// For each row, the factor of the element's column in the tile that the product of Q and K is to add.
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
/// Also lets products and sums contract. With `canSplit` the map may have a second result, which the code that computes
/// the maximum and the exponentials must add. With `toProduct` the slopes of a score that is otherwise the raw score
/// are returned apart, as values before the loop. Scores of pairs that `mask` (a region of flash.attention, or null)
/// does not keep may become any value. `rowsAreKeys`: rows are keys and columns queries, instead of the other way
/// around.
ScoreMap simplifyScoreMap(mlir::tile::MapOp map, bool canSplit, bool toProduct, mlir::Region *mask, bool rowsAreKeys);

/// Simplifies the map of a score's derivative in the same way, without changing its result. Code that score and
/// derivative share, such as a soft cap's tanh, stays equal, and LLVM computes it once.
void simplifyDerivativeMap(mlir::tile::MapOp map, mlir::Region *mask, bool rowsAreKeys);

/// Multiplies `term`, a value of the map, by `factor` if that is free for an element: the factor goes to a value that
/// is constant in a row. Returns null otherwise.
mlir::Value scaleTerm(mlir::OpBuilder &b, mlir::tile::MapOp map, mlir::Value term, double factor);

/// The constant by which a product or quotient of f32 multiplies its other operand, `other`.
std::optional<double> getConstantFactor(mlir::Region &region, mlir::Value value, mlir::Value &other);

/// Whether the exponent's factor can include a constant: it must be positive, and a masked score times the constant
/// must be neither tiny nor infinite.
bool isExponentFactor(double factor);

/// The bound up to which scores need no maximum subtracted for bf16: weights (exponentials to the base 2) are then
/// between 2^-80 and 2^80, and their products with values and sums over keys may grow by another 2^46 before f32
/// overflows.
constexpr double kUnifiedMaxBound = 80.0 * llvm::numbers::ln2;

/// An upper bound of the magnitudes of a score region of flash.attention: for sums and products of constants, tanh,
/// sin, cos and erf, and selections of them. None if unknown.
std::optional<double> getScoreBound(mlir::Region &score);

/// Whether simplifyScoreMap finds slopes for the product in a score region of flash.attention or flash.online_attention
/// with this scale.
bool hasSlopes(mlir::Region &score, double scale);

} // namespace flashc

#endif // FLASHC_LIB_CONVERSION_FLASHTOTILE_SCOREMAP_H
