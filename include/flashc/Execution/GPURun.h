//===- GPURun.h - runs a compiled kernel on arrays of the host ----------------------------------------------------===//
#ifndef FLASHC_EXECUTION_GPURUN_H
#define FLASHC_EXECUTION_GPURUN_H

#include "flashc/Execution/HostTensor.h"
#include "flashc/Runtime/KernelModule.h"

namespace flashc {

struct GPURun {
  std::string device;
  /// The mean time of several launches after the first.
  float milliseconds = 0;
};

/// Copies `arguments` (in the manifest's order, outputs poisoned) to the first GPU, launches the kernel once, copies
/// the outputs back, and then times more launches.
llvm::Expected<GPURun> runOnGPU(const cuda::Driver &driver, EntryCode getCode, const Manifest &manifest,
                                llvm::MutableArrayRef<HostTensor> arguments);

} // namespace flashc

#endif // FLASHC_EXECUTION_GPURUN_H
