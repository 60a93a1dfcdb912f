//===- Launch.cpp - the C API's launches --------------------------------------------------------------------------===//

#include "Support.h"
#include "flashc/Runtime/Launcher.h"

using namespace flashc;
using namespace flashc::capi;

namespace {

/// What FlashcLoadedKernel is. The members go in the reverse order: the kernel before its device.
struct LoadedKernel {
  std::unique_ptr<GPUDevice> device;
  std::unique_ptr<Kernel> kernel;
};

/// Puts the calling thread's CUDA context back, whatever happens in between.
class CurrentContextGuard {
public:
  explicit CurrentContextGuard(const cuda::Driver &driver) : driver(driver) { driver.contextGetCurrent(&context); }
  ~CurrentContextGuard() { driver.contextSetCurrent(context); }
  CurrentContextGuard(const CurrentContextGuard &) = delete;
  CurrentContextGuard &operator=(const CurrentContextGuard &) = delete;

private:
  const cuda::Driver &driver;
  cuda::Context context = nullptr;
};

} // namespace

static LoadedKernel *unwrap(FlashcLoadedKernel kernel) { return static_cast<LoadedKernel *>(kernel.ptr); }

FlashcStatus flashcKernelLoad(FlashcKernel kernel, int device, FlashcLoadedKernel *out, char **message) {
  if (out)
    out->ptr = nullptr;
  if (!kernel.ptr || !out)
    return fail(FLASHC_INVALID_ARGUMENT, "expected a kernel and a place for the loaded one, got a null pointer",
                message);
  llvm::Expected<const cuda::Driver *> driver = cuda::Driver::load();
  if (!driver)
    return fail(FLASHC_NO_DRIVER, driver.takeError(), message);
  const CompiledKernel &compiled = *capi::unwrap(kernel);
  llvm::Expected<Manifest> manifest = Manifest::parse(compiled.manifest);
  if (!manifest)
    return fail(FLASHC_GPU_ERROR, manifest.takeError(), message);
  CurrentContextGuard guard(**driver);
  auto loaded = std::make_unique<LoadedKernel>();
  llvm::Expected<std::unique_ptr<GPUDevice>> opened = GPUDevice::open(**driver, device);
  if (!opened)
    return fail(FLASHC_GPU_ERROR, opened.takeError(), message);
  loaded->device = std::move(*opened);
  llvm::Expected<std::unique_ptr<Kernel>> onDevice =
      Kernel::load(*loaded->device, compiled.ptx, std::move(*manifest));
  if (!onDevice)
    return fail(FLASHC_GPU_ERROR, onDevice.takeError(), message);
  loaded->kernel = std::move(*onDevice);
  out->ptr = loaded.release();
  return succeed(message);
}

/// The arguments as the launcher takes them.
static llvm::SmallVector<LaunchArgument> convert(llvm::ArrayRef<FlashcArgument> arguments) {
  llvm::SmallVector<LaunchArgument> result;
  for (const FlashcArgument &argument : arguments) {
    LaunchArgument &converted = result.emplace_back();
    converted.address = argument.address;
    converted.shape.assign(argument.extents, argument.extents + argument.rank);
    converted.strides.assign(argument.strides, argument.strides + argument.rank);
    converted.scalar = argument.scalar;
  }
  return result;
}

/// Prepares a launch and starts it, with the GPU's context current.
static llvm::Error launch(const LoadedKernel &loaded, llvm::ArrayRef<FlashcArgument> arguments, cuda::Stream stream) {
  if (llvm::Error error = loaded.device->makeCurrent())
    return error;
  llvm::Expected<PreparedLaunch> launch = loaded.kernel->prepare(convert(arguments));
  if (!launch)
    return launch.takeError();
  // The workspace was cleared on the default stream, which `stream` need not wait for.
  if (loaded.kernel->getManifest().workspace > 0)
    if (llvm::Error error = loaded.device->synchronize())
      return error;
  return launch->launch(stream);
}

FlashcStatus flashcLoadedKernelLaunch(FlashcLoadedKernel kernel, const FlashcArgument *arguments, size_t count,
                                      void *stream, char **message) {
  bool isComplete = kernel.ptr && (arguments || count == 0);
  for (size_t index = 0; isComplete && index < count; ++index)
    isComplete = arguments[index].rank == 0 || (arguments[index].extents && arguments[index].strides);
  if (!isComplete)
    return fail(FLASHC_INVALID_ARGUMENT, "expected a kernel and arguments with extents and strides, got a null pointer",
                message);
  const LoadedKernel &loaded = *unwrap(kernel);
  CurrentContextGuard guard(loaded.device->getDriver());
  if (llvm::Error error = launch(loaded, {arguments, count}, static_cast<cuda::Stream>(stream)))
    return fail(FLASHC_GPU_ERROR, std::move(error), message);
  return succeed(message);
}

void flashcLoadedKernelDestroy(FlashcLoadedKernel kernel) {
  std::unique_ptr<LoadedKernel> loaded(unwrap(kernel));
  if (!loaded)
    return;
  const cuda::Driver &driver = loaded->device->getDriver();
  CurrentContextGuard guard(driver);
  llvm::consumeError(loaded->device->makeCurrent());
  loaded.reset();
}
