//===- Launcher.h - loads a kernel and launches it ----------------------------------------------------------------===//
#ifndef FLASHC_RUNTIME_LAUNCHER_H
#define FLASHC_RUNTIME_LAUNCHER_H

#include "flashc/Runtime/KernelModule.h"
#include "flashc/Runtime/KernelParameters.h"
#include "flashc/Runtime/MaskMaps.h"

#include <deque>
#include <memory>

namespace flashc {

/// A kernel with everything that one launch of it needs, and the kernels that run before and after it. All of them and
/// their device outlive it.
///
/// The memory that the kernels share (the workspace, and a mask map that is not kept; MaskMaps) exists from the first
/// kernel of a launch to the last:
/// 1. It is taken from the device's pool in the order of the stream, before the first kernel.
/// 2. It is given back in the order of the stream, behind the last kernel, also if one could not be started.
/// 3. So no two launches have it at once, whatever their streams and threads; where they follow each other on one
///    stream, the driver hands out the same memory again, without waiting.
/// 4. While a stream is captured, 1 and 2 become nodes of the graph, and each run of the graph does them.
///
/// Kernels that overlap (`programmatic_launch` of the manifest; docs/manifest.md says why that is right):
/// 5. The first kernel of several has no attribute: it begins when all that the stream has before it has ended.
/// 6. The others, and one that is alone, have it, and wait themselves until the one before them has ended. So the last
/// one
///    ends last, and what follows it in the stream, 2 included, follows all.
/// 7. Where those that write a mask map are left out, the first one that is left is the first.
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
    /// That of an early start is the last one.
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
  /// Whether a kernel has more CTAs along y or z than there may be.
  bool exceedsAxes = false;
  /// In order. None if some extent is zero, so that there is nothing to do.
  llvm::SmallVector<Step, 1> steps;
  size_t workspaceBytes = 0, maskMapBytes = 0;
  /// Where its mask map is kept, as that of the key, and of a plan that vouches for arrays; null: nowhere.
  MaskMaps *maps = nullptr;
  std::string maskMapKey;
  uint64_t plan = 0;
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
  /// Loads every entry that is not yet, so that no later launch waits for it, but those with folded grids. Threads may
  /// share it.
  llvm::Error loadAll() const;
  /// Checks the arguments (the manifest's, in order), chooses the entry that is for them, encodes tensor maps, computes
  /// the grid, and compiles and loads the entry if it is the first launch of it. What is wrong with the arguments is an
  /// isArgumentMismatch, and loads nothing; what the compiler says is an isCompileError. An entry that did not load is
  /// tried again by the next launch of it. Threads may share it, and streams may be captured meanwhile. `plan`: a
  /// number by which the caller knows that arrays which masks read have not changed; 0: they may have.
  llvm::Expected<PreparedLaunch> prepare(llvm::ArrayRef<LaunchArgument> arguments, uint64_t plan = 0) const;
  MaskMaps &getMaskMaps() const { return maps; }

private:
  Kernel(const GPUDevice &device, EntryCode getCode, Manifest manifest);

  /// A launch of an entry, of which nothing is loaded.
  llvm::Expected<PreparedLaunch> prepareEntry(size_t number, llvm::ArrayRef<LaunchArgument> arguments,
                                              uint64_t plan) const;
  /// Adds a kernel of the manifest to `launch`, unless its grid is empty; returns whether it did.
  llvm::Expected<bool> prepareKernel(const ManifestKernel &info, llvm::ArrayRef<LaunchArgument> arguments,
                                     PreparedLaunch &launch) const;
  void keepMaskMap(PreparedLaunch &launch, uint64_t plan) const;

  const GPUDevice &device;
  const EntryCode getCode;
  const Manifest manifest;
  /// One for each entry by number, and then one for each with folded grids.
  mutable std::deque<KernelModule> modules;
  mutable MaskMaps maps;
};

} // namespace flashc

#endif // FLASHC_RUNTIME_LAUNCHER_H
