//===- MaskMaps.h - what masks keep of tiles, from launch to launch -----------------------------------------------===//
#ifndef FLASHC_RUNTIME_MASKMAPS_H
#define FLASHC_RUNTIME_MASKMAPS_H

#include "flashc/Runtime/GPUDevice.h"
#include "llvm/ADT/STLFunctionalExtras.h"
#include "llvm/ADT/StringMap.h"

#include <mutex>

namespace flashc {

/// The mask maps of a kernel on one device (docs/manifest.md, mask maps), by what they were made of. Threads may share
/// it.
///
/// 1. A map is made in the stream of the first launch that needs it, behind which an event is recorded. Until that has
///    passed, launches on any stream wait for it there; the host waits for nothing.
/// 2. A launch that is captured takes a map that is done. It makes none that is kept, since a graph may never run: the
///    kernels that make it become part of the graph.
/// 3. There are at most kMostMaps of kMostBytes together. None is given up for another: a graph or a launch may read it
///    still. What finds no room is made in every launch. Those of a plan go when it is forgotten.
class MaskMaps {
public:
  static constexpr size_t kMostMaps = 64, kMostBytes = size_t(64) << 20;

  struct Statistics {
    /// Maps that are kept, and their bytes.
    uint64_t maps = 0, bytes = 0;
    /// Launches that found theirs, and those that made it (or had it made, every time).
    uint64_t hits = 0, misses = 0;
  };

  explicit MaskMaps(const GPUDevice &device) : device(device) {}
  ~MaskMaps();
  MaskMaps(const MaskMaps &) = delete;

  /// The address of the map of `key`, which what follows in `stream` may read: known, or made now by `make`, which
  /// launches into `stream`. 0: it is not kept. `plan`: of those of forget; 0: of none.
  llvm::Expected<cuda::DevicePtr> get(llvm::StringRef key, uint64_t plan, size_t bytes, cuda::Stream stream,
                                      llvm::function_ref<llvm::Error(cuda::DevicePtr)> make);
  /// Frees the maps of a plan, whose launches have ended.
  void forget(uint64_t plan);
  Statistics getStatistics() const;

private:
  struct Map {
    DeviceBuffer memory;
    size_t bytes;
    uint64_t plan;
    /// Recorded behind what makes it.
    cuda::Event event;
    /// Whether it has passed.
    bool isDone;
  };
  llvm::Expected<bool> waitFor(Map &map, cuda::Stream stream, bool isCaptured);

  const GPUDevice &device;
  mutable std::mutex mutex; ///< of all below
  llvm::StringMap<Map> maps;
  Statistics statistics;
};

} // namespace flashc

#endif // FLASHC_RUNTIME_MASKMAPS_H
