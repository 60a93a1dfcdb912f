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
  /// A wrap in an index (flash.wrap_index), that is, a part that counts from the end if it is negative. `index` is that
  /// part before the wrap. The wrapped value is monotonic on each side of the position at which `index` changes its
  /// sign.
  struct Sign {
    mlir::Value index;
    bool isRising;
  };

  Kind kind = Kind::Any;
  /// The dimension of the sums that the index depends on. Not used for the kinds Any and Constant.
  unsigned dim = 0;
  /// The wraps (Sign) in an index of kind Rising or Falling, or in an index with a lastDirection. A wrap comes after
  /// the wraps inside of it.
  mlir::SmallVector<Sign, 1> signs = {};
  /// For the kind Any: 1 if the index never falls, and -1 if it never rises, while the position in the last dimension
  /// of the pairs grows and the positions in the other dimensions stay the same. 0 if neither is known.
  int lastDirection = 0;
};

/// Analyzes each index of `op`.
mlir::SmallVector<ScatterIndex> analyzeScatterIndices(mlir::flash::ScatterSumOp op);

} // namespace flashc

#endif // FLASHC_LIB_LAUNCHKERNELS_SCATTERINDEX_H
