//===- Runtime.cpp - the kernels of a process on its GPUs ---------------------------------------------------------===//

#include "flashc/Runtime/Runtime.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/SHA256.h"

using namespace flashc;
using namespace llvm;

namespace {

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

//===--------------------------------------------------------------------------------------------------------------===//
// LoadedKernel
//===--------------------------------------------------------------------------------------------------------------===//

LoadedKernel::~LoadedKernel() {
  CurrentContextGuard guard(device->getDriver());
  consumeError(device->makeCurrent()); // at the end of a process there may be no driver any more
  kernel.reset();
  device.reset();
}

Error LoadedKernel::launchInContext(ArrayRef<LaunchArgument> arguments, cuda::Stream stream) const {
  Expected<PreparedLaunch> launch = kernel->prepare(arguments);
  if (!launch)
    return launch.takeError();
  // The workspace was cleared on the default stream, which `stream` need not wait for.
  if (kernel->getManifest().workspace > 0)
    if (Error error = device->synchronize())
      return error;
  return launch->launch(stream);
}

Error LoadedKernel::launch(ArrayRef<LaunchArgument> arguments, cuda::Stream stream) const {
  // As a rule the context is current already: PyTorch and the CUDA runtime use the primary one.
  if (device->isCurrent())
    return launchInContext(arguments, stream);
  CurrentContextGuard guard(device->getDriver());
  if (Error error = device->makeCurrent())
    return error;
  return launchInContext(arguments, stream);
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

/// From disk, or by the driver's assembler, whose version decides what comes out as much as the PTX does.
Expected<std::string> Runtime::getMachineCode(StringRef ptx, const GPUDevice &device) {
  int version = 0;
  if (Error error = driver.check(driver.driverGetVersion(&version), "asking for the CUDA driver's version"))
    return error;
  std::string key = ("machine code\nCUDA " + Twine(version) + "\nsm_" + Twine(device.getComputeCapability()) + "\n" +
                     toHex(SHA256::hash(arrayRefFromStringRef(ptx))))
                        .str();
  if (disk)
    if (std::optional<std::vector<std::string>> value = disk->find(key); value && value->size() == 1)
      return std::move(value->front());
  Expected<std::string> code = assemble(device, ptx);
  if (!code)
    return code.takeError();
  ++numAssemblies;
  if (disk)
    disk->store(key, {*code});
  return code;
}

Expected<std::shared_ptr<const LoadedKernel>> Runtime::loadNew(StringRef ptx, StringRef manifestText, int ordinal) {
  Expected<Manifest> manifest = Manifest::parse(manifestText);
  if (!manifest)
    return manifest.takeError();
  CurrentContextGuard guard(driver);
  Expected<std::shared_ptr<const GPUDevice>> device = getDevice(ordinal);
  if (!device)
    return device.takeError();
  if (Error error = (*device)->makeCurrent())
    return error;
  // Before the driver's assembler sees it, which would only complain about instructions.
  if (Error error = checkTarget(manifest->target, **device))
    return error;
  if (Error error = checkEntry(ptx, *manifest)) // machine code no longer tells
    return error;
  Expected<std::string> code = getMachineCode(ptx, **device);
  if (!code)
    return code.takeError();
  Expected<std::unique_ptr<Kernel>> kernel = Kernel::load(**device, *code, std::move(*manifest));
  if (!kernel)
    return kernel.takeError();
  ++numLoads;
  return std::make_shared<const LoadedKernel>(std::move(*device), std::move(*kernel));
}

Expected<std::shared_ptr<const LoadedKernel>> Runtime::load(StringRef ptx, StringRef manifest, int device) {
  SHA256 hash;
  for (StringRef part : {manifest, StringRef("\0", 1), ptx})
    hash.update(part);
  std::string key = (Twine(device) + " " + toHex(hash.final())).str();
  return kernels.get(key, [&] { return loadNew(ptx, manifest, device); });
}
