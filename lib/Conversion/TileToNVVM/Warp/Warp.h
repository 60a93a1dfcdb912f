//===- Warp.h - the lowering of warp programs ---------------------------------------------------------------------===//
//
// Kernels whose warps load their own tiles (tile.warp_program). They have rings of one warp, products by mma.sync, and
// a merge of the states of warps and of a cluster's CTAs. Tiles in registers are those of Common/Lowering.h for one
// warp, which has 16 rows.
//
//===--------------------------------------------------------------------------------------------------------------===//
#ifndef FLASHC_LIB_CONVERSION_TILETONVVM_WARP_WARP_H
#define FLASHC_LIB_CONVERSION_TILETONVVM_WARP_WARP_H

#include "../Common/Lowering.h"

namespace flashc::tiletonvvm {

/// Adds all patterns of warp programs, and the types of their ops.
void populateWarpPatterns(KernelPatterns &patterns);

void populateWarpProgramPatterns(KernelPatterns &patterns);
void populateWarpRingPatterns(KernelPatterns &patterns);
void populateWarpProductPatterns(KernelPatterns &patterns);
void populateWarpMergePatterns(KernelPatterns &patterns);
void populatePackedRowPatterns(KernelPatterns &patterns);

/// Emits a barrier among the lanes of the warp, after which they see each other's writes (PTX ISA 9.7.13.2).
void emitWarpBarrier(Emitter &emit);
/// Emits a barrier among all warps of the CTA.
void emitCTABarrier(Emitter &emit);
/// Converts two of the four elements of a word, those with the numbers `chosen`, to a pair of 16-bit floats. The
/// conversion is exact. The elements have type f8E4M3FN or i8; f8E4M3FN needs Hopper.
mlir::Value widenBytes(Emitter &emit, mlir::Type bytes, mlir::Type element, mlir::Value word,
                       std::array<int, 2> chosen);
/// The number of the lane in its warp.
mlir::Value getLane(Emitter &emit, const KernelContext &kernel);
/// Spins until the phase of an mbarrier with `parity` has completed (PTX ISA 9.7.13.15).
void waitForBarrier(Emitter &emit, const GPUTarget &target, mlir::Value barrier, mlir::Value parity);

} // namespace flashc::tiletonvvm

#endif // FLASHC_LIB_CONVERSION_TILETONVVM_WARP_WARP_H
