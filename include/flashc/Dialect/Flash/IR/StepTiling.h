//===- StepTiling.h - the tiles of a step -------------------------------------------------------------------------===//
#ifndef FLASHC_DIALECT_FLASH_IR_STEPTILING_H
#define FLASHC_DIALECT_FLASH_IR_STEPTILING_H

#include "flashc/Dialect/Flash/IR/Flash.h"

namespace mlir::flash {

/// These functions implement TilingInterface for every step. The iteration space is (b, h, i, j), and the dimensions of
/// the operands (StepDim) say which part of each operand a tile has. Tiles have static shapes: an input tile that
/// exceeds its array is padded, and the result of the tile is cut back.
SmallVector<Range> getStepDomain(OpBuilder &b, StepOpInterface op);
SmallVector<utils::IteratorType> getStepIterators(StepOpInterface op);
FailureOr<TilingResult> emitStepTile(OpBuilder &b, StepOpInterface op, ArrayRef<OpFoldResult> offsets,
                                     ArrayRef<OpFoldResult> sizes);
void getStatePosition(OpBuilder &b, StepOpInterface op, unsigned number, ArrayRef<OpFoldResult> offsets,
                      ArrayRef<OpFoldResult> sizes, SmallVector<OpFoldResult> &resultOffsets,
                      SmallVector<OpFoldResult> &resultSizes);

} // namespace mlir::flash

#endif // FLASHC_DIALECT_FLASH_IR_STEPTILING_H
