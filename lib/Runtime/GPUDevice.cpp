//===- GPUDevice.cpp - a GPU and memory on it ---------------------------------------------------------------------===//

#include "flashc/Runtime/GPUDevice.h"

#include <limits>

using namespace flashc;
using namespace llvm;

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
  // By default a pool returns its memory at each synchronisation with the GPU, which would make the next launch slow.
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
  // An empty array gets an address, too.
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
