//===- SharedMemory.h - which arrays of an op on memrefs may share elements ---------------------------------------===//
#ifndef FLASHC_LIB_DIALECT_FLASH_IR_SHAREDMEMORY_H
#define FLASHC_LIB_DIALECT_FLASH_IR_SHAREDMEMORY_H

#include "flashc/Dialect/Flash/IR/Step.h"
#include "mlir/IR/Operation.h"

namespace mlir::flash {

/// Whether two arrays (memrefs, or tensors made of memrefs) may share an element: they are the same array, or both may
/// be views of one buffer and are not proven disjoint. Different arguments of a function are disjoint, and so are
/// different allocations.
bool mayShareMemory(Value first, Value second);

/// Diagnoses an output of `op`, on memrefs, that may share memory with another output, with an input, or with an array
/// that a region reads.
LogicalResult verifyOutputsAreApart(Operation *op, ArrayRef<StepOperand> inputs, ArrayRef<StepOperand> outputs);

} // namespace mlir::flash

#endif // FLASHC_LIB_DIALECT_FLASH_IR_SHAREDMEMORY_H
