//===- KernelModule.h - kernels that are loaded together ----------------------------------------------------------===//
#ifndef FLASHC_RUNTIME_KERNELMODULE_H
#define FLASHC_RUNTIME_KERNELMODULE_H

#include "flashc/Runtime/CUDADriver.h"
#include "flashc/Runtime/Manifest.h"
#include "llvm/ADT/StringMap.h"

#include <atomic>
#include <memory>
#include <mutex>

namespace flashc {

/// Fails if the kernel is in `ptx` and takes another number of parameters than the manifest lists.
llvm::Error checkEntry(llvm::StringRef ptx, const ManifestKernel &kernel);

/// A module of the driver's: kernels of a manifest, loaded when the first of them is needed. The driver and the
/// manifest outlive it. Its device's context is current where it is loaded and where it ends.
///
/// 1. Threads may call `load` at once: one of them loads, the others wait for it.
/// 2. A load that fails leaves nothing behind, and the next call tries again: memory may be there by then.
/// 3. Functions are written under the lock, before `isLoaded`, and never again; so they are read without it.
/// 4. A stream may be captured meanwhile, by this thread or another. The driver then refuses what a graph would not
///    repeat, loads too, unless the thread's capture mode is relaxed. It is, until the load ends: no graph needs that.
class KernelModule {
public:
  /// `kernels` of `manifest`, all in `code`; the last names the module in errors.
  KernelModule(const cuda::Driver &driver, const Manifest &manifest, llvm::ArrayRef<const ManifestKernel *> kernels,
               llvm::StringRef code)
      : driver(driver), manifest(manifest), kernels(kernels), code(code.str()) {}
  ~KernelModule();
  KernelModule(const KernelModule &) = delete;
  KernelModule &operator=(const KernelModule &) = delete;

  /// Loads the kernels, unless they are. An error has what the driver's assembler says.
  llvm::Error load() {
    return isLoaded.load(std::memory_order_acquire) ? llvm::Error::success() : loadOnce();
  }
  /// One of the kernels, once they are loaded.
  cuda::Function getFunction(llvm::StringRef kernel) const { return functions.lookup(kernel); }

private:
  llvm::Error loadOnce();
  llvm::Error loadCode();
  llvm::Error loadKernel(const ManifestKernel &info);

  const cuda::Driver &driver;
  const Manifest &manifest;
  const llvm::SmallVector<const ManifestKernel *, 4> kernels;
  std::mutex mutex; ///< of what follows
  std::atomic<bool> isLoaded = false;
  /// Until it is loaded.
  std::string code;
  cuda::Module module = nullptr;
  llvm::StringMap<cuda::Function> functions;
};

/// The modules of a kernel: where there are variants, and `code` is PTX whose kernels can be told apart, one for each
/// entry of the manifest, by number, with the others of its launch; else a single one.
std::vector<std::unique_ptr<KernelModule>> makeKernelModules(const cuda::Driver &driver, const Manifest &manifest,
                                                             llvm::StringRef code);

} // namespace flashc

#endif // FLASHC_RUNTIME_KERNELMODULE_H
