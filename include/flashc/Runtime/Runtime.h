//===- Runtime.h - the kernels of a process on its GPUs -----------------------------------------------------------===//
#ifndef FLASHC_RUNTIME_RUNTIME_H
#define FLASHC_RUNTIME_RUNTIME_H

#include "flashc/Runtime/Launcher.h"
#include "flashc/Support/OnceMap.h"

#include <atomic>
#include <map>
#include <mutex>

namespace flashc {

/// A kernel that is loaded on a GPU, together with the objects that it needs. Threads may share it.
class LoadedKernel {
public:
  LoadedKernel(std::shared_ptr<const GPUDevice> device, std::unique_ptr<const Kernel> kernel)
      : device(std::move(device)), kernel(std::move(kernel)) {}
  ~LoadedKernel();

  const Manifest &getManifest() const { return kernel->getManifest(); }
  /// Checks the arguments, starts the kernel on `stream`, and returns before the kernel ends. The arguments are in the
  /// manifest's order. If they do not suit the kernel, the error says what is wrong, and isArgumentMismatch recognises
  /// it. The calling thread's current context stays the same. The first launch of a variant compiles and loads the
  /// variant. Kernel::prepare describes `plan`.
  llvm::Error launch(llvm::ArrayRef<LaunchArgument> arguments, cuda::Stream stream, uint64_t plan = 0) const;
  /// Loads the variants that no launch has needed yet.
  llvm::Error loadAll() const;
  MaskMaps::Statistics getMaskMapStatistics() const { return kernel->getMaskMaps().getStatistics(); }
  /// Frees the mask maps that launches with this plan have made. These launches must have ended.
  llvm::Error forgetPlan(uint64_t plan) const;

private:
  /// Calls `run` while the device's context is current.
  llvm::Error inContext(llvm::function_ref<llvm::Error()> run) const;

  std::shared_ptr<const GPUDevice> device;
  std::unique_ptr<const Kernel> kernel;
};

/// Loads each kernel once on each GPU. Threads may share a Runtime. A kernel may outlive the Runtime that loaded it.
///
/// The CUDA driver assembles PTX, and caches the machine code on disk (CUDA C++ Programming Guide, "Just-in-Time
/// Compilation": CUDA_CACHE_PATH and CUDA_CACHE_DISABLE). flashc has no such cache of its own, because the driver
/// returns machine code only through its linker (cuLinkComplete). The linker assembles for separate compilation, in
/// which ptxas ignores setmaxnreg, spills registers, and serialises wgmma. Such code has 0.6 times the speed on an
/// H200.
class Runtime {
public:
  explicit Runtime(const cuda::Driver &driver) : driver(driver) {}

  /// Loads a kernel on GPU `device` (0 is the first), in its primary context. `key` identifies the kernel.
  llvm::Expected<std::shared_ptr<const LoadedKernel>> load(llvm::StringRef key, EntryCode getCode,
                                                           llvm::StringRef manifest, int device);

  /// The number of kernels loaded so far, each with its variants.
  uint64_t getNumLoads() const { return numLoads; }

private:
  llvm::Expected<std::shared_ptr<const LoadedKernel>> loadNew(EntryCode getCode, llvm::StringRef manifest, int device);
  llvm::Expected<std::shared_ptr<const GPUDevice>> getDevice(int ordinal);

  const cuda::Driver &driver;
  std::mutex mutex; ///< protects `devices`
  std::map<int, std::shared_ptr<const GPUDevice>> devices;
  OnceMap<std::shared_ptr<const LoadedKernel>> kernels;
  std::atomic<uint64_t> numLoads = 0;
};

} // namespace flashc

#endif // FLASHC_RUNTIME_RUNTIME_H
