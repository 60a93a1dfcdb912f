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

/// The named barriers (PTX ISA 9.7.13.1). Barrier 0 is for all threads of the CTA, at the start. Barriers 1 to 4 are
/// for turns at the Tensor Cores: consumer w has barrier 1 + w, the number of its warpgroup. Barriers 5 to 8 are for
/// warps: the warps of consumer w have barrier 5 + w.
constexpr int64_t kWarpgroupBarriers = mlir::tile::kMaxConsumers; // plus the number of the warpgroup, 1 + w
static_assert(kWarpgroupBarriers + mlir::tile::kMaxConsumers < kHopper.namedBarriers);

/// Emits a barrier among the warps of this consumer. Each warp executes the PTX `first` before the barrier.
void emitWarpgroupBarrier(Emitter &emit, const KernelContext &kernel, llvm::StringRef first = "");

/// Spins until the phase of an mbarrier with `parity` has completed. All instructions of the loop are uniform.
void waitForPhase(Emitter &emit, mlir::Value barrier, mlir::Value parity);

/// The slot that load number `count` of a ring uses. `slot` is its index in the ring, in which an owner's slots come
/// after those of the owners before it. `parity` is the parity of the slot's turn. Both are i32.
struct Turn {
  mlir::Value slot, parity;
};
Turn getTurn(Emitter &emit, mlir::tile::RingType ring, mlir::Value count, mlir::Value owner);

/// Returns the barrier of a slot. A ring is held as the addresses of its slots, of their full barriers and of their
/// empty barriers.
mlir::Value getBarrier(Emitter &emit, mlir::Value barriers, mlir::Value slot);
mlir::Value getSlotAddress(Emitter &emit, mlir::tile::RingType ring, mlir::ValueRange places, Turn turn);
void waitUntilEmpty(Emitter &emit, mlir::ValueRange places, Turn turn);

/// A slope has three parts, hi, mid and lo, with these weights. The slope times a column number n is hi * (kHighWeight
/// * n) + (mid + lo) * (kLowWeight * n). See `tile.store_slopes` and `tile.alloc_slot columns`.
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
