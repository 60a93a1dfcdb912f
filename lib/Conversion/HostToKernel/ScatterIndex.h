//===- ScatterIndex.h - how an index moves with a position --------------------------------------------------------===//
#ifndef FLASHC_LIB_CONVERSION_HOSTTOKERNEL_SCATTERINDEX_H
#define FLASHC_LIB_CONVERSION_HOSTTOKERNEL_SCATTERINDEX_H

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
    /// Of several positions, or of one in both directions.
    Any,
    /// Of none.
    Constant
  };
  Kind kind = Kind::Any;
  /// Which dimension of the sums the position is, unless the kind is Any or Constant.
  unsigned dim = 0;
};

/// Of each index.
mlir::SmallVector<ScatterIndex> analyzeScatterIndices(mlir::flash::ScatterSumOp op);

} // namespace flashc

#endif // FLASHC_LIB_CONVERSION_HOSTTOKERNEL_SCATTERINDEX_H
