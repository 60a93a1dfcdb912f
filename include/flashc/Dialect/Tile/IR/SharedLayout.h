//===- SharedLayout.h - what lies where in a CTA's shared memory --------------------------------------------------===//
#ifndef FLASHC_DIALECT_TILE_IR_SHAREDLAYOUT_H
#define FLASHC_DIALECT_TILE_IR_SHAREDLAYOUT_H

#include "flashc/Dialect/Tile/IR/Tile.h"
#include "llvm/ADT/MapVector.h"

namespace mlir::tile {

/// Slots of one size, those of all consumers together; each slot of a ring has two barriers.
struct SharedAllocation {
  int64_t slots, slotBytes;
  bool isRing = false;
};

/// Byte offsets: the slots of all allocations in their order, the barriers of the rings, and broadcasts.
struct SharedLayout {
  struct Place {
    int64_t data = 0, full = 0, empty = 0;
  };
  SmallVector<Place> places;
  /// The offset of the barriers of published numbers, which the numbers follow; none if no numbers are published.
  std::optional<int64_t> published;
  /// Room for alignment included.
  int64_t bytes = 0;
};

/// `publishWords` is 0 if nothing is published.
SharedLayout layOutShared(const GPUTarget &target, ArrayRef<SharedAllocation> allocations, int64_t publishWords);

/// Where the allocations of a kernel are.
struct KernelLayout : SharedLayout {
  explicit KernelLayout(gpu::GPUFuncOp kernel);
  Place getPlace(Operation *alloc) const { return places[numbers.lookup(alloc)]; }

  /// By allocation, in the layout's order: the code that follows it is the same in every run.
  llvm::MapVector<Operation *, unsigned> numbers;
};

/// What the CTAs of a cluster push into the shared memory of each of them, in bytes.
int64_t getClusterMergeBytes(MergeClusterOp op);

} // namespace mlir::tile

#endif // FLASHC_DIALECT_TILE_IR_SHAREDLAYOUT_H
