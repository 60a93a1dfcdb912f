//===- ScatterIndex.h - how an index moves with a position --------------------------------------------------------===//
#ifndef FLASHC_LIB_LAUNCHKERNELS_SCATTERINDEX_H
#define FLASHC_LIB_LAUNCHKERNELS_SCATTERINDEX_H

#include "flashc/Dialect/Flash/IR/Flash.h"

namespace flashc {

/// How an index of a flash.scatter_sum depends on the position of a summand.
struct ScatterIndex {
  enum class Kind {
    /// The index is the position in dimension `dim`.
    Same,
    /// The index never falls, or never rises, as the position in dimension `dim` grows.
    Rising,
    Falling,
    /// The index depends on positions in several dimensions, or is not monotonic.
    Any,
    /// The index depends on no position.
    Constant
  };
  /// An index that counts from the end where it is negative (flash.wrap_index), before the wrap. The wrapped index is
  /// monotonic on each side of the point where the sign changes.
  struct Sign {
    mlir::Value index;
    bool isRising;
  };

  Kind kind = Kind::Any;
  /// The dimension of the sums that the index depends on, unless the kind is Any or Constant.
  unsigned dim = 0;
  /// The wraps in an index that is Rising, Falling, or has a lastDirection. An inner index comes before the index that
  /// contains it.
  mlir::SmallVector<Sign, 1> signs = {};
  /// For the kind Any: 1 if the index never falls, -1 if it never rises, as the last position of a pair grows and the
  /// others stay the same; 0 if neither is known.
  int lastDirection = 0;
};

/// Analyzes each index of `op`.
mlir::SmallVector<ScatterIndex> analyzeScatterIndices(mlir::flash::ScatterSumOp op);

} // namespace flashc

#endif // FLASHC_LIB_LAUNCHKERNELS_SCATTERINDEX_H
