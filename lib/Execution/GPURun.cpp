//===- GPURun.cpp - runs a compiled kernel on arrays of the host --------------------------------------------------===//

#include "flashc/Execution/GPURun.h"
#include "flashc/Runtime/Launcher.h"
#include "llvm/ADT/STLExtras.h"

#include <cstring>

using namespace flashc;
using namespace llvm;

static constexpr unsigned kTimedLaunches = 20;

/// Whether `tensor` has the manifest's type; the manifest also calls i64 `index`.
static bool hasDType(const HostTensor &tensor, StringRef dtype) {
  return getName(tensor.getDType()) == (dtype == "index" ? "i64" : dtype);
}

/// Copies one argument to the device; `buffer` owns its memory.
static Expected<LaunchArgument> upload(const GPUDevice &device, const ManifestArgument &info, HostTensor &tensor,
                                       DeviceBuffer &buffer) {
  if (!hasDType(tensor, info.dtype))
    return createStringError("argument " + info.name + ": expected " + info.dtype + ", got " +
                             getName(tensor.getDType()));
  LaunchArgument argument;
  argument.shape.assign(tensor.getShape().begin(), tensor.getShape().end());
  argument.strides.assign(tensor.getStrides().begin(), tensor.getStrides().end());
  unsigned size = getByteSize(tensor.getDType());
  if (info.shape.empty())
    std::memcpy(&argument.scalar, static_cast<char *>(tensor.getBuffer()) + tensor.getOffset() * size, size);
  Expected<DeviceBuffer> memory = DeviceBuffer::allocate(device, tensor.getBufferBytes());
  if (!memory)
    return memory.takeError();
  buffer = std::move(*memory);
  argument.address = buffer.getAddress() + tensor.getOffset() * size;
  if (Error error = buffer.copyFromHost(tensor.getBuffer()))
    return error;
  return argument;
}

Expected<GPURun> flashc::runOnGPU(const cuda::Driver &driver, EntryCode getCode, const Manifest &manifest,
                                  MutableArrayRef<HostTensor> arguments) {
  if (arguments.size() != manifest.arguments.size())
    return createStringError("expected " + Twine(manifest.arguments.size()) + " arguments, got " +
                             Twine(arguments.size()));
  Expected<std::unique_ptr<GPUDevice>> device = GPUDevice::open(driver);
  if (!device)
    return device.takeError();
  std::vector<DeviceBuffer> buffers(arguments.size());
  SmallVector<LaunchArgument> launchArguments;
  for (auto [info, tensor, buffer] : zip(manifest.arguments, arguments, buffers)) {
    Expected<LaunchArgument> argument = upload(**device, info, tensor, buffer);
    if (!argument)
      return argument.takeError();
    launchArguments.push_back(std::move(*argument));
  }

  Expected<std::unique_ptr<Kernel>> kernel = Kernel::load(**device, std::move(getCode), manifest);
  if (!kernel)
    return kernel.takeError();
  Expected<PreparedLaunch> launch = (*kernel)->prepare(launchArguments);
  if (!launch)
    return launch.takeError();
  if (Error error = launch->launch())
    return error;
  if (Error error = (*device)->synchronize())
    return error;
  for (auto [info, tensor, buffer] : zip(manifest.arguments, arguments, buffers))
    if (info.isOutput)
      if (Error error = buffer.copyToHost(tensor.getBuffer()))
        return error;

  Expected<float> milliseconds = launch->time(kTimedLaunches);
  if (!milliseconds)
    return milliseconds.takeError();
  return GPURun{(*device)->getName().str(), *milliseconds};
}
