//===- ScoreSplit.h - terms of a score that are affine in the column ----------------------------------------------===//
#ifndef FLASHC_LIB_CONVERSION_FLASHTOTILE_SCORESPLIT_H
#define FLASHC_LIB_CONVERSION_FLASHTOTILE_SCORESPLIT_H

#include "flashc/Dialect/Tile/IR/Tile.h"

namespace flashc {

/// Takes terms that are affine in j, with slopes that are constant in a row, out of the sum that a score map yields.
/// Here g(s) is a function of the raw score, t(i, j) is such a term of row i and column j, and `first` is the first
/// column that the element's thread holds:
///
///   g(s) + t(i, j)  ->  g(s) + slope(i) * (j - first)  and  t(i, first)
///
/// The value t(i, first) becomes the map's second result. One multiply-add of g(s), the sum of all slopes and the
/// constant j - first then replaces all such terms of a score. If the sum of the slopes is 0, nothing replaces them.
///
/// The terms are added in another order than in the source. This changes a score by no more than the roundings of the
/// sum as it is written: t(i, first) is about as large as t(i, j), and slope(i) * (j - first) is smaller.
class ScoreSplit {
public:
  explicit ScoreSplit(mlir::tile::MapOp map)
      : map(map), yield(mlir::cast<mlir::tile::YieldOp>(map.getBody().front().getTerminator())) {}

  /// Takes terms out of the yielded value, which is still to be multiplied by `factor`. Returns whether there were any.
  bool takeTerms(double factor);

  /// Emits the sum of the slopes of all taken terms, for each row, before the loop. The code that computes the raw
  /// scores must add this sum times the element's column in the tile. The elements must still be multiplied by
  /// `factor`. Null if the sum is not known before the loop, or if the map still does more than yield the raw score.
  mlir::Value takeSlopes(double factor);

  /// Returns the map that replaces the old one. It has the taken terms as multiply-adds and as a second result. Its
  /// elements and its second result must still be multiplied by `factor`.
  mlir::tile::MapOp finish(double factor);

private:
  /// The growth of a term from one column to the next: the product of a constant and of factors that are constant in a
  /// row.
  struct Slope {
    double constant;
    llvm::SmallVector<mlir::Value, 2> factors;
  };
  using Slopes = llvm::SmallVector<Slope, 1>;
  struct Term {
    mlir::Value value;
    Slopes slopes;
    double factor;
  };

  /// Limits of the search, since code that shares its values can have 2^n terms in n ops. Terms beyond these limits
  /// stay in the map.
  static constexpr size_t kMostSlopes = 64;
  static constexpr int64_t kMostSums = 8192;

  bool isInside(mlir::Value value) { return map.getBody().isAncestor(value.getParentRegion()); }
  /// The slopes whose sum is the slope of `value`. None if `value` is not affine in j.
  std::optional<Slopes> getSlopes(mlir::Value value);
  std::optional<Slopes> computeSlopes(mlir::Value value);
  std::optional<Slopes> getSlopesOfProduct(mlir::Operation *product);
  mlir::Value takeFrom(mlir::Value value, double factor);
  mlir::Value emitSlope(mlir::OpBuilder &b, mlir::Type type, double factor,
                        llvm::function_ref<mlir::Value(mlir::Value)> get);
  mlir::Value emitOfRows(mlir::OpBuilder &b, mlir::Value value);
  mlir::Value emitOffset(mlir::OpBuilder &b, mlir::Value first, double factor);

  mlir::tile::MapOp map;
  mlir::tile::YieldOp yield;
  llvm::SmallVector<Term> terms;
  /// `known` has the values whose slopes were searched in this run of takeTerms, and the slopes that were found.
  /// `numSums` counts the sums in which terms were searched.
  llvm::DenseMap<mlir::Value, std::optional<Slopes>> known;
  int64_t numSums = 0;
  bool isSlopeTaken = false;
};

} // namespace flashc

#endif // FLASHC_LIB_CONVERSION_FLASHTOTILE_SCORESPLIT_H
