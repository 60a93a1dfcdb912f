//===- ScatterIndex.h - how an index moves with a position --------------------------------------------------------===//
#ifndef FLASHC_LIB_LAUNCHKERNELS_SCATTERINDEX_H
#define FLASHC_LIB_LAUNCHKERNELS_SCATTERINDEX_H

#include "flashc/Dialect/Flash/IR/Flash.h"

namespace flashc {

/// What an index of a flash.scatter_sum hangs on.
struct ScatterIndex {
  enum class Kind {
    /// It is the position.
    Same,
    /// It never falls, or never rises, as the position grows.
    Rising,
    Falling,
    /// It depends on several positions, or on one in both directions.
    Any,
    /// It depends on no position.
    Constant
  };
  /// An index that counts from the end where it is negative (flash.wrap_index), before that is done: on each side of
  /// where the sign changes the whole one rises, or falls.
  struct Sign {
    mlir::Value index;
    bool isRising;
  };

  Kind kind = Kind::Any;
  /// Which dimension of the sums the position is, unless the kind is Any or Constant.
  unsigned dim = 0;
  /// Belong to a Rising or a Falling index, and to one with a lastDirection. The sign of an index inside of another
  /// comes first.
  mlir::SmallVector<Sign, 1> signs = {};
  /// For the kind Any: 1 if the index never falls, -1 if it never rises, as the last position of a pair grows and the
  /// others stay; 0: neither is known.
  int lastDirection = 0;
};

/// The analysis of each index.
mlir::SmallVector<ScatterIndex> analyzeScatterIndices(mlir::flash::ScatterSumOp op);

} // namespace flashc

#endif // FLASHC_LIB_LAUNCHKERNELS_SCATTERINDEX_H
