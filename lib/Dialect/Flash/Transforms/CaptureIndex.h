//===- CaptureIndex.h - which positions the indices of a read depend on -------------------------------------------===//
#ifndef FLASHC_LIB_DIALECT_FLASH_TRANSFORMS_CAPTUREINDEX_H
#define FLASHC_LIB_DIALECT_FLASH_TRANSFORMS_CAPTUREINDEX_H

#include "flashc/Dialect/Flash/IR/Flash.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"

namespace mlir::flash {

/// How the gradients that belong to the element of a read are summed.
struct CaptureIndex {
  /// Sums of rows, columns, diagonals or pairs.
  Gradients gradients;
  /// Whether an index depends on the batch, and on the head.
  bool dependsOnBatch, dependsOnHead;
};

/// Analyzes the indices of a read that stands directly in `score`, the score region of an op.
CaptureIndex analyzeCaptureIndex(Region &score, tensor::ExtractOp read);

/// Whether `value` in `region`, a score or a mask, depends on the pair (i, j) through its distance j - i only. It may
/// depend on b and h.
bool hangsOnDistance(Region &region, Value value);

} // namespace mlir::flash

#endif // FLASHC_LIB_DIALECT_FLASH_TRANSFORMS_CAPTUREINDEX_H
