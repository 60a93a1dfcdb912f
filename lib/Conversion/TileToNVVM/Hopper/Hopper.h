//===- Hopper.h - what the files of Hopper's lowering share -------------------------------------------------------===//
//
// The ops that Hopper has instructions of its own for: products (wgmma), rings and their copies (mbarrier, TMA), roles
// (setmaxnreg), broadcasts, and stores through shared memory.
//
//===--------------------------------------------------------------------------------------------------------------===//
#ifndef FLASHC_LIB_CONVERSION_TILETONVVM_HOPPER_HOPPER_H
#define FLASHC_LIB_CONVERSION_TILETONVVM_HOPPER_HOPPER_H

#include "../Common/Lowering.h"
#include "flashc/Target/Hopper.h"

namespace flashc::tiletonvvm {
using flashc::kHopper;

/// Named barriers (PTX ISA 9.7.13.1). 0: the CTA at the start. 1 to 4: consumer w's turn at the tensor cores is 1 + w,
/// its warpgroup's number. 5 to 8: the warps of consumer w meet.
constexpr int64_t kWarpgroupBarriers = mlir::tile::kMaxConsumers; // plus the warpgroup's number
static_assert(kWarpgroupBarriers + mlir::tile::kMaxConsumers < kHopper.namedBarriers);

/// The warps of this consumer meet, each behind the PTX `first`.
void emitWarpgroupBarrier(Emitter &emit, const KernelContext &kernel, llvm::StringRef first = "");

/// Spin until the phase of an mbarrier with `parity` has completed. Every instruction in it is uniform.
void waitForPhase(Emitter &emit, mlir::Value barrier, mlir::Value parity);

/// Where load number `count` of a ring goes: the slot's index within the ring (owner included), and the parity of its
/// turn; both i32.
struct Turn {
  mlir::Value slot, parity;
};
Turn getTurn(Emitter &emit, mlir::tile::RingType ring, mlir::Value count, mlir::Value owner);

/// The places of a ring, which is held as the addresses of its slots and of their barriers, full and empty.
mlir::Value getBarrier(Emitter &emit, mlir::Value barriers, mlir::Value slot);
mlir::Value getSlotAddress(Emitter &emit, mlir::tile::RingType ring, mlir::ValueRange places, Turn turn);
/// How often a warpgroup arrives when it releases a slot: each of its threads, where threads read it (f32), so that
/// their reads are in front of what the producer writes next; one for all, where products read it, which all of its
/// warps have waited for.
int64_t getReleases(mlir::Type elementType);
void waitUntilEmpty(Emitter &emit, mlir::ValueRange places, Turn turn);

/// A slope times n is hi * (kHighWeight * n) + (mid + lo) * (kLowWeight * n): `tile.store_slopes`,
/// `tile.alloc_slot columns`.
constexpr float kHighWeight = 64.0f, kLowWeight = 1.0f / 32.0f;

/// All of Hopper's patterns, and the types of their ops.
void populateHopperPatterns(KernelPatterns &patterns);

void populateProductPatterns(KernelPatterns &patterns);
void populateRingPatterns(KernelPatterns &patterns);
void populateRolePatterns(KernelPatterns &patterns);
void populateDrawPatterns(KernelPatterns &patterns);
void populateTensorStorePatterns(KernelPatterns &patterns);

} // namespace flashc::tiletonvvm

#endif // FLASHC_LIB_CONVERSION_TILETONVVM_HOPPER_HOPPER_H
