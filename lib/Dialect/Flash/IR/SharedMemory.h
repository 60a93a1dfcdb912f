//===- SharedMemory.h - the memory that an op on memrefs reads and writes -----------------------------------------===//
#ifndef FLASHC_LIB_DIALECT_FLASH_IR_SHAREDMEMORY_H
#define FLASHC_LIB_DIALECT_FLASH_IR_SHAREDMEMORY_H

#include "flashc/Dialect/Flash/IR/Step.h"
#include "mlir/IR/Operation.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

namespace mlir::flash {

/// Whether two arrays (memrefs, or tensors made of memrefs) may share an element: they are the same array, or both may
/// be views of one buffer and are not proven disjoint. Different arguments of a function are disjoint, and so are
/// different allocations.
bool mayShareMemory(Value first, Value second);

/// Diagnoses an output of `op`, on memrefs, that may share memory with another output, with an input, or with an array
/// that a region reads.
LogicalResult verifyOutputsAreApart(Operation *op, ArrayRef<StepOperand> inputs, ArrayRef<StepOperand> outputs);

using Effects = SmallVectorImpl<SideEffects::EffectInstance<MemoryEffects::Effect>>;

/// Adds the effects of `op` on memrefs: inputs are read, and outputs are written.
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
