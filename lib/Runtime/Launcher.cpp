//===- Launcher.cpp - loads a kernel and launches it --------------------------------------------------------------===//

#include "flashc/Runtime/Launcher.h"
#include "llvm/ADT/StringExtras.h"

#include <cstring>
#include <limits>
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
  if (pool)
    driver.memPoolDestroy(pool);
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

Expected<cuda::MemPool> GPUDevice::getPool() const {
  std::lock_guard<std::mutex> lock(poolMutex);
  if (pool)
    return pool;
  auto fail = [&](cuda::Result result) { return driver.check(result, "making a pool of memory on " + name); };
  cuda::MemPoolProps properties;
  properties.location = device;
  cuda::MemPool made = nullptr;
  if (Error error = fail(driver.memPoolCreate(&made, &properties)))
    return error;
  // By default a pool returns its memory whenever somebody waits for the GPU, and the next launch would be slow.
  uint64_t keep = std::numeric_limits<uint64_t>::max();
  if (Error error = fail(driver.memPoolSetAttribute(made, cuda::kPoolReleaseThreshold, &keep))) {
    driver.memPoolDestroy(made);
    return error;
  }
  return pool = made;
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

//===--------------------------------------------------------------------------------------------------------------===//
// PreparedLaunch
//===--------------------------------------------------------------------------------------------------------------===//

Error PreparedLaunch::launchSteps(cuda::Stream stream) {
  const cuda::Driver &driver = device->getDriver();
  for (Step &step : steps) {
    step.config.stream = stream;
    // Set here, since the object may have moved since it was prepared.
    step.config.attributes = step.config.numAttributes ? &step.cluster : nullptr;
    SmallVector<void *, 16> addresses = step.parameters.getAddresses();
    cuda::Result result = driver.launchKernelEx(&step.config, step.function, addresses.data(), nullptr);
    if (Error error = driver.check(result, "launching " + step.name))
      return error;
  }
  return Error::success();
}

Error PreparedLaunch::launch(cuda::Stream stream) {
  if (workspaceBytes == 0 || steps.empty())
    return launchSteps(stream);
  Expected<cuda::MemPool> pool = device->getPool();
  if (!pool)
    return pool.takeError();
  const cuda::Driver &driver = device->getDriver();
  cuda::DevicePtr address = 0;
  cuda::Result result = driver.memAllocFromPoolAsync(&address, workspaceBytes, *pool, stream);
  if (Error error = driver.check(result, "allocating " + Twine(workspaceBytes) + " bytes for " + name))
    return error;
  for (Step &step : steps)
    step.parameters.setWorkspace(address);
  Error error = launchSteps(stream);
  return joinErrors(std::move(error), driver.check(driver.memFreeAsync(address, stream), "freeing memory of " + name));
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

Error flashc::checkEntry(StringRef ptx, const ManifestKernel &kernel) {
  std::optional<size_t> count = countParameters(ptx, kernel.kernel);
  if (!count || *count == kernel.parameters.size())
    return Error::success();
  return createStringError("kernel " + kernel.kernel + ": expected " + Twine(kernel.parameters.size()) +
                           " parameters, got " + Twine(*count));
}

/// The parameters that the manifest lists are the kernel's, of the same sizes: what disagrees would be read as garbage.
/// Whether the kernel takes more is for checkEntry to say: asking the driver for one that is not there is an error to
/// tools that watch its calls (compute-sanitizer).
static Error checkParameters(const cuda::Driver &driver, cuda::Function function, const Manifest &manifest,
                             const ManifestKernel &info) {
  size_t count = info.parameters.size(), offset, bytes;
  for (size_t index = 0; index < count; ++index) {
    if (driver.functionGetParamInfo(function, index, &offset, &bytes) != 0)
      return createStringError("kernel " + info.kernel + ": expected " + Twine(count) + " parameters, got " +
                               Twine(index));
    unsigned expected = getParameterBytes(manifest, info.parameters[index]);
    if (bytes != expected)
      return createStringError("kernel " + info.kernel + ": expected parameter " + Twine(index) + " to be " +
                               Twine(expected) + " bytes, got " + Twine(bytes));
  }
  return Error::success();
}

/// The default limit of dynamic shared memory; more must be asked for (CUDA C++ Programming Guide, "Shared Memory").
static constexpr uint32_t kDefaultSharedMemory = 48 * 1024;

/// All kernels of a manifest, each before the entry that needs it.
static SmallVector<const ManifestKernel *, 4> getKernels(const Manifest &manifest) {
  SmallVector<const ManifestKernel *, 4> kernels;
  for (size_t number = 0; number < manifest.getNumEntries(); ++number) {
    const ManifestEntry &entry = manifest.getEntry(number);
    for (const ManifestKernel &kernel : entry.before)
      kernels.push_back(&kernel);
    kernels.push_back(&entry);
  }
  return kernels;
}

Expected<std::unique_ptr<Kernel>> Kernel::load(const GPUDevice &device, StringRef code, Manifest manifest) {
  if (Error error = checkTarget(manifest.target, device))
    return error;
  for (const ManifestKernel *kernel : getKernels(manifest))
    if (Error error = checkEntry(code, *kernel)) // machine code has no entries in text
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
  for (const ManifestKernel *part : getKernels(info))
    if (Error error = kernel->loadKernel(*part))
      return error;
  // Now, since a launch may be captured, and there no pool can be made.
  bool needsPool = false;
  for (size_t number = 0; number < info.getNumEntries(); ++number)
    needsPool |= info.getEntry(number).workspace.has_value();
  if (needsPool)
    if (Expected<cuda::MemPool> pool = device.getPool(); !pool)
      return pool.takeError();
  return kernel;
}

Error Kernel::loadKernel(const ManifestKernel &info) {
  const cuda::Driver &driver = device.getDriver();
  cuda::Function function = nullptr;
  cuda::Result result = driver.moduleGetFunction(&function, module, info.kernel.c_str());
  if (Error error = driver.check(result, "finding kernel " + info.kernel))
    return error;
  if (Error error = checkParameters(driver, function, manifest, info))
    return error;
  if (info.dynamicSharedMemory > kDefaultSharedMemory) {
    result = driver.functionSetAttribute(function, cuda::kMaxDynamicSharedSizeBytes, info.dynamicSharedMemory);
    if (Error error =
            driver.check(result, "asking for " + Twine(info.dynamicSharedMemory) + " bytes of shared memory"))
      return error;
  }
  functions[info.kernel] = function;
  return Error::success();
}

Kernel::~Kernel() {
  if (module)
    device.getDriver().moduleUnload(module);
}

Expected<bool> Kernel::prepareKernel(const ManifestKernel &info, ArrayRef<LaunchArgument> arguments,
                                     PreparedLaunch &launch) const {
  Expected<std::array<uint32_t, 3>> grid = computeGrid(info, arguments, device.getSMCount());
  if (!grid)
    return grid.takeError();
  if ((*grid)[0] == 0)
    return false;
  PreparedLaunch::Step step{info.kernel, functions.lookup(info.kernel), KernelParameters()};
  step.cluster.id = cuda::kClusterDimension;
  step.config.sharedMemoryBytes = info.dynamicSharedMemory;
  for (unsigned axis = 0; axis < 3; ++axis) {
    step.config.grid[axis] = (*grid)[axis];
    step.config.block[axis] = info.block[axis];
    step.cluster.value.cluster[axis] = info.cluster[axis];
    if (info.cluster[axis] != 1)
      step.config.numAttributes = 1;
  }
  if (Error error = checkAddresses(manifest, arguments))
    return error;
  Expected<KernelParameters> parameters = KernelParameters::build(device.getDriver(), manifest, info, arguments);
  if (!parameters)
    return parameters.takeError();
  step.parameters = std::move(*parameters);
  launch.steps.push_back(std::move(step));
  return true;
}

Expected<PreparedLaunch> Kernel::prepare(ArrayRef<LaunchArgument> arguments) const {
  if (Error error = checkArguments(manifest, arguments))
    return blameArguments(std::move(error));
  Expected<size_t> number = chooseEntry(manifest, arguments, device.getSMCount());
  if (!number)
    return blameArguments(number.takeError());
  const ManifestEntry &entry = manifest.getEntry(*number);
  PreparedLaunch launch(device, entry.kernel);
  Expected<bool> isLaunched = prepareKernel(entry, arguments, launch);
  // Empty arrays have no tensor maps, and nothing runs before nothing.
  if (!isLaunched)
    return blameArguments(isLaunched.takeError());
  if (!*isLaunched)
    return launch;
  for (const ManifestKernel &kernel : entry.before)
    if (Expected<bool> isBefore = prepareKernel(kernel, arguments, launch); !isBefore)
      return blameArguments(isBefore.takeError());
  std::rotate(launch.steps.begin(), launch.steps.begin() + 1, launch.steps.end()); // the entry is the last
  Expected<size_t> bytes = computeWorkspace(entry, arguments, device.getSMCount());
  if (!bytes)
    return blameArguments(bytes.takeError());
  launch.workspaceBytes = *bytes;
  return launch;
}
