//===- CaptureIndex.h - which positions the indices of a read depend on -------------------------------------------===//
#ifndef FLASHC_LIB_DIALECT_FLASH_TRANSFORMS_CAPTUREINDEX_H
#define FLASHC_LIB_DIALECT_FLASH_TRANSFORMS_CAPTUREINDEX_H

#include "flashc/Dialect/Flash/IR/Flash.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"

namespace mlir::flash {

/// How the gradients of a score are summed for one read of a captured tensor.
struct CaptureIndex {
  /// Whether there is one sum for each row, for each column, for each diagonal or for each pair.
  Gradients gradients;
  /// Whether any index of the read depends on the batch, and whether any depends on the head.
  bool dependsOnBatch, dependsOnHead;
};

/// Analyzes the indices of `read`. The read must be in `score`, the score region of an op, and outside of control flow.
CaptureIndex analyzeCaptureIndex(Region &score, tensor::ExtractOp read);

/// Whether `value` depends on the pair (i, j) only through the distance j - i. `value` may also depend on b and h.
/// `region` is the score or the mask that contains it.
bool hangsOnDistance(Region &region, Value value);

} // namespace mlir::flash

#endif // FLASHC_LIB_DIALECT_FLASH_TRANSFORMS_CAPTUREINDEX_H
