//===- ScoreMap.h - score maps without the factors that the exponent can take -------------------------------------===//
#ifndef FLASHC_LIB_CONVERSION_FLASHTOTILE_SCOREMAP_H
#define FLASHC_LIB_CONVERSION_FLASHTOTILE_SCOREMAP_H

#include "flashc/Dialect/Tile/IR/Tile.h"
#include "llvm/Support/MathExtras.h"

namespace flashc {

/// The map that replaces another one. Its results must still be multiplied by `factor`. This costs nothing: exponents
/// are multiplied by a constant anyway, which then includes `factor`. The constant is positive, so the greatest score
/// stays the greatest.
struct ScoreMap {
  mlir::tile::MapOp map;
  double factor;
  /// One slope for each row. The product of Q and K must add the slope times the number of the element's column in the
  /// tile. Null if there are no slopes to add.
  mlir::Value slopes;
};

/// Rewrites a map whose scores are f(scale * s), so that an element costs less. Here `s` is the raw score, `scale` and
/// `cap` are constants, `slope` is constant in a row, `x`, `y` and `bias` are any values, `i` is the position of the
/// row and `j` that of the column, and `first` is the first column that the element's thread holds:
///
///   scale * s + slope * x        ->  s + (slope / scale) * x, and `factor` gets scale
///   scale * s + bias             ->  fma(s, scale, bias)
///   cap * tanh(scale * s / cap)  ->  tanh(s * (scale / cap)), and `factor` gets cap
///   x / y, where y is known before the loop  ->  x * (1 / y)
///   f(s) + slope * (j - i)       ->  two results, f(s) + slope * (j - first) and slope * (first - i) (ScoreSplit.h)
///   |i - j|, where a mask keeps only pairs with i >= j, or only pairs with i <= j  ->  i - j, or j - i
///
/// Also allows LLVM to contract products and sums to multiply-adds. Only with `canSplit` the map may get a second
/// result, which the code that computes the maximum and the exponentials must add. With `toProduct`, the slopes are
/// computed before the loop and returned in `slopes`, if without them the score is just s. Scores of pairs that `mask`
/// (a region of flash.attention, or null) hides may become any value. With `rowsAreKeys` the rows are keys and the
/// columns are queries, instead of the other way around.
ScoreMap simplifyScoreMap(mlir::tile::MapOp map, bool canSplit, bool toProduct, mlir::Region *mask, bool rowsAreKeys);

/// Simplifies the map of a score's derivative in the same way, without changing its result. Code that score and
/// derivative share, such as a soft cap's tanh, stays equal, and LLVM computes it once.
void simplifyDerivativeMap(mlir::tile::MapOp map, mlir::Region *mask, bool rowsAreKeys);

/// Multiplies `term`, a value of the map, by `factor` without another instruction for each element. For this the factor
/// is multiplied with a value that is constant in a row: `term` itself or, if `term` is a product, one of its operands.
/// Returns null if there is no such value.
mlir::Value scaleTerm(mlir::OpBuilder &b, mlir::tile::MapOp map, mlir::Value term, double factor);

/// If `value` is an f32 product with a constant, or an f32 quotient by a constant, returns the constant factor (one
/// over the divisor) and sets `other` to the other operand. None otherwise.
std::optional<double> getConstantFactor(mlir::Region &region, mlir::Value value, mlir::Value &other);

/// Whether the exponent's factor can include the constant `factor`. `factor` must be positive, and the product of
/// `factor` and the score of a masked element must be neither tiny nor infinite.
bool isExponentFactor(double factor);

/// With bf16, scores up to this magnitude need no maximum to be subtracted: the weights exp(score) are between 2^-80
/// and 2^80. Products of weights with values, and sums over keys, may then grow by another 2^46 before f32 overflows.
constexpr double kUnifiedMaxBound = 80.0 * llvm::numbers::ln2;

/// Returns an upper bound of the magnitudes that a score region of flash.attention yields. Knows sums and products of
/// constants, tanh, sin, cos and erf, and selections among these. None if the bound is unknown.
std::optional<double> getScoreBound(mlir::Region &score);

/// Whether simplifyScoreMap, called with `toProduct`, returns slopes for a score region of flash.attention or
/// flash.online_attention with this scale.
bool hasSlopes(mlir::Region &score, double scale);

} // namespace flashc

#endif // FLASHC_LIB_CONVERSION_FLASHTOTILE_SCOREMAP_H
