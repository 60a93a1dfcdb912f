//===- GPURun.h - runs a compiled kernel on arrays of the host ----------------------------------------------------===//
#ifndef FLASHC_EXECUTION_GPURUN_H
#define FLASHC_EXECUTION_GPURUN_H

#include "flashc/Execution/HostTensor.h"
#include "flashc/Runtime/KernelModule.h"

namespace flashc {

struct GPURun {
  std::string device;
  /// The mean time of several launches, without the first launch.
  float milliseconds = 0;
};

/// Copies `arguments` to the first GPU, launches the kernel once, and copies the outputs back. Then launches the kernel
/// several times more to measure the time. `arguments` are in the manifest's order.
llvm::Expected<GPURun> runOnGPU(const cuda::Driver &driver, EntryCode getCode, const Manifest &manifest,
                                llvm::MutableArrayRef<HostTensor> arguments);

} // namespace flashc

#endif // FLASHC_EXECUTION_GPURUN_H
