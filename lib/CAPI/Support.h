//===- Support.h - what the C API's files share -------------------------------------------------------------------===//
#ifndef FLASHC_LIB_CAPI_SUPPORT_H
#define FLASHC_LIB_CAPI_SUPPORT_H

#include "flashc-c/flashc.h"
#include "flashc/Compiler/KernelCache.h"
#include "flashc/Execution/HostKernel.h"
#include "flashc/Runtime/Runtime.h"

namespace flashc::capi {

/// What a FlashcContext is: everything that calls share. Handles share it too, so that they may outlive each other.
class Context {
public:
  /// `cacheDirectory` may be empty: there is none.
  Context(std::string cacheDirectory, std::optional<DiskCache::Options> diskOptions);

  const mlir::DialectRegistry registry;
  const std::string cacheDirectory;
  std::optional<DiskCache> disk;
  KernelCache kernels;
  OnceMap<std::shared_ptr<const HostKernel>> hostKernels;

  /// The GPU's side, made when it is first asked for; the error says why there is none.
  llvm::Expected<Runtime *> getRuntime();
  /// Kernels that it loaded.
  uint64_t getNumLoads();

private:
  std::mutex mutex; ///< of `runtime`
  std::unique_ptr<Runtime> runtime;
};

/// What a FlashcKernel is.
struct KernelHandle {
  std::shared_ptr<Context> context;
  std::shared_ptr<const CachedKernel> kernel;
};

/// What a FlashcLoadedKernel is: one of the two kernels.
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

/// Calls `body`, and makes a status of what it throws: FLASHC_OUT_OF_MEMORY, since neither LLVM nor flashc throws
/// anything, but the C++ library does where the system has no memory, thread or lock to give. LLVM's own failure to get
/// memory throws too. Every function of the API that may allocate is one call of this or of guardOr, so that no
/// exception reaches a caller, who may not be C++.
FlashcStatus guard(char **message, llvm::function_ref<FlashcStatus()> body);

/// The same for functions that have no status: `otherwise` stands for failure.
template <typename T> T guardOr(T otherwise, llvm::function_ref<T()> body) {
  guard(nullptr, [&] {
    otherwise = body();
    return FLASHC_OK;
  });
  return otherwise;
}

/// A copy that flashcStringDestroy frees.
char *copyText(llvm::StringRef text);

/// Leaves `text`, without the last newline, in `*message` if the caller wants it and there is the memory; returns
/// `status`.
FlashcStatus fail(FlashcStatus status, llvm::StringRef text, char **message);
/// The same with the error's text; an isArgumentMismatch is FLASHC_ARGUMENT_MISMATCH instead, an isCompileError
/// FLASHC_COMPILE_ERROR.
FlashcStatus fail(FlashcStatus status, llvm::Error error, char **message);

/// Success, with `*message` null.
FlashcStatus succeed(char **message);

/// What to compile, and how; null options stand for the defaults.
KernelRequest makeRequest(std::string text, const FlashcCompileOptions *options, Author author = Author::Caller);

/// Finds or compiles the kernel of `text`, and hands it to the caller.
FlashcStatus compileInto(FlashcContext handle, std::string text, Author author, const FlashcCompileOptions *options,
                         FlashcKernel *out, char **message);

/// The text of an attention.
llvm::Expected<std::string> print(const FlashcAttention &attention);

/// The functions that give the text or the kernel of a description, which may be null like any argument. `what` is its
/// article and name in errors, and `print` makes its text.
FlashcStatus getText(FlashcContext handle, const void *description, llvm::StringRef what,
                     llvm::function_ref<llvm::Expected<std::string>()> print, char **out, char **message);
FlashcStatus compile(FlashcContext handle, const void *description, llvm::StringRef what,
                     llvm::function_ref<llvm::Expected<std::string>()> print, const FlashcCompileOptions *options,
                     FlashcKernel *out, char **message);

/// Arguments as the launcher takes them. `needsStrides`: null strides are a mistake; they stand for none otherwise.
/// None after a null pointer where there should be one.
std::optional<llvm::SmallVector<LaunchArgument, 8>> convert(const FlashcArgument *arguments, size_t count,
                                                            bool needsStrides);

} // namespace flashc::capi

#endif // FLASHC_LIB_CAPI_SUPPORT_H
