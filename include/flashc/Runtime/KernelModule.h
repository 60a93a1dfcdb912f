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

/// PTX of an entry of a manifest, by number (Manifest::getEntry), and of the kernels that its launch has before and
/// after it; or a cubin. What is called may compile it: threads call it at once, and never twice for an entry that it
/// had.
using EntryCode = std::function<llvm::Expected<std::string>(size_t number)>;

/// `error`, that of an EntryCode, with the code by which isCompileError knows that it is the compiler's.
llvm::Error blameProgram(llvm::Error error);
bool isCompileError(std::error_code code);

/// Fails if the kernel is in `ptx` and takes another number of parameters than the manifest lists.
llvm::Error checkEntry(llvm::StringRef ptx, const ManifestKernel &kernel);

/// A module of the driver's: the kernels of an entry, made and loaded when they are first needed. The driver, the
/// manifest and the code outlive it. Its device's context is current where it is loaded and where it ends.
///
/// 1. Threads may call `load` at once: one of them asks for the code and loads it, the others wait for it.
/// 2. A load that fails leaves nothing behind, and the next call tries again: memory may be there by then.
/// 3. Functions are written under the lock, before `isLoaded`, and never again; so they are read without it.
/// 4. A stream may be captured meanwhile, by this thread or another. The driver then refuses what a graph would not
///    repeat, loads too, unless the thread's capture mode is relaxed. It is, until the load ends: no graph needs that.
class KernelModule {
public:
  KernelModule(const cuda::Driver &driver, const Manifest &manifest, size_t number, const EntryCode &getCode)
      : driver(driver), manifest(manifest), number(number), getCode(getCode) {}
  ~KernelModule();
  KernelModule(const KernelModule &) = delete;
  KernelModule &operator=(const KernelModule &) = delete;

  /// Loads the kernels, unless they are. An error has what the compiler or the driver's assembler says.
  llvm::Error load() { return isLoaded.load(std::memory_order_acquire) ? llvm::Error::success() : loadOnce(); }
  /// One of the kernels, once they are loaded.
  cuda::Function getFunction(llvm::StringRef kernel) const { return functions.lookup(kernel); }

private:
  llvm::Error loadOnce();
  llvm::Error loadCode(const std::string &code);
  llvm::Error loadKernel(const ManifestKernel &info);

  const cuda::Driver &driver;
  const Manifest &manifest;
  const size_t number;
  const EntryCode &getCode;
  std::mutex mutex; ///< of what follows
  std::atomic<bool> isLoaded = false;
  cuda::Module module = nullptr;
  llvm::StringMap<cuda::Function> functions;
};

} // namespace flashc

#endif // FLASHC_RUNTIME_KERNELMODULE_H
