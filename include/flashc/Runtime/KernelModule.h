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
/// runs before and after it. The function may compile the entry. Threads may call it at once; it is not called again
/// for an entry that it returned.
using EntryCode = std::function<llvm::Expected<std::string>(size_t number)>;

/// Marks `error`, which an EntryCode returned, so that isCompileError recognises it.
llvm::Error blameProgram(llvm::Error error);
bool isCompileError(std::error_code code);

/// Fails if `ptx` has the kernel with another number of parameters than the manifest lists.
llvm::Error checkEntry(llvm::StringRef ptx, const ManifestKernel &kernel);

/// A module of the CUDA driver with the kernels of one entry, compiled and loaded at first use. The driver, the
/// manifest and the code must outlive it. The device's context must be current where the module is loaded and
/// destroyed.
///
/// 1. Threads may call `load` at once: one of them gets the code and loads it, the others wait.
/// 2. A load that fails leaves no state behind, and the next call tries again: it may find enough memory.
/// 3. Functions are written under the lock, before `isLoaded` is set, and never after it; so they are read without the
///    lock.
/// 4. This thread or another may be capturing a stream. The driver then refuses calls that a graph would not repeat,
///    including loads, unless the thread's capture mode is relaxed. `load` relaxes the mode until it returns: a graph
///    needs no load.
class KernelModule {
public:
  KernelModule(const cuda::Driver &driver, const Manifest &manifest, size_t number, const EntryCode &getCode)
      : driver(driver), manifest(manifest), number(number), getCode(getCode) {}
  ~KernelModule();
  KernelModule(const KernelModule &) = delete;
  KernelModule &operator=(const KernelModule &) = delete;

  /// Loads the kernels unless they are loaded. The error contains the message of the compiler or of the driver's
  /// assembler.
  llvm::Error load() { return isLoaded.load(std::memory_order_acquire) ? llvm::Error::success() : loadOnce(); }
  /// The function of a kernel, after `load`.
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
