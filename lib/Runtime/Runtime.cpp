//===- Runtime.cpp - the kernels of a process on its GPUs ---------------------------------------------------------===//

#include "flashc/Runtime/Runtime.h"

using namespace flashc;
using namespace llvm;

namespace {

/// Restores the calling thread's CUDA context at the end of the scope.
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

//===--------------------------------------------------------------------------------------------------------------===//
// LoadedKernel
//===--------------------------------------------------------------------------------------------------------------===//

LoadedKernel::~LoadedKernel() {
  CurrentContextGuard guard(device->getDriver());
  consumeError(device->makeCurrent()); // at the end of a process the driver may be gone
  kernel.reset();
  device.reset();
}

Error LoadedKernel::inContext(function_ref<Error()> run) const {
  // The context is usually current: PyTorch and the CUDA runtime use the primary one.
  if (device->isCurrent())
    return run();
  CurrentContextGuard guard(device->getDriver());
  if (Error error = device->makeCurrent())
    return error;
  return run();
}

Error LoadedKernel::launch(ArrayRef<LaunchArgument> arguments, cuda::Stream stream, uint64_t plan) const {
  return inContext([&]() -> Error {
    Expected<PreparedLaunch> launch = kernel->prepare(arguments, plan);
    if (!launch)
      return launch.takeError();
    return launch->launch(stream);
  });
}

Error LoadedKernel::loadAll() const {
  return inContext([&] { return kernel->loadAll(); });
}

Error LoadedKernel::forgetPlan(uint64_t plan) const {
  return inContext([&] {
    kernel->getMaskMaps().forget(plan);
    return Error::success();
  });
}

//===--------------------------------------------------------------------------------------------------------------===//
// Runtime
//===--------------------------------------------------------------------------------------------------------------===//

Expected<std::shared_ptr<const GPUDevice>> Runtime::getDevice(int ordinal) {
  std::lock_guard<std::mutex> lock(mutex);
  auto known = devices.find(ordinal);
  if (known != devices.end())
    return known->second;
  Expected<std::unique_ptr<GPUDevice>> device = GPUDevice::open(driver, ordinal);
  if (!device)
    return device.takeError();
  return devices[ordinal] = std::move(*device);
}

Expected<std::shared_ptr<const LoadedKernel>> Runtime::loadNew(EntryCode getCode, StringRef manifestText, int ordinal) {
  Expected<Manifest> manifest = Manifest::parse(manifestText);
  if (!manifest)
    return manifest.takeError();
  CurrentContextGuard guard(driver);
  Expected<std::shared_ptr<const GPUDevice>> device = getDevice(ordinal);
  if (!device)
    return device.takeError();
  if (Error error = (*device)->makeCurrent())
    return error;
  Expected<std::unique_ptr<Kernel>> kernel = Kernel::load(**device, std::move(getCode), std::move(*manifest));
  if (!kernel)
    return kernel.takeError();
  ++numLoads;
  return std::make_shared<const LoadedKernel>(std::move(*device), std::move(*kernel));
}

Expected<std::shared_ptr<const LoadedKernel>> Runtime::load(StringRef key, EntryCode getCode, StringRef manifest,
                                                            int device) {
  return kernels.get((Twine(device) + " " + key).str(), [&] { return loadNew(getCode, manifest, device); });
}
