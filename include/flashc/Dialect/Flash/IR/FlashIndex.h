//===- FlashIndex.h - indices that count from the end -------------------------------------------------------------===//
//
// The op is described in FlashDataOps.td.
//
//===--------------------------------------------------------------------------------------------------------------===//
#ifndef FLASHC_DIALECT_FLASH_IR_FLASHINDEX_H
#define FLASHC_DIALECT_FLASH_IR_FLASHINDEX_H

#include "flashc/Dialect/Flash/IR/Flash.h"

#define GET_OP_CLASSES
#include "flashc/Dialect/Flash/IR/FlashIndexOps.h.inc"

namespace mlir::flash {

/// Replaces a flash.wrap_index: by its index if that `isNatural` (>= 0), or else by a comparison, a sum and a select.
void expandWrapIndex(RewriterBase &rewriter, WrapIndexOp op, bool isNatural);

/// What an expanded flash.wrap_index was of, of a value that is one; null for another value.
Value matchWrappedIndex(Value value);

} // namespace mlir::flash

#endif // FLASHC_DIALECT_FLASH_IR_FLASHINDEX_H
