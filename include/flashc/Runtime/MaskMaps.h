//===- MaskMaps.h - what masks keep of tiles, from launch to launch -----------------------------------------------===//
#ifndef FLASHC_RUNTIME_MASKMAPS_H
#define FLASHC_RUNTIME_MASKMAPS_H

#include "flashc/Runtime/GPUDevice.h"
#include "llvm/ADT/STLFunctionalExtras.h"
#include "llvm/ADT/StringMap.h"

#include <mutex>

namespace flashc {

/// The mask maps of a kernel on one device (docs/manifest.md, mask maps), each under a key made of the data that the
/// map depends on. Threads may share it.
///
/// 1. The first launch that needs a map makes it in its stream, and an event is recorded after it. Until the event has
///    passed, launches on other streams wait for it on the GPU; the host never waits.
/// 2. A captured launch uses a finished map. It makes no map that is kept, since the graph may never run: the kernels
///    that make its map become part of the graph.
/// 3. At most kMostMaps maps of together kMostBytes are kept. No map is evicted, since a graph or a launch may still
///    read it. A map for which there is no room is made in every launch. `forget` frees the maps of a plan.
class MaskMaps {
public:
  static constexpr size_t kMostMaps = 64, kMostBytes = size_t(64) << 20;

  struct Statistics {
    /// The number of maps that are kept, and their bytes.
    uint64_t maps = 0, bytes = 0;
    /// Launches that found their map, and launches that made it.
    uint64_t hits = 0, misses = 0;
  };

  explicit MaskMaps(const GPUDevice &device) : device(device) {}
  ~MaskMaps();
  MaskMaps(const MaskMaps &) = delete;

  /// Returns the address of the map of `key`, which later work in `stream` may read. If no map of `key` is kept, calls
  /// `make`, which launches into `stream` the kernels that write the map. Returns 0 if the map cannot be kept. `plan`:
  /// the plan to which the map belongs (see `forget`); 0 for a map of no plan.
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
    /// The event recorded after the kernels that make the map.
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
