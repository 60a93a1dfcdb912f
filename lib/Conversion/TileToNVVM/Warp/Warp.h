//===- Warp.h - the lowering of warp programs ---------------------------------------------------------------------===//
//
// Kernels whose warps load for themselves (tile.warp_program): rings of one warp, products by mma.sync, and the merge
// of what the warps and the CTAs of a cluster have. The tiles in registers are those of Common/Lowering.h, of one warp:
// its 16 rows.
//
//===--------------------------------------------------------------------------------------------------------------===//
#ifndef FLASHC_LIB_CONVERSION_TILETONVVM_WARP_WARP_H
#define FLASHC_LIB_CONVERSION_TILETONVVM_WARP_WARP_H

#include "../Common/Lowering.h"

namespace flashc::tiletonvvm {

/// All patterns of warp programs, and the types of their ops.
void populateWarpPatterns(KernelPatterns &patterns);

void populateWarpProgramPatterns(KernelPatterns &patterns);
void populateWarpRingPatterns(KernelPatterns &patterns);
void populateWarpProductPatterns(KernelPatterns &patterns);
void populateWarpMergePatterns(KernelPatterns &patterns);
void populatePackedRowPatterns(KernelPatterns &patterns);

/// The lanes of the warp meet, and see each other's writes (PTX ISA 9.7.13.2).
void emitWarpBarrier(Emitter &emit);
/// All warps of the CTA do.
void emitCTABarrier(Emitter &emit);
/// Elements `chosen` of the four of a word, f8E4M3FN or i8, as a pair of 16-bit floats; exact. Of f8E4M3FN on Hopper
/// only.
mlir::Value widenBytes(Emitter &emit, mlir::Type bytes, mlir::Type element, mlir::Value word,
                       std::array<int, 2> chosen);
/// The number of the lane in its warp.
mlir::Value getLane(Emitter &emit, const KernelContext &kernel);
/// Spins until the phase of an mbarrier with `parity` has completed (PTX ISA 9.7.13.15).
void waitForBarrier(Emitter &emit, const GPUTarget &target, mlir::Value barrier, mlir::Value parity);

} // namespace flashc::tiletonvvm

#endif // FLASHC_LIB_CONVERSION_TILETONVVM_WARP_WARP_H
