//===- SeenRows.h - the rows of tiles that the mask can see -------------------------------------------------------===//
#ifndef FLASHC_LIB_CONVERSION_FLASHTOTILE_SEENROWS_H
#define FLASHC_LIB_CONVERSION_FLASHTOTILE_SEENROWS_H

#include "LoopNest.h"
#include "flashc/Conversion/HostToKernel/ScalarCloner.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"

namespace flashc {

/// Bounds of the positions of a dimension, as values of a kernel. Rows outside of the bounds belong to no pair that the
/// mask keeps (flash::SeenPositions). A null value means that there is no such bound.
struct SeenRows {
  mlir::Value begin, end;

  explicit operator bool() const { return begin || end; }
};

/// Emits the bounds of the keys (J) or the queries (I) for the work tile that `scalars` has the positions of.
mlir::FailureOr<SeenRows> emitSeenRows(mlir::ImplicitLocOpBuilder &b, LoopNest &nest, ScalarCloner &scalars,
                                       mlir::flash::StepDim dim);

} // namespace flashc

#endif // FLASHC_LIB_CONVERSION_FLASHTOTILE_SEENROWS_H
