//===- MaskMaps.h - what masks keep of tiles, from launch to launch -----------------------------------------------===//
#ifndef FLASHC_RUNTIME_MASKMAPS_H
#define FLASHC_RUNTIME_MASKMAPS_H

#include "flashc/Runtime/GPUDevice.h"
#include "llvm/ADT/STLFunctionalExtras.h"
#include "llvm/ADT/StringMap.h"

#include <mutex>

namespace flashc {

/// The mask maps of a kernel on one device (docs/manifest.md, mask maps). Each map has a key, which is made of the data
/// that the map depends on. Threads may share this object.
///
/// 1. The first launch that needs a map makes the map in its stream. An event is recorded in the stream after that.
///    Until the event has passed, launches on other streams wait for it on the GPU. The host never waits.
/// 2. A captured launch uses a map that is finished. If there is none, the kernels that make the map become part of the
///    graph. Such a map is not kept, because the graph may never run.
/// 3. At most kMostMaps maps are kept, with at most kMostBytes in all. No map is evicted, since a graph or a launch may
///    still read it. A map for which there is no room is made in every launch. `forget` frees the maps of a plan.
class MaskMaps {
public:
  static constexpr size_t kMostMaps = 64, kMostBytes = size_t(64) << 20;

  struct Statistics {
    /// The number of maps that are kept, and their bytes.
    uint64_t maps = 0, bytes = 0;
    /// The number of launches that found their map, and the number of launches that made it.
    uint64_t hits = 0, misses = 0;
  };

  explicit MaskMaps(const GPUDevice &device) : device(device) {}
  ~MaskMaps();
  MaskMaps(const MaskMaps &) = delete;

  /// Returns the address of the map of `key`, which later work in `stream` may read. If no map of `key` is kept, calls
  /// `make`, which launches the kernels that write the map into `stream`. Returns 0 if the map cannot be kept. `plan`
  /// is the plan to which the map belongs (see `forget`), or 0 if it belongs to none.
  llvm::Expected<cuda::DevicePtr> get(llvm::StringRef key, uint64_t plan, size_t bytes, cuda::Stream stream,
                                      llvm::function_ref<llvm::Error(cuda::DevicePtr)> make);
  /// Frees the maps of a plan. All launches of the plan must have ended.
  void forget(uint64_t plan);
  Statistics getStatistics() const;

private:
  struct Map {
    DeviceBuffer memory;
    size_t bytes;
    uint64_t plan;
    /// The event that is recorded after the kernels that make the map.
    cuda::Event event;
    /// Whether the event has passed.
    bool isDone;
  };
  llvm::Expected<bool> waitFor(Map &map, cuda::Stream stream, bool isCaptured);

  const GPUDevice &device;
  mutable std::mutex mutex; ///< protects the members below
  llvm::StringMap<Map> maps;
  Statistics statistics;
};

} // namespace flashc

#endif // FLASHC_RUNTIME_MASKMAPS_H
