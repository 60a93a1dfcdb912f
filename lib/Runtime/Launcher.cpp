//===- Launcher.cpp - loads a kernel and launches it --------------------------------------------------------------===//

#include "flashc/Runtime/Launcher.h"
#include "llvm/ADT/StringExtras.h"

#include <cstring>
#include <optional>

using namespace flashc;
using namespace llvm;

//===--------------------------------------------------------------------------------------------------------------===//
// GPUDevice
//===--------------------------------------------------------------------------------------------------------------===//

Expected<std::unique_ptr<GPUDevice>> GPUDevice::open(const cuda::Driver &driver, int ordinal) {
  std::unique_ptr<GPUDevice> device(new GPUDevice(driver));
  char name[256] = "";
  int major = 0, minor = 0;
  auto fail = [&](cuda::Result result) { return driver.check(result, "opening GPU " + Twine(ordinal)); };
  if (Error error = fail(driver.deviceGet(&device->device, ordinal)))
    return error;
  if (Error error = fail(driver.deviceGetName(name, sizeof(name), device->device)))
    return error;
  for (auto [attribute, value] :
       {std::pair(cuda::kMultiprocessorCount, &device->smCount), std::pair(cuda::kComputeCapabilityMajor, &major),
        std::pair(cuda::kComputeCapabilityMinor, &minor)})
    if (Error error = fail(driver.deviceGetAttribute(value, attribute, device->device)))
      return error;
  if (Error error = fail(driver.primaryContextRetain(&device->context, device->device)))
    return error;
  if (Error error = fail(driver.contextSetCurrent(device->context)))
    return error;
  device->name = name;
  device->computeCapability = 10 * major + minor;
  return device;
}

GPUDevice::~GPUDevice() {
  if (context)
    driver.primaryContextRelease(device);
}

Error GPUDevice::synchronize() const { return driver.check(driver.contextSynchronize(), "running the kernel"); }

Error GPUDevice::makeCurrent() const {
  return driver.check(driver.contextSetCurrent(context), "making the GPU current");
}

bool GPUDevice::isCurrent() const {
  cuda::Context current = nullptr;
  return driver.contextGetCurrent(&current) == 0 && current == context;
}

//===--------------------------------------------------------------------------------------------------------------===//
// DeviceBuffer
//===--------------------------------------------------------------------------------------------------------------===//

Expected<DeviceBuffer> DeviceBuffer::allocate(const GPUDevice &device, size_t bytes) {
  DeviceBuffer buffer;
  const cuda::Driver &driver = device.getDriver();
  // An empty array still gets an address.
  cuda::Result result = driver.memAlloc(&buffer.address, std::max<size_t>(bytes, 1));
  if (Error error = driver.check(result, "allocating " + Twine(bytes) + " bytes on the GPU"))
    return error;
  buffer.device = &device;
  buffer.bytes = bytes;
  return buffer;
}

DeviceBuffer::~DeviceBuffer() {
  if (device)
    device->getDriver().memFree(address);
}

Error DeviceBuffer::copyFromHost(const void *source) {
  const cuda::Driver &driver = device->getDriver();
  return driver.check(driver.memcpyHtoD(address, source, bytes), "copying to the GPU");
}

Error DeviceBuffer::copyToHost(void *target) const {
  const cuda::Driver &driver = device->getDriver();
  return driver.check(driver.memcpyDtoH(target, address, bytes), "copying from the GPU");
}

Error DeviceBuffer::fill(unsigned char byte) {
  const cuda::Driver &driver = device->getDriver();
  return driver.check(driver.memsetD8(address, byte, bytes), "filling memory of the GPU");
}

//===--------------------------------------------------------------------------------------------------------------===//
// PreparedLaunch
//===--------------------------------------------------------------------------------------------------------------===//

Error PreparedLaunch::launch(cuda::Stream stream) {
  if (isEmpty())
    return Error::success();
  const cuda::Driver &driver = device->getDriver();
  config.stream = stream;
  // Set here, since the object may have moved since it was prepared.
  config.attributes = config.numAttributes ? &cluster : nullptr;
  SmallVector<void *, 16> addresses = parameters.getAddresses();
  return driver.check(driver.launchKernelEx(&config, function, addresses.data(), nullptr), "launching " + name);
}

namespace {
struct ScopedEvent {
  const cuda::Driver &driver;
  cuda::Event event = nullptr;
  ~ScopedEvent() {
    if (event)
      driver.eventDestroy(event);
  }
};
} // namespace

Expected<float> PreparedLaunch::time(unsigned count) {
  const cuda::Driver &driver = device->getDriver();
  ScopedEvent start{driver}, end{driver};
  float milliseconds = 0;
  auto fail = [&](cuda::Result result) { return driver.check(result, "timing " + name); };
  for (ScopedEvent *event : {&start, &end})
    if (Error error = fail(driver.eventCreate(&event->event, /*flags=*/0)))
      return error;
  if (Error error = fail(driver.eventRecord(start.event, nullptr)))
    return error;
  for (unsigned i = 0; i < count; ++i)
    if (Error error = launch())
      return error;
  if (Error error = fail(driver.eventRecord(end.event, nullptr)))
    return error;
  if (Error error = fail(driver.eventSynchronize(end.event)))
    return error;
  if (Error error = fail(driver.eventElapsedTime(&milliseconds, start.event, end.event)))
    return error;
  return milliseconds / std::max(count, 1u);
}

//===--------------------------------------------------------------------------------------------------------------===//
// Kernel
//===--------------------------------------------------------------------------------------------------------------===//

/// `sm_90a` runs on compute capability 9.0 only, `sm_90` on 9.0 and above (PTX ISA, .target).
static Error checkTarget(StringRef target, const GPUDevice &device) {
  StringRef number = target;
  int wanted = 0;
  if (!number.consume_front("sm_") || number.consumeInteger(10, wanted))
    return createStringError("expected a target such as sm_90a, got " + target);
  bool exact = !number.empty();
  int have = device.getComputeCapability();
  if (exact ? have == wanted : have >= wanted)
    return Error::success();
  return createStringError("the kernel is for " + target + ", the GPU (" + device.getName() + ") is sm_" + Twine(have));
}

/// The number of parameters of an entry, by its declaration in PTX (PTX ISA, ".entry"); none if it is not there.
static std::optional<size_t> countParameters(StringRef ptx, StringRef kernel) {
  for (size_t at = ptx.find(".entry"); at != StringRef::npos; at = ptx.find(".entry", at + 1)) {
    StringRef rest = ptx.substr(at).drop_front(strlen(".entry")).ltrim();
    if (!rest.consume_front(kernel))
      continue;
    rest = rest.ltrim();
    if (rest.consume_front("("))
      return rest.take_until([](char c) { return c == ')'; }).count(".param");
    if (rest.starts_with("{") || rest.starts_with(".")) // an entry without a list
      return 0;
  }
  return std::nullopt;
}

Error flashc::checkEntry(StringRef ptx, const ManifestEntry &entry) {
  std::optional<size_t> count = countParameters(ptx, entry.kernel);
  if (!count || *count == entry.parameters.size())
    return Error::success();
  return createStringError("kernel " + entry.kernel + ": expected " + Twine(entry.parameters.size()) +
                           " parameters, got " + Twine(*count));
}

/// The parameters that the manifest lists are the kernel's, of the same sizes: what disagrees would be read as garbage.
/// Whether the kernel takes more is for checkEntry to say: asking the driver for one that is not there is an error to
/// tools that watch its calls (compute-sanitizer).
static Error checkParameters(const cuda::Driver &driver, cuda::Function function, const Manifest &manifest,
                             const ManifestEntry &entry) {
  size_t count = entry.parameters.size(), offset, bytes;
  for (size_t index = 0; index < count; ++index) {
    if (driver.functionGetParamInfo(function, index, &offset, &bytes) != 0)
      return createStringError("kernel " + entry.kernel + ": expected " + Twine(count) + " parameters, got " +
                               Twine(index));
    unsigned expected = getParameterBytes(manifest, entry.parameters[index]);
    if (bytes != expected)
      return createStringError("kernel " + entry.kernel + ": expected parameter " + Twine(index) + " to be " +
                               Twine(expected) + " bytes, got " + Twine(bytes));
  }
  return Error::success();
}

/// The default limit of dynamic shared memory; more must be asked for (CUDA C++ Programming Guide, "Shared Memory").
static constexpr uint32_t kDefaultSharedMemory = 48 * 1024;

Expected<std::unique_ptr<Kernel>> Kernel::load(const GPUDevice &device, StringRef code, Manifest manifest) {
  if (Error error = checkTarget(manifest.target, device))
    return error;
  for (size_t number = 0; number < manifest.getNumEntries(); ++number)
    if (Error error = checkEntry(code, manifest.getEntry(number))) // machine code has no entries in text
      return error;
  const cuda::Driver &driver = device.getDriver();
  std::unique_ptr<Kernel> kernel(new Kernel(device, std::move(manifest)));
  const Manifest &info = kernel->manifest;

  char log[8192] = "";
  int keys[] = {cuda::kJITErrorLogBuffer, cuda::kJITErrorLogBufferSizeBytes};
  void *values[] = {log, reinterpret_cast<void *>(sizeof(log))};
  // PTX must end with a zero byte.
  std::string text = code.str();
  cuda::Result result = driver.moduleLoadDataEx(&kernel->module, text.c_str(), 2, keys, values);
  if (Error error = driver.check(result, "loading " + info.kernel)) {
    StringRef details = StringRef(log).trim();
    return details.empty() ? std::move(error) : createStringError(toString(std::move(error)) + ": " + details);
  }
  for (size_t number = 0; number < info.getNumEntries(); ++number)
    if (Error error = kernel->loadEntry(info.getEntry(number)))
      return error;
  return kernel;
}

Error Kernel::loadEntry(const ManifestEntry &entry) {
  const cuda::Driver &driver = device.getDriver();
  cuda::Function function = nullptr;
  cuda::Result result = driver.moduleGetFunction(&function, module, entry.kernel.c_str());
  if (Error error = driver.check(result, "finding kernel " + entry.kernel))
    return error;
  if (Error error = checkParameters(driver, function, manifest, entry))
    return error;
  if (entry.dynamicSharedMemory > kDefaultSharedMemory) {
    result = driver.functionSetAttribute(function, cuda::kMaxDynamicSharedSizeBytes, entry.dynamicSharedMemory);
    if (Error error =
            driver.check(result, "asking for " + Twine(entry.dynamicSharedMemory) + " bytes of shared memory"))
      return error;
  }
  functions.push_back(function);
  return Error::success();
}

Kernel::~Kernel() {
  if (module)
    device.getDriver().moduleUnload(module);
}

Expected<PreparedLaunch> Kernel::prepare(ArrayRef<LaunchArgument> arguments) const {
  if (Error error = checkArguments(manifest, arguments))
    return blameArguments(std::move(error));
  Expected<size_t> number = chooseEntry(manifest, arguments, device.getSMCount());
  if (!number)
    return blameArguments(number.takeError());
  const ManifestEntry &entry = manifest.getEntry(*number);
  Expected<std::array<uint32_t, 3>> grid = computeGrid(entry, arguments, device.getSMCount());
  if (!grid)
    return blameArguments(grid.takeError());

  PreparedLaunch launch(device, entry.kernel, functions[*number]);
  launch.cluster.id = cuda::kClusterDimension;
  launch.config.sharedMemoryBytes = entry.dynamicSharedMemory;
  for (unsigned axis = 0; axis < 3; ++axis) {
    launch.config.grid[axis] = (*grid)[axis];
    launch.config.block[axis] = entry.block[axis];
    launch.cluster.value.cluster[axis] = entry.cluster[axis];
    if (entry.cluster[axis] != 1)
      launch.config.numAttributes = 1;
  }
  if (launch.isEmpty()) // Empty arrays have no tensor maps.
    return launch;
  if (Error error = checkAddresses(manifest, arguments))
    return blameArguments(std::move(error));

  if (entry.workspace > 0) {
    Expected<DeviceBuffer> buffer = DeviceBuffer::allocate(device, entry.workspace);
    if (!buffer)
      return buffer.takeError();
    launch.workspace = std::move(*buffer);
    if (Error error = launch.workspace.fill(0))
      return error;
  }
  Expected<KernelParameters> parameters =
      KernelParameters::build(device.getDriver(), manifest, entry, arguments, launch.workspace.getAddress());
  if (!parameters)
    return blameArguments(parameters.takeError());
  launch.parameters = std::move(*parameters);
  return launch;
}
