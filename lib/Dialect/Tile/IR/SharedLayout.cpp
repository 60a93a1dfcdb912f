//===- SharedLayout.cpp - the layout of a CTA's shared memory -----------------------------------------------------===//

#include "flashc/Dialect/Tile/IR/SharedLayout.h"

using namespace mlir;
using namespace mlir::tile;

SharedLayout tile::layOutShared(const GPUTarget &target, ArrayRef<SharedAllocation> allocations, int64_t publishWords) {
  SharedLayout layout;
  int64_t offset = 0;
  for (const SharedAllocation &allocation : allocations) {
    layout.places.push_back({offset});
    offset += allocation.slots * allocation.slotBytes;
  }
  for (auto [allocation, place] : llvm::zip_equal(allocations, layout.places)) {
    int64_t bytes = allocation.isRing ? allocation.slots * target.barrierBytes : 0;
    place.full = offset;
    place.empty = offset + bytes;
    offset += 2 * bytes;
  }
  if (publishWords) {
    layout.published = offset;
    offset += getPublishBytes(target, publishWords);
  }
  layout.bytes = offset ? offset + target.swizzleAlignment : 0;
  return layout;
}

static SharedAllocation getAllocation(AllocRingOp alloc, const GPUTarget &target, int64_t consumers) {
  RingType ring = alloc.getRing().getType();
  return {(ring.getIsPrivate() ? consumers : 1) * ring.getStages(), ring.getSlotBytes(target), /*isRing=*/true};
}

static SharedAllocation getAllocation(AllocSlotOp alloc, const GPUTarget &target, int64_t consumers) {
  return {alloc.isPrivate() ? consumers : 1, alloc.getBytes(target)};
}

int64_t tile::getClusterMergeBytes(MergeClusterOp op) {
  int64_t floats = cast<RankedTensorType>(op.getAcc().getType()).getDimSize(1) / 2 +
                   4; // a thread's elements in two rows, and the maximum and the sum of each row
  return op->getParentOfType<WarpProgramOp>().getWarps() * 32 * floats * 4;
}

KernelLayout::KernelLayout(gpu::GPUFuncOp kernel) {
  const GPUTarget &target = GPUTarget::of(kernel);
  auto schedule = kernel->getAttrOfType<ScheduleAttr>(kScheduleAttrName);
  WarpProgramOp ofWarps = getWarpProgram(kernel);
  int64_t consumers = ofWarps ? ofWarps.getWarps() : schedule ? schedule.getConsumers() : 1;
  SmallVector<SharedAllocation> allocations;
  auto add = [&](Operation *op, SharedAllocation allocation) {
    numbers[op] = allocations.size();
    allocations.push_back(allocation);
  };
  auto addRings = [&](bool areOfF32) {
    kernel.walk([&](AllocRingOp alloc) {
      if (alloc.getRing().getType().getElementType().isF32() == areOfF32)
        add(alloc, getAllocation(alloc, target, consumers));
    });
  };
  addRings(/*areOfF32=*/false);
  // Slots of columns and rings of f32 come after the other slots and rings, because only they may have sizes that are
  // not multiples of the swizzle's alignment.
  for (SlotRole role : {SlotRole::Output, SlotRole::Ones, SlotRole::Slopes, SlotRole::Columns})
    kernel.walk([&](AllocSlotOp alloc) {
      if (hasRole(alloc.getSlot(), role))
        add(alloc, getAllocation(alloc, target, consumers));
    });
  addRings(/*areOfF32=*/true);
  kernel.walk([&](Operation *op) {
    if (isa<MergeWarpsOp>(op)) // a maximum and a sum for each row
      add(op, {consumers, kWarpRows * 2 * 4});
    else if (auto merge = dyn_cast<MergeClusterOp>(op))
      add(op, {1, getClusterMergeBytes(merge), /*isRing=*/true});
  });
  static_cast<SharedLayout &>(*this) =
      layOutShared(target, allocations, drawsNumbers(kernel) ? getPublishWords(kernel) : 0);
}
