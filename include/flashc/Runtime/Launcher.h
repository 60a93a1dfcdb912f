//===- Launcher.h - loads a kernel and launches it ----------------------------------------------------------------===//
#ifndef FLASHC_RUNTIME_LAUNCHER_H
#define FLASHC_RUNTIME_LAUNCHER_H

#include "flashc/Runtime/KernelModule.h"
#include "flashc/Runtime/KernelParameters.h"
#include "flashc/Runtime/MaskMaps.h"

#include <deque>
#include <memory>

namespace flashc {

/// One launch of a kernel with everything that it needs, and the kernels that run before and after it. All of them and
/// their device must outlive it.
///
/// The kernels share memory: the workspace, and a mask map that is not kept (MaskMaps). It exists from the first kernel
/// of a launch to the last:
/// 1. It is allocated from the device's pool in stream order, before the first kernel.
/// 2. It is freed in stream order, after the last kernel, also if a kernel could not be started.
/// 3. So no two launches have the same memory at once, whatever their streams and threads are. For launches that follow
///    each other on one stream the driver hands out the same memory again, without waiting.
/// 4. While a stream is captured, the allocation and the release become nodes of the graph, and each run of the graph
///    repeats them.
///
/// Kernels may overlap (`programmatic_launch` of the manifest; docs/manifest.md says why that is right):
/// 5. The first of several kernels is launched without the attribute: it begins when all earlier work on the stream has
///    ended.
/// 6. The other kernels, and a kernel that is alone, have the attribute, and wait in their code until the kernel before
///    them has ended. So the last kernel ends last, and later work on the stream, including the release of the memory,
///    follows all kernels.
/// 7. Where the kernels that write a mask map are left out, the first remaining kernel counts as the first.
class PreparedLaunch {
public:
  PreparedLaunch(PreparedLaunch &&) = default;
  /// Starts the kernels on `stream` and returns before they end.
  llvm::Error launch(cuda::Stream stream = nullptr);
  /// The mean time of a launch in milliseconds, over `count` launches without gaps.
  llvm::Expected<float> time(unsigned count);

private:
  friend class Kernel;
  struct Step {
    llvm::StringRef name;
    cuda::Function function;
    KernelParameters parameters;
    cuda::LaunchConfig config = {};
    /// The attribute of programmatic launch is the last one.
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
  /// The maps that keep this launch's mask map, under `key` and for `plan`, by which the caller vouches for the arrays
  /// that the mask reads. Null: the map is not kept.
  MaskMaps *maps = nullptr;
  std::string maskMapKey;
  uint64_t plan = 0;
};

/// A kernel with its variants in the memory of a device. The device must outlive it, and it must outlive its prepared
/// launches. The device's context must be current on every thread that calls it.
class Kernel {
public:
  /// Refuses a kernel for another architecture. Does not yet compile or assemble an entry of a kernel with variants:
  /// compilation takes longest, and a launch needs only one entry.
  static llvm::Expected<std::unique_ptr<Kernel>> load(const GPUDevice &device, EntryCode getCode, Manifest manifest);
  Kernel(const Kernel &) = delete;
  Kernel &operator=(const Kernel &) = delete;

  const Manifest &getManifest() const { return manifest; }
  /// Loads every entry that is not loaded yet, except entries with folded grids, so that later launches do not wait for
  /// it. Threads may call it at once.
  llvm::Error loadAll() const;
  /// Checks the arguments (in the manifest's order), chooses the entry for them, encodes tensor maps, computes the
  /// grid, and compiles and loads the entry at its first launch. Arguments that do not suit the kernel give an error
  /// that isArgumentMismatch recognises, and load nothing; an error of the compiler is one that isCompileError
  /// recognises. The next launch of an entry that failed to load tries again. Threads may call it at once, and streams
  /// may be captured meanwhile. `plan` is a number by which the caller promises that the arrays that masks read have
  /// not changed; 0: they may have.
  llvm::Expected<PreparedLaunch> prepare(llvm::ArrayRef<LaunchArgument> arguments, uint64_t plan = 0) const;
  MaskMaps &getMaskMaps() const { return maps; }

private:
  Kernel(const GPUDevice &device, EntryCode getCode, Manifest manifest);

  /// Prepares a launch of an entry without loading anything.
  llvm::Expected<PreparedLaunch> prepareEntry(size_t number, llvm::ArrayRef<LaunchArgument> arguments,
                                              uint64_t plan) const;
  /// Adds a kernel of the manifest to `launch`, unless its grid is empty; returns whether it did.
  llvm::Expected<bool> prepareKernel(const ManifestKernel &info, llvm::ArrayRef<LaunchArgument> arguments,
                                     PreparedLaunch &launch) const;
  void keepMaskMap(PreparedLaunch &launch, uint64_t plan) const;

  const GPUDevice &device;
  const EntryCode getCode;
  const Manifest manifest;
  /// One module for each entry by number, then one for each entry with folded grids.
  mutable std::deque<KernelModule> modules;
  mutable MaskMaps maps;
};

} // namespace flashc

#endif // FLASHC_RUNTIME_LAUNCHER_H
