//===- ScalarCode.cpp - inputs of ops, and which ops are scalar code ----------------------------------------------===//

#include "flashc/Dialect/Tile/IR/ScalarCode.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "mlir/Transforms/RegionUtils.h"

using namespace mlir;
using namespace mlir::tile;

SetVector<Value> tile::getInputs(Operation *op) {
  SetVector<Value> inputs(op->operand_begin(), op->operand_end());
  getUsedValuesDefinedAbove(op->getRegions(), inputs);
  return inputs;
}

bool tile::hasLoads(Operation *op) {
  return op->walk([](LoadOp) { return WalkResult::interrupt(); }).wasInterrupted();
}

/// Whether each of `op` and the ops inside of it has no effects or is one of `Ops`.
template <typename... Ops> static bool hasOnlyEffectsOf(Operation *op) {
  auto stopAtEffect = [](Operation *nested) {
    bool isFine =
        isa<Ops...>(nested) || nested->hasTrait<OpTrait::HasRecursiveMemoryEffects>() || isMemoryEffectFree(nested);
    return isFine ? WalkResult::advance() : WalkResult::interrupt();
  };
  return !op->walk(stopAtEffect).wasInterrupted();
}

bool tile::isArithmetic(Operation *op) { return hasOnlyEffectsOf<memref::LoadOp, VoteAnyOp, AllWithinOp>(op); }

bool tile::isScalarCode(Operation *op) {
  auto isScalar = [](Type type) { return type.isIntOrIndexOrFloat() || isa<MemRefType>(type); };
  return llvm::all_of(op->getResultTypes(), isScalar) && hasOnlyEffectsOf<memref::LoadOp>(op);
}
