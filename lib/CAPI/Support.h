//===- Support.h - what the C API's files share -------------------------------------------------------------------===//
#ifndef FLASHC_LIB_CAPI_SUPPORT_H
#define FLASHC_LIB_CAPI_SUPPORT_H

#include "flashc-c/flashc.h"
#include "flashc/Compiler/KernelCache.h"
#include "flashc/Execution/HostKernel.h"
#include "flashc/Runtime/Runtime.h"

namespace flashc::capi {

/// The object that a FlashcContext points to: everything that calls share. Kernels and other handles keep a reference
/// to it, so any of them may outlive the FlashcContext.
class Context {
public:
  /// An empty `cacheDirectory` means that there is no folder for a cache.
  Context(std::string cacheDirectory, std::optional<DiskCache::Options> diskOptions);

  const mlir::DialectRegistry registry;
  const std::string cacheDirectory;
  std::optional<DiskCache> disk;
  KernelCache kernels;
  OnceMap<std::shared_ptr<const HostKernel>> hostKernels;

  /// Returns the GPU runtime, which the first call creates. If there is none, the error says why.
  llvm::Expected<Runtime *> getRuntime();
  /// Returns the number of kernels that the runtime has loaded.
  uint64_t getNumLoads();

private:
  std::mutex mutex; ///< guards `runtime`
  std::unique_ptr<Runtime> runtime;
};

/// The object that a FlashcKernel points to.
struct KernelHandle {
  std::shared_ptr<Context> context;
  std::shared_ptr<const CachedKernel> kernel;
};

/// The object that a FlashcLoadedKernel points to. Either the kernel for a GPU or the kernel for the CPU is set.
struct LoadedKernelHandle {
  std::shared_ptr<Context> context;
  std::shared_ptr<const LoadedKernel> gpu;
  std::shared_ptr<const HostKernel> host;
};

inline const std::shared_ptr<Context> &unwrap(FlashcContext context) {
  return *static_cast<std::shared_ptr<Context> *>(context.ptr);
}
inline const KernelHandle &unwrap(FlashcKernel kernel) { return *static_cast<KernelHandle *>(kernel.ptr); }
inline const LoadedKernelHandle &unwrap(FlashcLoadedKernel kernel) {
  return *static_cast<LoadedKernelHandle *>(kernel.ptr);
}

/// Calls `body`. If `body` throws, returns FLASHC_OUT_OF_MEMORY. LLVM and flashc do not throw; but the C++ library does
/// if the system has no more memory, threads or locks, and so does LLVM's handler for failed allocations. A caller of
/// the API need not be C++, so no exception may reach it: every API function that may allocate is one call of guard or
/// guardOr.
FlashcStatus guard(char **message, llvm::function_ref<FlashcStatus()> body);

/// Calls `body` and returns its result. If `body` throws, returns `otherwise`.
template <typename T> T guardOr(T otherwise, llvm::function_ref<T()> body) {
  guard(nullptr, [&] {
    otherwise = body();
    return FLASHC_OK;
  });
  return otherwise;
}

/// Returns a copy of `text` that flashcStringDestroy frees.
char *copyText(llvm::StringRef text);

/// Returns `status`. If `message` is not null, sets `*message` to a copy of `text` without the last newline, or to null
/// if there is no memory.
FlashcStatus fail(FlashcStatus status, llvm::StringRef text, char **message);
/// Fails with the error's text. The status is FLASHC_ARGUMENT_MISMATCH if isArgumentMismatch recognises the error,
/// FLASHC_COMPILE_ERROR if isCompileError does, and `status` otherwise.
FlashcStatus fail(FlashcStatus status, llvm::Error error, char **message);

/// Returns FLASHC_OK. If `message` is not null, sets `*message` to null.
FlashcStatus succeed(char **message);

/// Makes a request to compile `text`. If `options` is null, it has the default options.
KernelRequest makeRequest(std::string text, const FlashcCompileOptions *options, Author author = Author::Caller);

/// Checks that `value` is an enumerator of `type`, that is, a number from 0 to `last`. The error names the checked
/// field, `what`.
llvm::Error checkEnumerator(int value, int last, const llvm::Twine &what, llvm::StringRef type);

/// Returns the element type of a cache. Empty if the cache has the element type of the attention.
llvm::Expected<std::string> getCacheType(FlashcCacheType type);

/// Finds or compiles the kernel of `text`, and returns it in `*out`.
FlashcStatus compileInto(FlashcContext handle, std::string text, Author author, const FlashcCompileOptions *options,
                         FlashcKernel *out, char **message);

/// Prints an attention as a module.
llvm::Expected<std::string> print(const FlashcAttention &attention);

/// The common part of API functions that return the text or the kernel of a description. `description` may be null, as
/// any pointer of the API may. `what` names the description in error messages, with an article. `print` makes the text
/// of the description.
FlashcStatus getText(FlashcContext handle, const void *description, llvm::StringRef what,
                     llvm::function_ref<llvm::Expected<std::string>()> print, char **out, char **message);
FlashcStatus compile(FlashcContext handle, const void *description, llvm::StringRef what,
                     llvm::function_ref<llvm::Expected<std::string>()> print, const FlashcCompileOptions *options,
                     FlashcKernel *out, char **message);

/// Converts arguments for the launcher. Returns nullopt if a pointer is null that must not be null. If `needsStrides`
/// is false, strides may be null, and then count as 0.
std::optional<llvm::SmallVector<LaunchArgument, 8>> convert(const FlashcArgument *arguments, size_t count,
                                                            bool needsStrides);

} // namespace flashc::capi

#endif // FLASHC_LIB_CAPI_SUPPORT_H
