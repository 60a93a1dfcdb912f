//===- Launcher.cpp - loads a kernel and launches it --------------------------------------------------------------===//

#include "flashc/Runtime/Launcher.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/MathExtras.h"

using namespace flashc;
using namespace llvm;

/// The alignment of memory that the kernels of a launch share.
static constexpr size_t kMemoryAlignment = 256;

//===--------------------------------------------------------------------------------------------------------------===//
// PreparedLaunch
//===--------------------------------------------------------------------------------------------------------------===//

Error PreparedLaunch::launchSteps(cuda::Stream stream, Part part) {
  const cuda::Driver &driver = device->getDriver();
  bool isFirst = steps.size() > 1; // the first of several kernels does not wait
  for (Step &step : steps) {
    if (part != Part::All && step.writesMaskMap != (part == Part::MaskMap))
      continue;
    step.config.stream = stream;
    // `attributes` is set only now, since the object may have moved after it was prepared.
    step.config.attributes = step.attributes.data();
    step.config.numAttributes = step.attributes.size() - (step.isEarly && isFirst);
    isFirst = false;
    SmallVector<void *, 16> addresses = step.parameters.getAddresses();
    cuda::Result result = driver.launchKernelEx(&step.config, step.function, addresses.data(), nullptr);
    if (Error error = driver.check(result, "launching " + step.name))
      return error;
  }
  return Error::success();
}

void PreparedLaunch::setMaskMap(cuda::DevicePtr address) {
  for (Step &step : steps)
    step.parameters.setMaskMap(address);
}

/// Returns the address of the mask map. Returns 0 if the map is not kept.
Expected<cuda::DevicePtr> PreparedLaunch::findMaskMap(cuda::Stream stream) {
  if (!maps)
    return 0;
  Expected<cuda::DevicePtr> address = maps->get(maskMapKey, plan, maskMapBytes, stream, [&](cuda::DevicePtr fresh) {
    setMaskMap(fresh);
    return launchSteps(stream, Part::MaskMap);
  });
  if (address && *address)
    setMaskMap(*address);
  return address;
}

Error PreparedLaunch::launch(cuda::Stream stream) {
  if (steps.empty())
    return Error::success();
  Expected<cuda::DevicePtr> map = findMaskMap(stream);
  if (!map)
    return map.takeError();
  bool isMapThere = *map != 0;
  size_t mapOffset = alignTo(workspaceBytes, kMemoryAlignment);
  size_t bytes = isMapThere || maskMapBytes == 0 ? workspaceBytes : mapOffset + maskMapBytes;
  Part part = isMapThere ? Part::Rest : Part::All;
  if (bytes == 0)
    return launchSteps(stream, part);
  Expected<cuda::MemPool> pool = device->getPool();
  if (!pool)
    return pool.takeError();
  const cuda::Driver &driver = device->getDriver();
  cuda::DevicePtr address = 0;
  cuda::Result result = driver.memAllocFromPoolAsync(&address, bytes, *pool, stream);
  if (Error error = driver.check(result, "allocating " + Twine(bytes) + " bytes for " + name))
    return error;
  for (Step &step : steps)
    step.parameters.setWorkspace(address);
  if (!isMapThere)
    setMaskMap(address + mapOffset);
  Error error = launchSteps(stream, part);
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

/// Checks the architecture: `sm_90a` runs on compute capability 9.0 only, `sm_90` on 9.0 and above (PTX ISA, .target).
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

static Manifest withFoldedEntries(Manifest manifest) {
  manifest.addFoldedEntries();
  return manifest;
}

Kernel::Kernel(const GPUDevice &device, EntryCode getCode, Manifest manifest)
    : device(device), getCode(std::move(getCode)), manifest(withFoldedEntries(std::move(manifest))), maps(device) {
  for (size_t number = 0; number < 2 * this->manifest.getNumEntries(); ++number)
    modules.emplace_back(device.getDriver(), this->manifest, number, this->getCode);
}

Expected<std::unique_ptr<Kernel>> Kernel::load(const GPUDevice &device, EntryCode getCode, Manifest manifest) {
  if (Error error = checkTarget(manifest.target, device))
    return error;
  std::unique_ptr<Kernel> kernel(new Kernel(device, std::move(getCode), std::move(manifest)));
  const Manifest &info = kernel->manifest;
  bool needsPool = false;
  for (size_t number = 0; number < info.getNumEntries(); ++number)
    needsPool |= info.getEntry(number).workspace || info.getEntry(number).maskMap;
  if (info.variants.empty())
    if (Error error = kernel->loadAll())
      return error;
  // The pool is created now, since later launches may be captured, and a captured stream cannot create one.
  if (needsPool)
    if (Expected<cuda::MemPool> pool = device.getPool(); !pool)
      return pool.takeError();
  return kernel;
}

Error Kernel::loadAll() const {
  for (size_t number = 0; number < manifest.getNumEntries(); ++number)
    if (Error error = modules[number].load())
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
  launch.exceedsAxes |= (*grid)[1] > kMostAlongAxis || (*grid)[2] > kMostAlongAxis;
  PreparedLaunch::Step step{info.kernel, /*function=*/nullptr, KernelParameters()};
  step.writesMaskMap = info.writesMaskMap;
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

/// Lets launches with equal mask maps share one kept map, by a key. Two launches have equal maps if the kernels that
/// write the map are the same, with the same grids, extents and scalars. If these kernels read arrays, the launches
/// must also have the same plan. Without a plan no such map is kept.
void Kernel::keepMaskMap(PreparedLaunch &launch, uint64_t plan) const {
  std::string &key = launch.maskMapKey;
  auto append = [&](const void *bytes, size_t count) { key.append(static_cast<const char *>(bytes), count); };
  bool readsArrays = false;
  for (const PreparedLaunch::Step &step : launch.steps) {
    if (!step.writesMaskMap)
      continue;
    key += step.name.str() + ' ';
    append(step.config.grid, sizeof(step.config.grid));
    key += step.parameters.getNumbers();
    readsArrays |= step.parameters.readsArrays();
  }
  if (readsArrays && plan == 0)
    return;
  launch.plan = readsArrays ? plan : 0;
  append(&launch.plan, sizeof(launch.plan));
  launch.maps = &maps;
}

Expected<PreparedLaunch> Kernel::prepareEntry(size_t number, ArrayRef<LaunchArgument> arguments, uint64_t plan) const {
  const ManifestEntry &entry = manifest.getEntry(number);
  PreparedLaunch launch(device, entry.kernel);
  Expected<bool> isLaunched = prepareKernel(entry, arguments, launch);
  // If the main kernel has an empty grid, the other kernels are not needed. Their arrays may be empty, and empty arrays
  // have no tensor maps.
  if (!isLaunched)
    return isLaunched.takeError();
  if (!*isLaunched)
    return launch;
  for (const std::vector<ManifestKernel> *others : {&entry.before, &entry.after}) {
    for (const ManifestKernel &kernel : *others)
      if (Expected<bool> isThere = prepareKernel(kernel, arguments, launch); !isThere)
        return isThere.takeError();
    if (others == &entry.before)
      std::rotate(launch.steps.begin(), launch.steps.begin() + 1,
                  launch.steps.end()); // puts the main kernel after those of `before`
  }
  if (entry.programmaticLaunch)
    for (PreparedLaunch::Step &step : drop_begin(launch.steps, entry.getKernels().size() > 1))
      step.startEarly();
  for (auto [formula, bytes] :
       {std::pair(&entry.workspace, &launch.workspaceBytes), std::pair(&entry.maskMap, &launch.maskMapBytes)}) {
    Expected<size_t> computed = computeBytes(*formula, arguments, device.getSMCount());
    if (!computed)
      return computed.takeError();
    *bytes = *computed;
  }
  if (launch.maskMapBytes)
    keepMaskMap(launch, plan);
  return launch;
}

Expected<PreparedLaunch> Kernel::prepare(ArrayRef<LaunchArgument> arguments, uint64_t plan) const {
  if (Error error = checkArguments(manifest, arguments))
    return blameArguments(std::move(error));
  Expected<size_t> number = chooseEntry(manifest, arguments, device.getSMCount());
  if (!number)
    return blameArguments(number.takeError());
  Expected<PreparedLaunch> launch = prepareEntry(*number, arguments, plan);
  if (launch && launch->exceedsAxes) {
    *number += manifest.getNumEntries();
    launch = prepareEntry(*number, arguments, plan);
  }
  if (!launch)
    return blameArguments(launch.takeError());
  if (launch->steps.empty())
    return launch;
  // The module is loaded last, so that arguments that are refused load nothing.
  KernelModule &module = modules[*number];
  if (Error error = module.load())
    return error;
  for (PreparedLaunch::Step &step : launch->steps)
    step.function = module.getFunction(step.name);
  return launch;
}
