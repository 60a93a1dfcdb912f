//===- MaskMaps.cpp - what masks keep of tiles, from launch to launch ---------------------------------------------===//

#include "flashc/Runtime/MaskMaps.h"
#include "RelaxedCapture.h"

using namespace flashc;
using namespace llvm;

MaskMaps::~MaskMaps() {
  RelaxedCaptureGuard relaxed(device.getDriver());
  for (auto &entry : maps)
    device.getDriver().eventDestroy(entry.second.event);
  maps.clear();
}

/// Whether `stream` is being captured, so that a launch on it is recorded and does not run. The driver returns an error
/// for the legacy stream while another stream is captured. This counts as captured: a launch on the legacy stream would
/// then fail anyway.
static bool isCaptured(const cuda::Driver &driver, cuda::Stream stream) {
  int status = 0;
  return driver.streamIsCapturing(stream, &status) != 0 || status != 0;
}

/// Whether later work in `stream` may read `map`. If the map is not finished yet, makes the stream wait for it, unless
/// the stream is being captured.
Expected<bool> MaskMaps::waitFor(Map &map, cuda::Stream stream, bool isCaptured) {
  if (map.isDone)
    return true;
  const cuda::Driver &driver = device.getDriver();
  cuda::Result result = driver.eventQuery(map.event);
  map.isDone = result == 0;
  if (map.isDone)
    return true;
  if (result != cuda::kNotReady)
    return driver.check(result, "looking for a mask map");
  if (isCaptured) // a graph cannot wait for an event outside it
    return false;
  if (Error error = driver.check(driver.streamWaitEvent(stream, map.event, 0), "waiting for a mask map"))
    return error;
  return true;
}

Expected<cuda::DevicePtr> MaskMaps::get(StringRef key, uint64_t plan, size_t bytes, cuda::Stream stream,
                                        function_ref<Error(cuda::DevicePtr)> make) {
  const cuda::Driver &driver = device.getDriver();
  bool isInGraph = isCaptured(driver, stream);
  std::lock_guard<std::mutex> lock(mutex);
  RelaxedCaptureGuard relaxed(driver);
  if (auto known = maps.find(key); known != maps.end()) {
    Expected<bool> isThere = waitFor(known->second, stream, isInGraph);
    if (!isThere)
      return isThere.takeError();
    ++(*isThere ? statistics.hits : statistics.misses);
    return *isThere ? known->second.memory.getAddress() : 0;
  }
  ++statistics.misses;
  if (isInGraph || maps.size() == kMostMaps || statistics.bytes + bytes > kMostBytes)
    return 0;
  Expected<DeviceBuffer> memory = DeviceBuffer::allocate(device, bytes);
  if (!memory)
    return memory.takeError();
  if (Error error = make(memory->getAddress()))
    return error;
  cuda::Event event = nullptr;
  if (Error error = driver.check(driver.eventCreate(&event, cuda::kEventDisableTiming), "making a mask map"))
    return error;
  if (Error error = driver.check(driver.eventRecord(event, stream), "making a mask map")) {
    driver.eventDestroy(event);
    return error;
  }
  cuda::DevicePtr address = memory->getAddress();
  maps.try_emplace(key, Map{std::move(*memory), bytes, plan, event, /*isDone=*/false});
  ++statistics.maps;
  statistics.bytes += bytes;
  return address;
}

void MaskMaps::forget(uint64_t plan) {
  std::lock_guard<std::mutex> lock(mutex);
  RelaxedCaptureGuard relaxed(device.getDriver());
  for (auto entry = maps.begin(); entry != maps.end();) {
    auto current = entry++;
    if (current->second.plan != plan)
      continue;
    device.getDriver().eventDestroy(current->second.event);
    --statistics.maps;
    statistics.bytes -= current->second.bytes;
    maps.erase(current);
  }
}

MaskMaps::Statistics MaskMaps::getStatistics() const {
  std::lock_guard<std::mutex> lock(mutex);
  return statistics;
}
