//===- Hopper.cpp - the patterns of Hopper, and its types ---------------------------------------------------------===//

#include "Hopper.h"

using namespace mlir;
using namespace mlir::tile;
using namespace flashc::tiletonvvm;

static void addTypes(TileTypeConverter &converter, MLIRContext *context) {
  Type i32 = IntegerType::get(context, 32), i64 = IntegerType::get(context, 64);
  // A ring is held as three addresses in shared memory: those of its first slot, first full barrier and first empty
  // barrier.
  converter.addConversion([i32](RingType type, SmallVectorImpl<Type> &types) -> std::optional<LogicalResult> {
    types.append(3, i32);
    return success();
  });
  // A slot is held as the address field of its matrix descriptor, and the address of its empty barrier.
  converter.addConversion([i32, i64](SlotType type, SmallVectorImpl<Type> &types) -> std::optional<LogicalResult> {
    types.append({i64, i32});
    return success();
  });
  converter.addConversion([](TensorMapType type) -> Type { return LLVM::LLVMPointerType::get(type.getContext()); });
}

void flashc::tiletonvvm::populateHopperPatterns(KernelPatterns &patterns) {
  addTypes(patterns.converter, patterns.set.getContext());
  populateProductPatterns(patterns);
  populateRingPatterns(patterns);
  populateTensorStorePatterns(patterns);
  populateRolePatterns(patterns);
  populateDrawPatterns(patterns);
}
