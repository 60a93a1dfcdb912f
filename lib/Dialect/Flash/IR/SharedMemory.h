//===- SharedMemory.h - the memory that an op on memrefs reads and writes -----------------------------------------===//
#ifndef FLASHC_LIB_DIALECT_FLASH_IR_SHAREDMEMORY_H
#define FLASHC_LIB_DIALECT_FLASH_IR_SHAREDMEMORY_H

#include "flashc/Dialect/Flash/IR/Step.h"
#include "mlir/IR/Operation.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

namespace mlir::flash {

/// Whether two arrays may share an element. An array is a memref, or a tensor that is made of a memref. Arrays of one
/// buffer may share an element, unless they are views that are proven to be disjoint. Arrays of different buffers share
/// none: different arguments of a function are taken for different buffers, and so are different allocations.
bool mayShareMemory(Value first, Value second);

/// Emits an error if an output of `op` may share memory with another output, with an input, or with an array that a
/// region of `op` reads. Only ops on memrefs are checked.
LogicalResult verifyOutputsAreApart(Operation *op, ArrayRef<StepOperand> inputs, ArrayRef<StepOperand> outputs);

using Effects = SmallVectorImpl<SideEffects::EffectInstance<MemoryEffects::Effect>>;

/// Adds the effects of `op` on memrefs: reads of its inputs, and writes of its outputs.
template <typename Op> void addEffects(Op op, Effects &effects) {
  size_t numInputs = op.getInputs().size();
  for (OpOperand &operand : op->getOpOperands()) {
    if (!isa<MemRefType>(operand.get().getType()))
      continue;
    bool isRead = operand.getOperandNumber() < numInputs;
    effects.emplace_back(isRead ? static_cast<MemoryEffects::Effect *>(MemoryEffects::Read::get())
                                : static_cast<MemoryEffects::Effect *>(MemoryEffects::Write::get()),
                         &operand, SideEffects::DefaultResource::get());
  }
}

} // namespace mlir::flash

#endif // FLASHC_LIB_DIALECT_FLASH_IR_SHAREDMEMORY_H
