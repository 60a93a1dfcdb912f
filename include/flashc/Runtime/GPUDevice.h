//===- GPUDevice.h - a GPU and memory on it -----------------------------------------------------------------------===//
#ifndef FLASHC_RUNTIME_GPUDEVICE_H
#define FLASHC_RUNTIME_GPUDEVICE_H

#include "flashc/Runtime/CUDADriver.h"

#include <memory>
#include <mutex>
#include <string>

namespace flashc {

/// A GPU and its primary context. The context is retained, and is made current on the thread that opens the device.
class GPUDevice {
public:
  static llvm::Expected<std::unique_ptr<GPUDevice>> open(const cuda::Driver &driver, int ordinal = 0);
  ~GPUDevice();
  GPUDevice(const GPUDevice &) = delete;
  GPUDevice &operator=(const GPUDevice &) = delete;

  const cuda::Driver &getDriver() const { return driver; }
  llvm::StringRef getName() const { return name; }
  int getSMCount() const { return smCount; }
  /// The compute capability as one number, such as 90 for 9.0.
  int getComputeCapability() const { return computeCapability; }
  llvm::Error synchronize() const;
  /// Makes the context current on the calling thread. Every use of the device requires this.
  llvm::Error makeCurrent() const;
  /// Whether the context is current on the calling thread.
  bool isCurrent() const;
  /// The pool from which launches take memory. The first call creates it. Threads may share it.
  llvm::Expected<cuda::MemPool> getPool() const;

private:
  explicit GPUDevice(const cuda::Driver &driver) : driver(driver) {}

  const cuda::Driver &driver;
  cuda::Device device = 0;
  cuda::Context context = nullptr;
  std::string name;
  int smCount = 0, computeCapability = 0;
  mutable std::mutex poolMutex;
  mutable cuda::MemPool pool = nullptr;
};

/// Device memory that the destructor frees.
class DeviceBuffer {
public:
  static llvm::Expected<DeviceBuffer> allocate(const GPUDevice &device, size_t bytes);
  DeviceBuffer() = default;
  DeviceBuffer(DeviceBuffer &&other) { *this = std::move(other); }
  DeviceBuffer &operator=(DeviceBuffer &&other) {
    std::swap(device, other.device);
    std::swap(address, other.address);
    std::swap(bytes, other.bytes);
    return *this;
  }
  ~DeviceBuffer();

  cuda::DevicePtr getAddress() const { return address; }
  llvm::Error copyFromHost(const void *source);
  llvm::Error copyToHost(void *target) const;

private:
  const GPUDevice *device = nullptr;
  cuda::DevicePtr address = 0;
  size_t bytes = 0;
};

} // namespace flashc

#endif // FLASHC_RUNTIME_GPUDEVICE_H
