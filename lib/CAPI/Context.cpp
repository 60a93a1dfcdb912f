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

Context::Context(std::optional<DiskCache::Options> diskOptions)
    : registry(makeRegistry()), kernels(registry, diskOptions ? &disk.emplace(std::move(*diskOptions)) : nullptr) {}

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

/// None if there shall be no files, or there is no place for them.
static std::optional<DiskCache::Options> getDiskOptions(const FlashcContextOptions &options) {
  if (options.disable_disk_cache)
    return std::nullopt;
  std::optional<std::string> directory = DiskCache::getDefaultDirectory();
  if (options.cache_directory)
    directory = options.cache_directory;
  if (!directory)
    return std::nullopt;
  DiskCache::Options result;
  result.directory = *directory;
  if (options.cache_bytes > 0)
    result.maxBytes = options.cache_bytes;
  return result;
}

FlashcContext flashcContextCreate(const FlashcContextOptions *options) {
  FlashcContextOptions defaults = {};
  auto context = std::make_shared<Context>(getDiskOptions(options ? *options : defaults));
  return {new std::shared_ptr<Context>(std::move(context))};
}

void flashcContextDestroy(FlashcContext context) { delete static_cast<std::shared_ptr<Context> *>(context.ptr); }

FlashcStatistics flashcContextGetStatistics(FlashcContext handle) {
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
}

FlashcStatus flashcGetDeviceCount(int *out, char **message) {
  if (!out)
    return fail(FLASHC_INVALID_ARGUMENT, "expected a place for the number, got a null pointer", message);
  *out = 0;
  llvm::Expected<const cuda::Driver *> driver = cuda::Driver::load();
  if (!driver)
    return fail(FLASHC_NO_DRIVER, driver.takeError(), message);
  if (llvm::Error error = (*driver)->check((*driver)->deviceGetCount(out), "counting the GPUs"))
    return fail(FLASHC_GPU_ERROR, std::move(error), message);
  return succeed(message);
}
