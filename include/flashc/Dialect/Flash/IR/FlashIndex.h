//===- FlashIndex.h - indices that count from the end -------------------------------------------------------------===//
//
// FlashDataOps.td describes flash.wrap_index.
//
//===--------------------------------------------------------------------------------------------------------------===//
#ifndef FLASHC_DIALECT_FLASH_IR_FLASHINDEX_H
#define FLASHC_DIALECT_FLASH_IR_FLASHINDEX_H

#include "flashc/Dialect/Flash/IR/Flash.h"

#define GET_OP_CLASSES
#include "flashc/Dialect/Flash/IR/FlashIndexOps.h.inc"

namespace mlir::flash {

/// Replaces `op` by its index if `isNatural` says that the index is never negative. Otherwise replaces `op` by code
/// that adds the extent to a negative index: a comparison, a sum and a select.
void expandWrapIndex(RewriterBase &rewriter, WrapIndexOp op, bool isNatural);

/// If flash.wrap_index has been expanded to `value`, returns the index that was its operand. Null for other values.
Value matchWrappedIndex(Value value);

} // namespace mlir::flash

#endif // FLASHC_DIALECT_FLASH_IR_FLASHINDEX_H
