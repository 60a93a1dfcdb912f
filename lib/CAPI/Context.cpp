//===- Context.cpp - the C API's contexts and devices -------------------------------------------------------------===//

#include "Support.h"
#include "flashc/InitAll.h"

using namespace flashc;
using namespace flashc::capi;

static mlir::DialectRegistry makeRegistry() {
  mlir::DialectRegistry registry;
  registerAllDialects(registry);
  return registry;
}

Context::Context(std::string cacheDirectory, std::optional<DiskCache::Options> diskOptions)
    : registry(makeRegistry()), cacheDirectory(std::move(cacheDirectory)),
      kernels(registry, diskOptions ? &disk.emplace(std::move(*diskOptions)) : nullptr) {}

llvm::Expected<Runtime *> Context::getRuntime() {
  llvm::Expected<const cuda::Driver *> driver = cuda::Driver::load();
  if (!driver)
    return driver.takeError();
  std::lock_guard<std::mutex> lock(mutex);
  if (!runtime)
    runtime = std::make_unique<Runtime>(**driver);
  return runtime.get();
}

uint64_t Context::getNumLoads() {
  std::lock_guard<std::mutex> lock(mutex);
  return runtime ? runtime->getNumLoads() : 0;
}

/// Returns the options of the cache on disk. Returns nullopt if that cache is disabled or has no directory.
static std::optional<DiskCache::Options> getDiskOptions(const FlashcContextOptions &options,
                                                        const std::string &directory) {
  if (options.disable_disk_cache || directory.empty())
    return std::nullopt;
  DiskCache::Options result;
  result.directory = directory;
  if (options.cache_bytes > 0)
    result.maxBytes = options.cache_bytes;
  return result;
}

FlashcContext flashcContextCreate(const FlashcContextOptions *options) {
  return guardOr<FlashcContext>({nullptr}, [&]() -> FlashcContext {
    FlashcContextOptions defaults = {};
    if (!options)
      options = &defaults;
    std::string directory =
        options->cache_directory ? options->cache_directory : DiskCache::getDefaultDirectory().value_or("");
    auto context = std::make_shared<Context>(directory, getDiskOptions(*options, directory));
    return {new std::shared_ptr<Context>(std::move(context))};
  });
}

const char *flashcContextGetCacheDirectory(FlashcContext context) {
  return context.ptr ? unwrap(context)->cacheDirectory.c_str() : nullptr;
}

void flashcContextDestroy(FlashcContext context) { delete static_cast<std::shared_ptr<Context> *>(context.ptr); }

FlashcStatistics flashcContextGetStatistics(FlashcContext handle) {
  return guardOr<FlashcStatistics>({}, [&] {
    FlashcStatistics result = {};
    if (!handle.ptr)
      return result;
    Context &context = *unwrap(handle);
    result.compilations = context.kernels.getNumCompilations();
    result.memory_hits = context.kernels.getNumMemoryHits();
    result.disk_hits = context.kernels.getNumDiskHits();
    if (context.disk) {
      result.disk_rejected = context.disk->getNumRejected();
      result.disk_write_failures = context.disk->getNumWriteFailures();
    }
    result.loads = context.getNumLoads();
    return result;
  });
}

FlashcStatus flashcGetDeviceCount(int *out, char **message) {
  return guard(message, [&]() -> FlashcStatus {
    if (!out)
      return fail(FLASHC_INVALID_ARGUMENT, "expected a place for the number, got a null pointer", message);
    *out = 0;
    llvm::Expected<const cuda::Driver *> driver = cuda::Driver::load();
    if (!driver)
      return fail(FLASHC_NO_DRIVER, driver.takeError(), message);
    if (llvm::Error error = (*driver)->check((*driver)->deviceGetCount(out), "counting the GPUs"))
      return fail(FLASHC_GPU_ERROR, std::move(error), message);
    return succeed(message);
  });
}

FlashcStatus flashcGetDeviceName(int device, char **out, char **message) {
  return guard(message, [&]() -> FlashcStatus {
    if (!out)
      return fail(FLASHC_INVALID_ARGUMENT, "expected a place for the name, got a null pointer", message);
    *out = nullptr;
    llvm::Expected<const cuda::Driver *> driver = cuda::Driver::load();
    if (!driver)
      return fail(FLASHC_NO_DRIVER, driver.takeError(), message);
    cuda::Device handle = 0;
    char name[256] = "";
    cuda::Result result = (*driver)->deviceGet(&handle, device);
    if (result == 0)
      result = (*driver)->deviceGetName(name, sizeof(name), handle);
    if (llvm::Error error = (*driver)->check(result, "asking for the name of GPU " + llvm::Twine(device)))
      return fail(FLASHC_GPU_ERROR, std::move(error), message);
    *out = copyText(name);
    return succeed(message);
  });
}
