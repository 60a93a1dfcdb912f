//===- Launch.cpp - the C API's launches --------------------------------------------------------------------------===//

#include "Support.h"

using namespace flashc;
using namespace flashc::capi;

/// Returns a key that identifies a kernel: its address, which stays unique since the context keeps its kernels.
static std::string getKey(const KernelHandle &handle) {
  return std::to_string(reinterpret_cast<uintptr_t>(handle.kernel.get()));
}

/// Sets `*out` to the kernel, loaded on the CPU. A context loads each kernel only once.
static FlashcStatus loadOnHost(const KernelHandle &handle, FlashcLoadedKernel *out, char **message) {
  Context &context = *handle.context;
  auto kernel = context.hostKernels.get(getKey(handle), [&]() -> llvm::Expected<std::shared_ptr<const HostKernel>> {
    return HostKernel::load(context.registry, *handle.kernel);
  });
  if (!kernel)
    return fail(FLASHC_COMPILE_ERROR, kernel.takeError(), message);
  out->ptr = new LoadedKernelHandle{handle.context, nullptr, std::move(*kernel)};
  return succeed(message);
}

FlashcStatus flashcKernelLoad(FlashcKernel kernel, int device, FlashcLoadedKernel *out, char **message) {
  return guard(message, [&]() -> FlashcStatus {
    if (out)
      out->ptr = nullptr;
    if (!kernel.ptr || !out)
      return fail(FLASHC_INVALID_ARGUMENT, "expected a kernel and a place for the loaded one, got a null pointer",
                  message);
    const KernelHandle &handle = unwrap(kernel);
    const std::string &target = handle.kernel->pipeline.target;
    if ((target == kCPUTarget) != (device == FLASHC_DEVICE_CPU))
      return fail(FLASHC_INVALID_ARGUMENT,
                  ("expected a device for the kernel's target " + target + ", got " +
                   (device == FLASHC_DEVICE_CPU ? "the CPU" : "GPU " + std::to_string(device))),
                  message);
    if (device == FLASHC_DEVICE_CPU)
      return loadOnHost(handle, out, message);
    llvm::Expected<Runtime *> runtime = handle.context->getRuntime();
    if (!runtime)
      return fail(FLASHC_NO_DRIVER, runtime.takeError(), message);
    auto getCode = [kernel = handle.kernel](size_t number) { return kernel->getEntry(number); };
    auto loaded = (*runtime)->load(getKey(handle), getCode, handle.kernel->description.manifest, device);
    if (!loaded)
      return fail(FLASHC_GPU_ERROR, loaded.takeError(), message);
    out->ptr = new LoadedKernelHandle{handle.context, std::move(*loaded), nullptr};
    return succeed(message);
  });
}

FlashcStatus flashcLoadedKernelLaunch(FlashcLoadedKernel kernel, const FlashcArgument *arguments, size_t count,
                                      void *stream, char **message) {
  return flashcLoadedKernelLaunchPlanned(kernel, arguments, count, /*plan=*/0, stream, message);
}

FlashcStatus flashcLoadedKernelLaunchPlanned(FlashcLoadedKernel kernel, const FlashcArgument *arguments, size_t count,
                                             uint64_t plan, void *stream, char **message) {
  return guard(message, [&]() -> FlashcStatus {
    auto converted = convert(arguments, count, /*needsStrides=*/true);
    if (!kernel.ptr || !converted)
      return fail(FLASHC_INVALID_ARGUMENT,
                  "expected a kernel and arguments with extents and strides, got a null pointer", message);
    const LoadedKernelHandle &handle = unwrap(kernel);
    llvm::Error error = handle.host ? handle.host->run(*converted)
                                    : handle.gpu->launch(*converted, static_cast<cuda::Stream>(stream), plan);
    if (error) // on the CPU, errors are about the contents of arrays
      return fail(handle.host ? FLASHC_ARGUMENT_MISMATCH : FLASHC_GPU_ERROR, std::move(error), message);
    return succeed(message);
  });
}

FlashcStatus flashcLoadedKernelForgetPlan(FlashcLoadedKernel kernel, uint64_t plan, char **message) {
  return guard(message, [&]() -> FlashcStatus {
    if (!kernel.ptr || plan == 0)
      return fail(FLASHC_INVALID_ARGUMENT, "expected a kernel and a plan, got a null pointer or 0", message);
    const LoadedKernelHandle &handle = unwrap(kernel);
    if (handle.gpu)
      if (llvm::Error error = handle.gpu->forgetPlan(plan))
        return fail(FLASHC_GPU_ERROR, std::move(error), message);
    return succeed(message);
  });
}

FlashcMaskMaps flashcLoadedKernelGetMaskMaps(FlashcLoadedKernel kernel) {
  const LoadedKernelHandle *handle = kernel.ptr ? &unwrap(kernel) : nullptr;
  if (!handle || !handle->gpu)
    return {};
  MaskMaps::Statistics statistics = handle->gpu->getMaskMapStatistics();
  return {statistics.maps, statistics.bytes, statistics.hits, statistics.misses};
}

FlashcStatus flashcLoadedKernelLoadAll(FlashcLoadedKernel kernel, char **message) {
  return guard(message, [&]() -> FlashcStatus {
    if (!kernel.ptr)
      return fail(FLASHC_INVALID_ARGUMENT, "expected a kernel, got a null pointer", message);
    const LoadedKernelHandle &handle = unwrap(kernel);
    if (handle.host)
      return succeed(message);
    if (llvm::Error error = handle.gpu->loadAll())
      return fail(FLASHC_GPU_ERROR, std::move(error), message);
    return succeed(message);
  });
}

void flashcLoadedKernelDestroy(FlashcLoadedKernel kernel) { delete static_cast<LoadedKernelHandle *>(kernel.ptr); }
