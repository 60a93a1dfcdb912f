//===- SharedMemory.h - which arrays of an op on memrefs may share elements ---------------------------------------===//
#ifndef FLASHC_LIB_DIALECT_FLASH_IR_SHAREDMEMORY_H
#define FLASHC_LIB_DIALECT_FLASH_IR_SHAREDMEMORY_H

#include "flashc/Dialect/Flash/IR/Step.h"
#include "mlir/IR/Operation.h"

namespace mlir::flash {

/// Whether an element may be of both arrays, memrefs or tensors of memrefs: one is the other, or both may be views of
/// one buffer and are not proven apart. Different arguments of a function are apart, as are different allocations.
bool mayShareMemory(Value first, Value second);

/// Diagnoses an output of `op`, on memrefs, that may share memory with another output, with an input, or with an array
/// that a region reads.
LogicalResult verifyOutputsAreApart(Operation *op, ArrayRef<StepOperand> inputs, ArrayRef<StepOperand> outputs);

} // namespace mlir::flash

#endif // FLASHC_LIB_DIALECT_FLASH_IR_SHAREDMEMORY_H
