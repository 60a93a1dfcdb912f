//===- Launcher.cpp - loads a kernel and launches it --------------------------------------------------------------===//

#include "flashc/Runtime/Launcher.h"
#include "llvm/ADT/StringExtras.h"

#include <limits>

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
    step.config.attributes = step.attributes.data();
    step.config.numAttributes = step.attributes.size();
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

Kernel::Kernel(const GPUDevice &device, EntryCode getCode, Manifest manifest)
    : device(device), getCode(std::move(getCode)), manifest(std::move(manifest)) {
  for (size_t number = 0; number < this->manifest.getNumEntries(); ++number)
    modules.emplace_back(device.getDriver(), this->manifest, number, this->getCode);
}

Expected<std::unique_ptr<Kernel>> Kernel::load(const GPUDevice &device, EntryCode getCode, Manifest manifest) {
  if (Error error = checkTarget(manifest.target, device))
    return error;
  std::unique_ptr<Kernel> kernel(new Kernel(device, std::move(getCode), std::move(manifest)));
  const Manifest &info = kernel->manifest;
  bool needsPool = false;
  for (size_t number = 0; number < info.getNumEntries(); ++number)
    needsPool |= info.getEntry(number).workspace.has_value();
  if (info.variants.empty())
    if (Error error = kernel->loadAll())
      return error;
  // Now, since a launch may be captured, and there no pool can be made.
  if (needsPool)
    if (Expected<cuda::MemPool> pool = device.getPool(); !pool)
      return pool.takeError();
  return kernel;
}

Error Kernel::loadAll() const {
  for (KernelModule &module : modules)
    if (Error error = module.load())
      return error;
  return Error::success();
}

Expected<bool> Kernel::prepareKernel(const ManifestKernel &info, ArrayRef<LaunchArgument> arguments,
                                     PreparedLaunch &launch) const {
  Expected<std::array<uint32_t, 3>> grid = computeGrid(info, arguments, device.getSMCount());
  if (!grid)
    return grid.takeError();
  if ((*grid)[0] == 0)
    return false;
  PreparedLaunch::Step step{info.kernel, /*function=*/nullptr, KernelParameters()};
  step.config.sharedMemoryBytes = info.dynamicSharedMemory;
  for (unsigned axis = 0; axis < 3; ++axis) {
    step.config.grid[axis] = (*grid)[axis];
    step.config.block[axis] = info.block[axis];
  }
  if (any_of(info.cluster, [](uint32_t extent) { return extent != 1; }))
    copy(info.cluster, step.addAttribute(cuda::kClusterDimension).value.cluster);
  if (Error error = checkAddresses(manifest, arguments))
    return error;
  Expected<KernelParameters> parameters =
      KernelParameters::build(device.getDriver(), manifest, info, arguments, device.getSMCount());
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
  for (const std::vector<ManifestKernel> *others : {&entry.before, &entry.after}) {
    for (const ManifestKernel &kernel : *others)
      if (Expected<bool> isThere = prepareKernel(kernel, arguments, launch); !isThere)
        return blameArguments(isThere.takeError());
    if (others == &entry.before)
      std::rotate(launch.steps.begin(), launch.steps.begin() + 1, launch.steps.end()); // behind these
  }
  if (entry.programmaticLaunch) // the first of several does not wait itself
    for (PreparedLaunch::Step &step : drop_begin(launch.steps, entry.getKernels().size() > 1))
      step.addAttribute(cuda::kProgrammaticStreamSerialization).value.programmaticStreamSerialization = 1;
  Expected<size_t> bytes = computeWorkspace(entry, arguments, device.getSMCount());
  if (!bytes)
    return blameArguments(bytes.takeError());
  launch.workspaceBytes = *bytes;
  // Last: arguments that are refused load nothing.
  KernelModule &module = modules[*number];
  if (Error error = module.load())
    return error;
  for (PreparedLaunch::Step &step : launch.steps)
    step.function = module.getFunction(step.name);
  return launch;
}
