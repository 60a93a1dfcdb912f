//===- Launcher.h - loads a kernel and launches it ----------------------------------------------------------------===//
#ifndef FLASHC_RUNTIME_LAUNCHER_H
#define FLASHC_RUNTIME_LAUNCHER_H

#include "flashc/Runtime/KernelModule.h"
#include "flashc/Runtime/KernelParameters.h"

#include <deque>
#include <memory>
#include <mutex>

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
  /// The memory that launches take theirs from, made at the first call. Threads may share it.
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

private:
  const GPUDevice *device = nullptr;
  cuda::DevicePtr address = 0;
  size_t bytes = 0;
};

/// A kernel with everything that one launch of it needs, and the kernels that run before and after it. All of them and
/// their device outlive it.
///
/// The memory that the kernels share (the workspace) exists from the first kernel of a launch to the last:
/// 1. It is taken from the device's pool in the order of the stream, before the first kernel.
/// 2. It is given back in the order of the stream, behind the last kernel, also if one could not be started.
/// 3. So no two launches have it at once, whatever their streams and threads; where they follow each other on one
///    stream, the driver hands out the same memory again, without waiting.
/// 4. While a stream is captured, 1 and 2 become nodes of the graph, and each run of the graph does them.
///
/// Kernels that overlap (`programmatic_launch` of the manifest; docs/manifest.md says why that is right):
/// 5. The first kernel of several has no attribute: it begins when all that the stream has before it has ended.
/// 6. The others, and one that is alone, have it, and wait themselves until the one before them has ended. So the last one
///    ends last, and what
///    follows it in the stream, 2 included, follows all.
class PreparedLaunch {
public:
  PreparedLaunch(PreparedLaunch &&) = default;
  /// Starts the kernels on `stream`; returns before they end.
  llvm::Error launch(cuda::Stream stream = nullptr);
  /// Milliseconds of one launch, the mean of `count` launches back to back.
  llvm::Expected<float> time(unsigned count);

private:
  friend class Kernel;
  struct Step {
    llvm::StringRef name;
    cuda::Function function;
    KernelParameters parameters;
    cuda::LaunchConfig config = {};
    llvm::SmallVector<cuda::LaunchAttribute, 2> attributes = {};

    cuda::LaunchAttribute &addAttribute(cuda::LaunchAttributeID id) {
      attributes.push_back({});
      attributes.back().id = id;
      return attributes.back();
    }
  };
  PreparedLaunch(const GPUDevice &device, llvm::StringRef name) : device(&device), name(name) {}
  llvm::Error launchSteps(cuda::Stream stream);

  const GPUDevice *device;
  llvm::StringRef name;
  /// In order. None if some extent is zero, so that there is nothing to do.
  llvm::SmallVector<Step, 1> steps;
  size_t workspaceBytes = 0;
};

/// A kernel in the device's memory, with its variants. The device outlives it, and it outlives its prepared launches.
/// The device's context is current on every thread that calls it.
class Kernel {
public:
  /// Refuses a kernel for another architecture. With variants nothing is compiled or assembled yet: that takes longest,
  /// and a launch needs one entry only.
  static llvm::Expected<std::unique_ptr<Kernel>> load(const GPUDevice &device, EntryCode getCode, Manifest manifest);
  Kernel(const Kernel &) = delete;
  Kernel &operator=(const Kernel &) = delete;

  const Manifest &getManifest() const { return manifest; }
  /// Loads every entry that is not yet, so that no later launch waits for it. Threads may share it.
  llvm::Error loadAll() const;
  /// Checks the arguments (the manifest's, in order), chooses the entry that is for them, encodes tensor maps, computes
  /// the grid, and compiles and loads the entry if it is the first launch of it. What is wrong with the arguments is an
  /// isArgumentMismatch, and loads nothing; what the compiler says is an isCompileError. An entry that did not load is
  /// tried again by the next launch of it. Threads may share it, and streams may be captured meanwhile.
  llvm::Expected<PreparedLaunch> prepare(llvm::ArrayRef<LaunchArgument> arguments) const;

private:
  Kernel(const GPUDevice &device, EntryCode getCode, Manifest manifest);

  /// Adds a kernel of the manifest to `launch`, unless its grid is empty; returns whether it did.
  llvm::Expected<bool> prepareKernel(const ManifestKernel &info, llvm::ArrayRef<LaunchArgument> arguments,
                                     PreparedLaunch &launch) const;

  const GPUDevice &device;
  const EntryCode getCode;
  const Manifest manifest;
  /// Of each entry by number.
  mutable std::deque<KernelModule> modules;
};

} // namespace flashc

#endif // FLASHC_RUNTIME_LAUNCHER_H
