//===- Hopper.h - facts about sm_90a, each with its source --------------------------------------------------------===//
#ifndef FLASHC_TARGET_HOPPER_H
#define FLASHC_TARGET_HOPPER_H

#include "flashc/Target/GPUTarget.h"

namespace flashc {

inline constexpr GPUTarget kHopper = [] {
  GPUTarget target;
  target.name = "sm_90a";
  // The first PTX version with redux, wgmma and setmaxnreg (PTX ISA 8.0).
  target.ptxFeature = "+ptx80";
  // The first PTX version that reduces (red) vectors in device memory (PTX ISA 9.7.13.7).
  target.atomicAddFeature = "+ptx81";
  // CUDA C++ programming guide, table of compute capabilities: 227 KB, 64 K registers.
  target.maxSharedMemory = 232448;
  target.registersPerSM = 65536;
  // `setmaxnreg` takes 24 to 256 (PTX ISA 9.7.20.5). A warp gets registers in units of 256 (programming guide,
  // occupancy), so a thread gets a multiple of 8. Five warpgroups are launched with at most 96 registers per thread,
  // 61440 in all. If roles request more than these 61440, the request waits forever.
  target.minRegisters = 24;
  target.maxRegisters = 256;
  // PTX ISA 9.7.13.1.
  target.namedBarriers = 16;
  // PTX ISA 9.7.13.15.2.
  target.barrierBytes = 8;
  // Four warps issue a wgmma together; its shapes are m64nNk16, N from 8 to 256 in steps of 8 (PTX ISA 9.7.15.2).
  target.groupThreads = 128;
  target.productRows = 64;
  target.depthStep = 16;
  target.colStep = 8;
  target.maxCols = 256;
  target.hasWarpgroupProducts = true;
  target.hasClusters = true;
  target.hasFloat8 = true;
  // The box of a tensor map has at most 256 rows (CUDA driver API, cuTensorMapEncodeTiled).
  target.hasTMA = true;
  target.maxBoxRows = 256;
  // H100 SXM and H200 (NVIDIA H100 Tensor Core GPU architecture, table 1).
  target.multiprocessors = 132;
  // The 128-byte swizzle repeats every 8 rows of 128 bytes. Tiles begin at multiples of these 1024 bytes (PTX ISA
  // 5.5.4).
  target.swizzleBytes = 128;
  target.swizzleAlignment = 1024;
  return target;
}();

} // namespace flashc

#endif // FLASHC_TARGET_HOPPER_H
