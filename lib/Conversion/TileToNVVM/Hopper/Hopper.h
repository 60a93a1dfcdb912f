//===- Hopper.h - declarations shared by the files of Hopper's lowering -------------------------------------------===//
//
// The ops for which Hopper has instructions of its own: products (wgmma), rings and their copies (mbarrier, TMA), roles
// (setmaxnreg), broadcasts, and stores through shared memory.
//
//===--------------------------------------------------------------------------------------------------------------===//
#ifndef FLASHC_LIB_CONVERSION_TILETONVVM_HOPPER_HOPPER_H
#define FLASHC_LIB_CONVERSION_TILETONVVM_HOPPER_HOPPER_H

#include "../Common/Lowering.h"
#include "flashc/Target/Hopper.h"

namespace flashc::tiletonvvm {
using flashc::kHopper;

/// Named barriers (PTX ISA 9.7.13.1). 0: all threads of the CTA, at the start. 1 to 4: consumer w's turn at the Tensor
/// Cores is barrier 1 + w, the number of its warpgroup. 5 to 8: the warps of consumer w.
constexpr int64_t kWarpgroupBarriers = mlir::tile::kMaxConsumers; // plus the number of the warpgroup
static_assert(kWarpgroupBarriers + mlir::tile::kMaxConsumers < kHopper.namedBarriers);

/// Emits a barrier among the warps of this consumer. Each executes the PTX `first` before it.
void emitWarpgroupBarrier(Emitter &emit, const KernelContext &kernel, llvm::StringRef first = "");

/// Spins until the phase of an mbarrier with `parity` has completed. All its instructions are uniform.
void waitForPhase(Emitter &emit, mlir::Value barrier, mlir::Value parity);

/// The place of load number `count` of a ring: the slot's index in the ring (including the owner's offset), and the
/// parity of its turn; both are i32.
struct Turn {
  mlir::Value slot, parity;
};
Turn getTurn(Emitter &emit, mlir::tile::RingType ring, mlir::Value count, mlir::Value owner);

/// The barrier of a slot. A ring is held as the addresses of its slots and of their barriers, full and empty.
mlir::Value getBarrier(Emitter &emit, mlir::Value barriers, mlir::Value slot);
mlir::Value getSlotAddress(Emitter &emit, mlir::tile::RingType ring, mlir::ValueRange places, Turn turn);
/// The number of arrivals by which a warpgroup releases a slot. If threads read the slot (f32), each of them arrives,
/// so that its reads are before the producer's next write. If products read it, one thread arrives for all, since all
/// warps have waited for the products.
int64_t getReleases(mlir::Type elementType);
void waitUntilEmpty(Emitter &emit, mlir::ValueRange places, Turn turn);

/// The weights with which a slope times n is hi * (kHighWeight * n) + (mid + lo) * (kLowWeight * n):
/// `tile.store_slopes`, `tile.alloc_slot columns`.
constexpr float kHighWeight = 64.0f, kLowWeight = 1.0f / 32.0f;

/// Adds all patterns for Hopper, and the types of their ops.
void populateHopperPatterns(KernelPatterns &patterns);

void populateProductPatterns(KernelPatterns &patterns);
void populateRingPatterns(KernelPatterns &patterns);
void populateRolePatterns(KernelPatterns &patterns);
void populateDrawPatterns(KernelPatterns &patterns);
void populateTensorStorePatterns(KernelPatterns &patterns);

} // namespace flashc::tiletonvvm

#endif // FLASHC_LIB_CONVERSION_TILETONVVM_HOPPER_HOPPER_H
