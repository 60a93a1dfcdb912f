//===- Launcher.h - loads a kernel and launches it ----------------------------------------------------------------===//
#ifndef FLASHC_RUNTIME_LAUNCHER_H
#define FLASHC_RUNTIME_LAUNCHER_H

#include "flashc/Runtime/KernelParameters.h"

#include <memory>

namespace flashc {

/// A GPU: its primary context, retained and current on the thread that opened it.
class GPUDevice {
public:
  static llvm::Expected<std::unique_ptr<GPUDevice>> open(const cuda::Driver &driver, int ordinal = 0);
  ~GPUDevice();
  GPUDevice(const GPUDevice &) = delete;
  GPUDevice &operator=(const GPUDevice &) = delete;

  const cuda::Driver &getDriver() const { return driver; }
  llvm::StringRef getName() const { return name; }
  int getSMCount() const { return smCount; }
  /// Ten times the major plus the minor number, such as 90.
  int getComputeCapability() const { return computeCapability; }
  llvm::Error synchronize() const;
  /// Makes the context current on the calling thread, as every use of the device needs it.
  llvm::Error makeCurrent() const;
  /// Whether it is.
  bool isCurrent() const;

private:
  explicit GPUDevice(const cuda::Driver &driver) : driver(driver) {}

  const cuda::Driver &driver;
  cuda::Device device = 0;
  cuda::Context context = nullptr;
  std::string name;
  int smCount = 0, computeCapability = 0;
};

/// Device memory that is freed with this object.
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
  llvm::Error fill(unsigned char byte);

private:
  const GPUDevice *device = nullptr;
  cuda::DevicePtr address = 0;
  size_t bytes = 0;
};

/// A kernel with everything that one launch of it needs. The kernel and its device outlive it.
class PreparedLaunch {
public:
  PreparedLaunch(PreparedLaunch &&) = default;
  /// Starts the kernel on `stream`; returns before it ends.
  llvm::Error launch(cuda::Stream stream = nullptr);
  /// Milliseconds of one launch, the mean of `count` launches back to back.
  llvm::Expected<float> time(unsigned count);
  /// Whether it has memory of its own, which was cleared on the default stream.
  bool hasWorkspace() const { return workspace.getAddress() != 0; }

private:
  friend class Kernel;
  PreparedLaunch(const GPUDevice &device, llvm::StringRef name, cuda::Function function)
      : device(&device), name(name), function(function) {}
  /// Whether some extent is zero, so that there is nothing to do.
  bool isEmpty() const { return config.grid[0] == 0; }

  const GPUDevice *device;
  llvm::StringRef name;
  cuda::Function function;
  KernelParameters parameters;
  cuda::LaunchConfig config = {};
  cuda::LaunchAttribute cluster = {};
  DeviceBuffer workspace;
};

/// Fails if the entry is in `ptx` and takes another number of parameters than the manifest lists.
llvm::Error checkEntry(llvm::StringRef ptx, const ManifestEntry &entry);

/// A kernel in the device's memory, with its variants. The device outlives it, and it outlives its prepared launches.
class Kernel {
public:
  /// Loads PTX text or a cubin. Refuses a kernel for another architecture.
  static llvm::Expected<std::unique_ptr<Kernel>> load(const GPUDevice &device, llvm::StringRef code, Manifest manifest);
  ~Kernel();
  Kernel(const Kernel &) = delete;
  Kernel &operator=(const Kernel &) = delete;

  const Manifest &getManifest() const { return manifest; }
  /// Checks the arguments (the manifest's, in order), chooses the entry that is for them, encodes tensor maps, computes
  /// the grid. What is wrong with the arguments is an isArgumentMismatch.
  llvm::Expected<PreparedLaunch> prepare(llvm::ArrayRef<LaunchArgument> arguments) const;

private:
  Kernel(const GPUDevice &device, Manifest manifest) : device(device), manifest(std::move(manifest)) {}

  llvm::Error loadEntry(const ManifestEntry &entry);

  const GPUDevice &device;
  Manifest manifest;
  cuda::Module module = nullptr;
  /// One for each of the manifest's entries.
  llvm::SmallVector<cuda::Function, 2> functions;
};

} // namespace flashc

#endif // FLASHC_RUNTIME_LAUNCHER_H
