//===- ScoreSplit.h - what of a score does not vary along a thread's columns --------------------------------------===//
#ifndef FLASHC_LIB_CONVERSION_FLASHTOTILE_SCORESPLIT_H
#define FLASHC_LIB_CONVERSION_FLASHTOTILE_SCORESPLIT_H

#include "flashc/Dialect/Tile/IR/Tile.h"

namespace flashc {

/// Takes terms that are affine in j, with slopes that are the same for a row, out of the sum that a score map yields:
///
///   g(s) + t(i, j)  ->  g(s) + slope(i) * (j - first)  and  t(i, first)
///
/// `first` is the first column that the element's thread holds, and the second part becomes the map's second result. A
/// score then costs one multiply-add for all such terms together (nothing, if their slopes are 0), by a constant.
///
/// Terms are added in another order than they are written in, which changes a score by no more than the roundings of
/// the sum as written: what they have in common is of the size of t, and the rest less.
class ScoreSplit {
public:
  explicit ScoreSplit(mlir::tile::MapOp map)
      : map(map), yield(mlir::cast<mlir::tile::YieldOp>(map.getBody().front().getTerminator())) {}

  /// Takes what it can out of the yielded value, which is still to be multiplied with `factor`. Returns whether there
  /// was any.
  bool takeTerms(double factor);

  /// The slope of all that was taken, of each row and in front of the loop, if there is one that is known there and
  /// nothing but the raw score is left; otherwise null. Whoever makes the raw scores must then add it, times the
  /// element's column in the tile. Elements are still to be multiplied with `factor`.
  mlir::Value takeSlopes(double factor);

  /// Puts back what was taken, as multiply-adds and a second result. Elements and second result are still to be
  /// multiplied with `factor`. The map as it is then, which replaces the one before.
  mlir::tile::MapOp finish(double factor);

private:
  /// constant * factors, which are the same in a row: by how much a term grows from one column to the next.
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

  /// Code that shares its values can have 2^n terms in n ops: what is beyond the limits stays where it is.
  static constexpr size_t kMostSlopes = 64;
  static constexpr int64_t kMostSums = 8192;

  bool isInside(mlir::Value value) { return map.getBody().isAncestor(value.getParentRegion()); }
  /// Their sum is the slope of `value`; nothing if it is not affine in j.
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
  /// Slopes of values, while terms are taken from one sum; and how many more sums may be looked into for it.
  llvm::DenseMap<mlir::Value, std::optional<Slopes>> known;
  int64_t numSums = 0;
  bool isSlopeTaken = false;
};

} // namespace flashc

#endif // FLASHC_LIB_CONVERSION_FLASHTOTILE_SCORESPLIT_H
