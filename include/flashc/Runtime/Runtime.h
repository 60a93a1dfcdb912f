//===- Runtime.h - the kernels of a process on its GPUs -----------------------------------------------------------===//
#ifndef FLASHC_RUNTIME_RUNTIME_H
#define FLASHC_RUNTIME_RUNTIME_H

#include "flashc/Runtime/DiskCache.h"
#include "flashc/Runtime/Launcher.h"
#include "flashc/Support/OnceMap.h"

#include <map>
#include <mutex>

namespace flashc {

/// A kernel in the memory of a GPU, with what it needs to stay there. Threads may share it.
class LoadedKernel {
public:
  LoadedKernel(std::shared_ptr<const GPUDevice> device, std::unique_ptr<const Kernel> kernel)
      : device(std::move(device)), kernel(std::move(kernel)) {}
  ~LoadedKernel();

  const Manifest &getManifest() const { return kernel->getManifest(); }
  /// Checks the arguments (the manifest's, in order; an error of isArgumentMismatch says what is wrong with them),
  /// starts the kernel on `stream` and returns before it ends. The calling thread's current context stays what it was.
  llvm::Error launch(llvm::ArrayRef<LaunchArgument> arguments, cuda::Stream stream) const;

private:
  llvm::Error launchInContext(llvm::ArrayRef<LaunchArgument> arguments, cuda::Stream stream) const;

  std::shared_ptr<const GPUDevice> device;
  std::unique_ptr<const Kernel> kernel;
};

/// Loads each kernel once on each GPU. Threads may share it. What it hands out may outlive it.
class Runtime {
public:
  /// `disk`, which may be null and outlives the runtime, keeps machine code.
  Runtime(const cuda::Driver &driver, DiskCache *disk) : driver(driver), disk(disk) {}

  /// The kernel of `ptx` on a GPU (0 is the first), in its primary context.
  llvm::Expected<std::shared_ptr<const LoadedKernel>> load(llvm::StringRef ptx, llvm::StringRef manifest, int device);

  /// Kernels loaded, and those of them whose PTX the driver assembled because no machine code was on disk.
  uint64_t getNumLoads() const { return numLoads; }
  uint64_t getNumAssemblies() const { return numAssemblies; }

private:
  llvm::Expected<std::shared_ptr<const LoadedKernel>> loadNew(llvm::StringRef ptx, llvm::StringRef manifest,
                                                              int device);
  llvm::Expected<std::shared_ptr<const GPUDevice>> getDevice(int ordinal);
  llvm::Expected<std::string> getMachineCode(llvm::StringRef ptx, const GPUDevice &device);

  const cuda::Driver &driver;
  DiskCache *disk;
  std::mutex mutex; ///< of `devices`
  std::map<int, std::shared_ptr<const GPUDevice>> devices;
  OnceMap<std::shared_ptr<const LoadedKernel>> kernels;
  std::atomic<uint64_t> numLoads = 0, numAssemblies = 0;
};

} // namespace flashc

#endif // FLASHC_RUNTIME_RUNTIME_H
