//===- Support.h - what the C API's files share -------------------------------------------------------------------===//
#ifndef FLASHC_LIB_CAPI_SUPPORT_H
#define FLASHC_LIB_CAPI_SUPPORT_H

#include "flashc-c/flashc.h"
#include "flashc/Compiler/KernelCache.h"
#include "flashc/Execution/HostKernel.h"
#include "flashc/Runtime/Runtime.h"

namespace flashc::capi {

/// The object behind a FlashcContext: everything that calls share. Handles share it, so that they may outlive each
/// other.
class Context {
public:
  /// `cacheDirectory` is empty if there is none.
  Context(std::string cacheDirectory, std::optional<DiskCache::Options> diskOptions);

  const mlir::DialectRegistry registry;
  const std::string cacheDirectory;
  std::optional<DiskCache> disk;
  KernelCache kernels;
  OnceMap<std::shared_ptr<const HostKernel>> hostKernels;

  /// Returns the GPU runtime, which the first call creates; the error says why there is none.
  llvm::Expected<Runtime *> getRuntime();
  /// Returns the number of kernels that the runtime loaded.
  uint64_t getNumLoads();

private:
  std::mutex mutex; ///< guards `runtime`
  std::unique_ptr<Runtime> runtime;
};

/// The object behind a FlashcKernel.
struct KernelHandle {
  std::shared_ptr<Context> context;
  std::shared_ptr<const CachedKernel> kernel;
};

/// The object behind a FlashcLoadedKernel, with one of the two kernels.
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

/// Calls `body`, and turns an exception into FLASHC_OUT_OF_MEMORY: neither LLVM nor flashc throws, but the C++ library
/// does if the system has no more memory, threads or locks, and so does LLVM's handler for failed allocations. Every
/// function of the API that may allocate is one call of this or of guardOr, so that no exception reaches a caller, who
/// may not be C++.
FlashcStatus guard(char **message, llvm::function_ref<FlashcStatus()> body);

/// Calls `body` as guard does, and returns `otherwise` after an exception.
template <typename T> T guardOr(T otherwise, llvm::function_ref<T()> body) {
  guard(nullptr, [&] {
    otherwise = body();
    return FLASHC_OK;
  });
  return otherwise;
}

/// Returns a copy that flashcStringDestroy frees.
char *copyText(llvm::StringRef text);

/// Returns `status`, and sets `*message` to `text` without the last newline, if `message` is not null and there is
/// memory.
FlashcStatus fail(FlashcStatus status, llvm::StringRef text, char **message);
/// Fails with the error's text; an isArgumentMismatch becomes FLASHC_ARGUMENT_MISMATCH, an isCompileError
/// FLASHC_COMPILE_ERROR.
FlashcStatus fail(FlashcStatus status, llvm::Error error, char **message);

/// Returns FLASHC_OK, with `*message` null.
FlashcStatus succeed(char **message);

/// Makes a request; null options stand for the defaults.
KernelRequest makeRequest(std::string text, const FlashcCompileOptions *options, Author author = Author::Caller);

/// Checks that `value` is one of the enumerators 0 to `last` of `type`. The error says that `what` must be.
llvm::Error checkEnumerator(int value, int last, const llvm::Twine &what, llvm::StringRef type);

/// Returns the element type of a cache, or an empty text if it is the attention's own.
llvm::Expected<std::string> getCacheType(FlashcCacheType type);

/// Finds or compiles the kernel of `text`, and returns it in `*out`.
FlashcStatus compileInto(FlashcContext handle, std::string text, Author author, const FlashcCompileOptions *options,
                         FlashcKernel *out, char **message);

/// Prints an attention as a module.
llvm::Expected<std::string> print(const FlashcAttention &attention);

/// The common part of API functions that return the text or the kernel of a description, which may be null like any
/// argument. `what` names the description in errors, with its article; `print` makes its text.
FlashcStatus getText(FlashcContext handle, const void *description, llvm::StringRef what,
                     llvm::function_ref<llvm::Expected<std::string>()> print, char **out, char **message);
FlashcStatus compile(FlashcContext handle, const void *description, llvm::StringRef what,
                     llvm::function_ref<llvm::Expected<std::string>()> print, const FlashcCompileOptions *options,
                     FlashcKernel *out, char **message);

/// Converts arguments for the launcher. Returns nullopt if a pointer is null that must not be. Strides may be null if
/// `needsStrides` is false, and are 0 then.
std::optional<llvm::SmallVector<LaunchArgument, 8>> convert(const FlashcArgument *arguments, size_t count,
                                                            bool needsStrides);

} // namespace flashc::capi

#endif // FLASHC_LIB_CAPI_SUPPORT_H
