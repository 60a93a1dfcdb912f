//===- StepTiling.h - the tiles of a step -------------------------------------------------------------------------===//
#ifndef FLASHC_DIALECT_FLASH_IR_STEPTILING_H
#define FLASHC_DIALECT_FLASH_IR_STEPTILING_H

#include "flashc/Dialect/Flash/IR/Flash.h"

namespace mlir::flash {

/// The implementation of TilingInterface for every step, over (b, h, i, j), by the dimensions that its operands move
/// with. Tiles have static shapes: inputs that exceed their array are padded, and the results are cut back.
SmallVector<Range> getStepDomain(OpBuilder &b, StepOpInterface op);
SmallVector<utils::IteratorType> getStepIterators(StepOpInterface op);
FailureOr<TilingResult> emitStepTile(OpBuilder &b, StepOpInterface op, ArrayRef<OpFoldResult> offsets,
                                     ArrayRef<OpFoldResult> sizes);
void getStatePosition(OpBuilder &b, StepOpInterface op, unsigned number, ArrayRef<OpFoldResult> offsets,
                      ArrayRef<OpFoldResult> sizes, SmallVector<OpFoldResult> &resultOffsets,
                      SmallVector<OpFoldResult> &resultSizes);

} // namespace mlir::flash

#endif // FLASHC_DIALECT_FLASH_IR_STEPTILING_H
