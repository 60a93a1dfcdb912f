//===- SharedLayout.h - the layout of a CTA's shared memory -------------------------------------------------------===//
#ifndef FLASHC_DIALECT_TILE_IR_SHAREDLAYOUT_H
#define FLASHC_DIALECT_TILE_IR_SHAREDLAYOUT_H

#include "flashc/Dialect/Tile/IR/Tile.h"
#include "llvm/ADT/MapVector.h"

namespace mlir::tile {

/// Slots of one size. `slots` counts the slots of all consumers. In a ring each slot has two barriers.
struct SharedAllocation {
  int64_t slots, slotBytes;
  bool isRing = false;
};

/// The offsets in bytes of the slots of all allocations, of the barriers of the rings, and of the broadcasts
/// (tile.publish). Shared memory has them in this order.
struct SharedLayout {
  struct Place {
    int64_t data = 0, full = 0, empty = 0;
  };
  SmallVector<Place> places;
  /// The offset of the broadcasts: first their barriers, then their numbers. None if there are no broadcasts.
  std::optional<int64_t> published;
  /// The size of the layout in bytes, including room for alignment.
  int64_t bytes = 0;
};

/// Lays `allocations` out one after the other, followed by broadcasts of `publishWords` numbers each. If `publishWords`
/// is 0, there are no broadcasts.
SharedLayout layOutShared(const GPUTarget &target, ArrayRef<SharedAllocation> allocations, int64_t publishWords);

/// The layout of the allocations of a kernel.
struct KernelLayout : SharedLayout {
  explicit KernelLayout(gpu::GPUFuncOp kernel);
  Place getPlace(Operation *alloc) const { return places[numbers.lookup(alloc)]; }

  /// The number of each allocation, in the order of the layout, so that code that iterates over it is deterministic.
  llvm::MapVector<Operation *, unsigned> numbers;
};

/// Returns the number of bytes that the CTAs of a cluster push into the shared memory of each CTA.
int64_t getClusterMergeBytes(MergeClusterOp op);

} // namespace mlir::tile

#endif // FLASHC_DIALECT_TILE_IR_SHAREDLAYOUT_H
