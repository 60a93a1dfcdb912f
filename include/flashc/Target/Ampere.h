//===- Ampere.h - facts about sm_80, each with its source ---------------------------------------------------------===//
// PTX for sm_80 also runs on all later GPUs (PTX ISA, .target). For sm_80 there are only kernels of warp programs.
//===--------------------------------------------------------------------------------------------------------------===//
#ifndef FLASHC_TARGET_AMPERE_H
#define FLASHC_TARGET_AMPERE_H

#include "flashc/Target/GPUTarget.h"

namespace flashc {

inline constexpr GPUTarget kAmpere = [] {
  GPUTarget target;
  target.name = "sm_80";
  // .shared::cta needs PTX ISA 7.8.
  target.ptxFeature = "+ptx80";
  target.atomicAddFeature = "+ptx80";
  // CUDA C++ programming guide, table of compute capabilities: 163 KB.
  target.maxSharedMemory = 166912;
  // PTX ISA 9.7.13.15.2.
  target.barrierBytes = 8;
  // A product is an m16n8k16 of one warp (PTX ISA 9.7.14.5). Tiles have as many columns as on later GPUs.
  target.groupThreads = 128;
  target.productRows = 16;
  target.depthStep = 16;
  target.colStep = 8;
  target.maxCols = 256;
  target.maxBoxRows = 256;
  // A100 (NVIDIA A100 Tensor Core GPU architecture, table 1).
  target.multiprocessors = 108;
  // The same swizzle as in TMA copies on later GPUs, so that products read tiles in the same way.
  target.swizzleBytes = 128;
  target.swizzleAlignment = 1024;
  return target;
}();

} // namespace flashc

#endif // FLASHC_TARGET_AMPERE_H
