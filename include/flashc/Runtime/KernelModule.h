//===- KernelModule.h - kernels that are loaded together ----------------------------------------------------------===//
#ifndef FLASHC_RUNTIME_KERNELMODULE_H
#define FLASHC_RUNTIME_KERNELMODULE_H

#include "flashc/Runtime/CUDADriver.h"
#include "flashc/Runtime/Manifest.h"
#include "llvm/ADT/StringMap.h"

#include <atomic>
#include <functional>
#include <mutex>

namespace flashc {

/// Returns the PTX or the cubin of entry `number` of a manifest (Manifest::getEntry), with the kernels that its launch
/// runs before and after it. The function may compile the entry. Several threads may call it at the same time. If it
/// has returned the code of an entry, it is not called for this entry again.
using EntryCode = std::function<llvm::Expected<std::string>(size_t number)>;

/// Marks `error`, which an EntryCode returned, so that isCompileError recognises it.
llvm::Error blameProgram(llvm::Error error);
bool isCompileError(std::error_code code);

/// Fails if `kernel` has another number of parameters in `ptx` than in the manifest.
llvm::Error checkEntry(llvm::StringRef ptx, const ManifestKernel &kernel);

/// A module of the CUDA driver with the kernels of one entry, which is compiled and loaded at first use. The driver,
/// the manifest and `getCode` must outlive the object. The device's context must be current where the module is loaded
/// and destroyed.
///
/// 1. Several threads may call `load` at the same time: one of them gets the code and loads it, and the others wait.
/// 2. A load that fails changes nothing, and the next call tries again: it may find enough memory.
/// 3. `functions` is written under the lock, before `isLoaded` is set, and never afterwards. So it is read without the
///    lock.
/// 4. This thread or another one may be capturing a stream. The driver then refuses calls that a graph would not
///    repeat, including loads, unless the thread's capture mode is relaxed. `load` relaxes the mode until it returns.
///    This is safe, since a graph need not repeat a load.
class KernelModule {
public:
  KernelModule(const cuda::Driver &driver, const Manifest &manifest, size_t number, const EntryCode &getCode)
      : driver(driver), manifest(manifest), number(number), getCode(getCode) {}
  ~KernelModule();
  KernelModule(const KernelModule &) = delete;
  KernelModule &operator=(const KernelModule &) = delete;

  /// Loads the kernels unless they are loaded already. The error contains the message of the compiler, or of the
  /// assembler in the driver.
  llvm::Error load() { return isLoaded.load(std::memory_order_acquire) ? llvm::Error::success() : loadOnce(); }
  /// Returns the function of a kernel. Is called after `load`.
  cuda::Function getFunction(llvm::StringRef kernel) const { return functions.lookup(kernel); }

private:
  llvm::Error loadOnce();
  llvm::Error loadCode(const std::string &code);
  llvm::Error loadKernel(const ManifestKernel &info);

  const cuda::Driver &driver;
  const Manifest &manifest;
  const size_t number;
  const EntryCode &getCode;
  std::mutex mutex; ///< protects the members below
  std::atomic<bool> isLoaded = false;
  cuda::Module module = nullptr;
  llvm::StringMap<cuda::Function> functions;
};

} // namespace flashc

#endif // FLASHC_RUNTIME_KERNELMODULE_H
