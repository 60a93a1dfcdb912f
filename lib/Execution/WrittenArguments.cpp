//===- WrittenArguments.cpp - which arrays of its caller a function changes ---------------------------------------===//

#include "WrittenArguments.h"
#include "mlir/Dialect/Bufferization/IR/Bufferization.h"
#include "mlir/Interfaces/ControlFlowInterfaces.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

using namespace mlir;

namespace {

/// Follows the memory of an argument to the ops that may write it.
class WriteFinder {
public:
  bool isWritten(Value memref) {
    follow(memref);
    while (!found && !open.empty())
      for (OpOperand &use : open.pop_back_val().getUses())
        visit(use);
    return found;
  }

private:
  void visit(OpOperand &use);
  void visitCall(CallOpInterface call, OpOperand &use);
  void follow(Value value) {
    bool hasMemory = isa<BaseMemRefType>(value.getType()) || value.getDefiningOp<bufferization::ToTensorOp>();
    if (hasMemory && seen.insert(value).second)
      open.push_back(value);
  }
  template <typename Values> void followAll(Values values) {
    for (Value value : values)
      follow(value);
  }

  SmallVector<Value> open;
  llvm::DenseSet<Value> seen;
  bool found = false;
};

} // namespace

/// Whether `op` may write the memory of the operand, or may write memory without naming a value. True for unknown ops.
static bool mayWrite(Operation *op, OpOperand &operand) {
  auto interface = dyn_cast<MemoryEffectOpInterface>(op);
  if (!interface) // the effects of an op with regions are those of the ops inside, which are visited too
    return !op->hasTrait<OpTrait::HasRecursiveMemoryEffects>() && !op->hasTrait<OpTrait::IsTerminator>();
  SmallVector<MemoryEffects::EffectInstance> effects;
  interface.getEffects(effects);
  return llvm::any_of(effects, [&](const MemoryEffects::EffectInstance &effect) {
    bool isOther = effect.getValue() && effect.getValue() != operand.get();
    return !isOther && isa<MemoryEffects::Write>(effect.getEffect());
  });
}

/// Follows the memory of the operand `use` into the called function, which has it as an argument. Also follows it to
/// the results of the call, because the function may return it.
void WriteFinder::visitCall(CallOpInterface call, OpOperand &use) {
  auto callee = dyn_cast_or_null<func::FuncOp>(call.resolveCallable());
  if (!callee || callee.isExternal()) {
    found = true;
    return;
  }
  follow(callee.getArgument(use.getOperandNumber()));
  followAll(call->getResults());
}

void WriteFinder::visit(OpOperand &use) {
  Operation *op = use.getOwner();
  if (isa<bufferization::ToTensorOp, bufferization::ToBufferOp>(op))
    return followAll(op->getResults());
  if (isa<TensorType>(use.get().getType())) // an op that has a tensor as an operand does not write its memory
    return;
  if (auto call = dyn_cast<CallOpInterface>(op))
    return visitCall(call, use);
  found |= mayWrite(op, use);
  followAll(op->getResults());
  for (Region &region : op->getRegions())
    for (Block &block : region)
      followAll(block.getArguments());
  for (Block *successor : op->getSuccessors())
    followAll(successor->getArguments());
  if (op->hasTrait<OpTrait::IsTerminator>() && !isa<func::ReturnOp>(op)) {
    followAll(op->getParentOp()->getResults());
    for (Block &block : *op->getParentRegion())
      if (!isa<func::FuncOp>(op->getParentOp()))
        followAll(block.getArguments());
  }
}

llvm::BitVector flashc::findWrittenArguments(func::FuncOp function) {
  llvm::BitVector written(function.getNumArguments());
  for (BlockArgument argument : function.getArguments())
    if (isa<BaseMemRefType>(argument.getType()))
      written[argument.getArgNumber()] = WriteFinder().isWritten(argument);
  return written;
}
