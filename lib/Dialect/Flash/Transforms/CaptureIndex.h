//===- CaptureIndex.h - what the indices of a read hang on --------------------------------------------------------===//
#ifndef FLASHC_LIB_DIALECT_FLASH_TRANSFORMS_CAPTUREINDEX_H
#define FLASHC_LIB_DIALECT_FLASH_TRANSFORMS_CAPTUREINDEX_H

#include "flashc/Dialect/Flash/IR/Flash.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"

namespace mlir::flash {

/// How gradients are summed that belong to the element of a read.
struct CaptureIndex {
  /// Rows, columns, diagonals or pairs.
  Gradients gradients;
  /// Whether an index hangs on the batch, and on the head.
  bool dependsOnBatch, dependsOnHead;
};

/// Analyzes the index of a read directly in `score`, the region of an op with scores.
CaptureIndex analyzeCaptureIndex(Region &score, tensor::ExtractOp read);

/// Whether code of `region`, a score or a mask, computes `value` of b, h and the distance j - i, and of nothing else
/// that differs between pairs.
bool hangsOnDistance(Region &region, Value value);

} // namespace mlir::flash

#endif // FLASHC_LIB_DIALECT_FLASH_TRANSFORMS_CAPTUREINDEX_H
