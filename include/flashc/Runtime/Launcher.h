//===- Launcher.h - loads a kernel and launches it ----------------------------------------------------------------===//
#ifndef FLASHC_RUNTIME_LAUNCHER_H
#define FLASHC_RUNTIME_LAUNCHER_H

#include "flashc/Runtime/KernelModule.h"
#include "flashc/Runtime/KernelParameters.h"
#include "flashc/Runtime/MaskMaps.h"

#include <deque>
#include <memory>

namespace flashc {

/// One launch of a kernel, and of the kernels that run before and after it, with everything that they need. The Kernel
/// that has prepared the launch, and the device, must outlive this object.
///
/// The kernels share memory: the workspace, and the mask map if it is not kept (MaskMaps). This memory exists from the
/// first kernel of a launch to the last one:
/// 1. It is allocated from the device's pool in stream order, before the first kernel.
/// 2. It is freed in stream order, after the last kernel, also if a kernel could not be started.
/// 3. So no two launches have the same memory at once, whatever their streams and threads are. For launches that follow
///    each other on one stream the driver hands out the same memory again, without waiting.
/// 4. While a stream is captured, the allocation and the release become nodes of the graph, and each run of the graph
///    repeats them.
///
/// Kernels may overlap (`programmatic_launch` of the manifest; docs/manifest.md says why that is right):
/// 5. The first of several kernels is launched without the attribute of programmatic launch: it begins when all earlier
///    work on the stream has ended.
/// 6. The other kernels, and a kernel that is alone, have the attribute. They wait in their code until the kernel
///    before them has ended. So the last kernel ends last, and later work on the stream, including the release of the
///    memory, follows all kernels.
/// 7. Where the kernels that write a mask map are left out, the first remaining kernel counts as the first.
class PreparedLaunch {
public:
  PreparedLaunch(PreparedLaunch &&) = default;
  /// Starts the kernels on `stream` and returns before they end.
  llvm::Error launch(cuda::Stream stream = nullptr);
  /// Returns the mean time of a launch in milliseconds, over `count` launches without gaps.
  llvm::Expected<float> time(unsigned count);

private:
  friend class Kernel;
  struct Step {
    llvm::StringRef name;
    cuda::Function function;
    KernelParameters parameters;
    cuda::LaunchConfig config = {};
    /// If `isEarly`, the last attribute is that of programmatic launch.
    llvm::SmallVector<cuda::LaunchAttribute, 2> attributes = {};
    bool isEarly = false, writesMaskMap = false;

    cuda::LaunchAttribute &addAttribute(cuda::LaunchAttributeID id) {
      attributes.push_back({});
      attributes.back().id = id;
      return attributes.back();
    }
    void startEarly() {
      isEarly = true;
      addAttribute(cuda::kProgrammaticStreamSerialization).value.programmaticStreamSerialization = 1;
    }
  };
  enum class Part { All, MaskMap, Rest };
  PreparedLaunch(const GPUDevice &device, llvm::StringRef name) : device(&device), name(name) {}
  llvm::Error launchSteps(cuda::Stream stream, Part part);
  llvm::Expected<cuda::DevicePtr> findMaskMap(cuda::Stream stream);
  void setMaskMap(cuda::DevicePtr address);

  const GPUDevice *device;
  llvm::StringRef name;
  /// Whether a kernel has more CTAs along y or z than a grid may have.
  bool exceedsAxes = false;
  /// The kernels in launch order. Empty if an extent of the grid is zero, so that there is nothing to compute.
  llvm::SmallVector<Step, 1> steps;
  size_t workspaceBytes = 0, maskMapBytes = 0;
  /// The object that keeps this launch's mask map, under the key `maskMapKey`. Null if the map is not kept. With `plan`
  /// the caller promises that the arrays that the mask reads have not changed.
  MaskMaps *maps = nullptr;
  std::string maskMapKey;
  uint64_t plan = 0;
};

/// A kernel with its variants in the memory of a device. The device must outlive the Kernel, and the Kernel must
/// outlive the launches that it has prepared. The device's context must be current on every thread that calls functions
/// of the Kernel.
class Kernel {
public:
  /// Refuses a kernel for another architecture. If the kernel has variants, does not yet compile or assemble an entry:
  /// compilation takes longest, and a launch needs only one entry.
  static llvm::Expected<std::unique_ptr<Kernel>> load(const GPUDevice &device, EntryCode getCode, Manifest manifest);
  Kernel(const Kernel &) = delete;
  Kernel &operator=(const Kernel &) = delete;

  const Manifest &getManifest() const { return manifest; }
  /// Loads every entry that is not loaded yet, so that later launches do not wait for a load. Leaves out entries with
  /// folded grids. Several threads may call this function at the same time.
  llvm::Error loadAll() const;
  /// Checks the arguments, chooses the entry for them, encodes tensor maps, computes the grid, and compiles and loads
  /// the entry at its first launch. The arguments are in the manifest's order. If they do not suit the kernel, nothing
  /// is loaded, and isArgumentMismatch recognises the error. isCompileError recognises an error of the compiler. If an
  /// entry failed to load, its next launch tries again. Several threads may call this function at the same time, and
  /// streams may be captured meanwhile. With a `plan` other than 0 the caller promises that the arrays that masks read
  /// are the same as in earlier launches with this plan.
  llvm::Expected<PreparedLaunch> prepare(llvm::ArrayRef<LaunchArgument> arguments, uint64_t plan = 0) const;
  MaskMaps &getMaskMaps() const { return maps; }

private:
  Kernel(const GPUDevice &device, EntryCode getCode, Manifest manifest);

  /// Prepares a launch of an entry without loading anything.
  llvm::Expected<PreparedLaunch> prepareEntry(size_t number, llvm::ArrayRef<LaunchArgument> arguments,
                                              uint64_t plan) const;
  /// Adds a kernel of the manifest to `launch`, unless its grid is empty. Returns whether the kernel was added.
  llvm::Expected<bool> prepareKernel(const ManifestKernel &info, llvm::ArrayRef<LaunchArgument> arguments,
                                     PreparedLaunch &launch) const;
  void keepMaskMap(PreparedLaunch &launch, uint64_t plan) const;

  const GPUDevice &device;
  const EntryCode getCode;
  const Manifest manifest;
  /// First one module for each entry, by number, and then one for each entry with folded grids.
  mutable std::deque<KernelModule> modules;
  mutable MaskMaps maps;
};

} // namespace flashc

#endif // FLASHC_RUNTIME_LAUNCHER_H
