//===- MaskMapsTest.cpp - mask maps that a kernel keeps -----------------------------------------------------------===//

#include "TestManifest.h"
#include "flashc/Runtime/Launcher.h"
#include "gtest/gtest.h"

#include <map>

using namespace flashc;
using namespace llvm;

namespace {

/// `maps` runs first, and writes the mask map, which depends on a length and a scalar. Then `orders` reads the map. The
/// main kernel `attends` comes last, and reads the map and the workspace.
constexpr StringLiteral kManifest = R"json(
{ "schema": "flashc.manifest", "version": 5, "kernel": "attends", "target": "sm_90a",
  "arguments": [
    {"name": "q", "role": "input", "shape": [-1], "dtype": "bf16"},
    {"name": "width", "role": "input", "shape": [], "dtype": "i64"}],
  "parameters": [{"kind": "mask_map", "offset": 64}, {"kind": "workspace"}],
  "grid": [1, 1, 1], "block": [384, 1, 1], "cluster": [1, 1, 1], "dynamic_shared_memory": 0,
  "workspace": 32, "mask_map": "mul(16, arg0.dim0)", "programmatic_launch": true,
  "before": [
    {"kernel": "maps", "writes_mask_map": true,
     "parameters": [{"kind": "extent", "argument": 0, "dim": 0}, {"kind": "scalar", "argument": 1},
                    {"kind": "mask_map"}],
     "grid": [1, 1, 1], "block": [256, 1, 1], "cluster": [1, 1, 1], "dynamic_shared_memory": 0},
    {"kernel": "orders", "parameters": [{"kind": "mask_map"}, {"kind": "workspace"}],
     "grid": [1, 1, 1], "block": [256, 1, 1], "cluster": [1, 1, 1], "dynamic_shared_memory": 0}]})json";

/// What was launched and waited for, as text.
std::string notes;
bool isCapturing, isDone;
cuda::Result launchResult;
uint64_t nextAddress;

cuda::Result launchKernel(const cuda::LaunchConfig *config, cuda::Function function, void **values, void **) {
  std::string name = reinterpret_cast<const char *>(function);
  auto get = [&](unsigned number) { return std::to_string(*static_cast<uint64_t *>(values[number])); };
  notes += name + (config->numAttributes ? " early " : " ") + get(name == "maps" ? 2 : 0) +
           (name == "maps" ? "" : " " + get(1)) + "; ";
  return launchResult;
}

cuda::Driver makeDriver() {
  cuda::Driver driver;
  driver.getErrorString = [](cuda::Result, const char **text) { return *text = "a reason", 0; };
  driver.deviceGet = [](cuda::Device *, int) { return 0; };
  driver.deviceGetName = [](char *name, int, cuda::Device) { return std::strcpy(name, "Fake"), 0; };
  driver.deviceGetAttribute = [](int *value, int attribute, cuda::Device) {
    return *value = attribute == cuda::kComputeCapabilityMajor ? 9 : 0, 0;
  };
  driver.primaryContextRetain = [](cuda::Context *, cuda::Device) { return 0; };
  driver.contextSetCurrent = [](cuda::Context) { return 0; };
  driver.moduleLoadDataEx = [](cuda::Module *, const void *, unsigned, int *, void **) { return 0; };
  driver.threadExchangeStreamCaptureMode = [](int *) { return 0; };
  driver.moduleGetFunction = [](cuda::Function *function, cuda::Module, const char *name) {
    for (const char *known : {"maps", "orders", "attends"})
      if (StringRef(name) == known)
        *function = reinterpret_cast<cuda::Function>(const_cast<char *>(known));
    return 0;
  };
  driver.functionGetParamInfo = [](cuda::Function function, size_t index, size_t *, size_t *bytes) {
    bool isExtent = StringRef(reinterpret_cast<const char *>(function)) == "maps" && index == 0;
    *bytes = isExtent ? 4 : 8;
    return index < (StringRef(reinterpret_cast<const char *>(function)) == "maps" ? 3u : 2u) ? 0 : 1;
  };
  driver.functionSetAttribute = [](cuda::Function, int, int) { return 0; };
  driver.launchKernelEx = launchKernel;
  driver.memAlloc = [](cuda::DevicePtr *address, size_t) { return *address = nextAddress += 0x1000, 0; };
  driver.memFree = [](cuda::DevicePtr address) { return notes += "freed " + std::to_string(address) + "; ", 0; };
  driver.memPoolCreate = [](cuda::MemPool *pool, const cuda::MemPoolProps *) {
    return *pool = reinterpret_cast<cuda::MemPool>(24), 0;
  };
  driver.memPoolDestroy = [](cuda::MemPool) { return 0; };
  driver.memPoolSetAttribute = [](cuda::MemPool, int, void *) { return 0; };
  driver.memAllocFromPoolAsync = [](cuda::DevicePtr *address, size_t bytes, cuda::MemPool, cuda::Stream) {
    return notes += "pool " + std::to_string(bytes) + "; ", *address = 512, 0;
  };
  driver.memFreeAsync = [](cuda::DevicePtr, cuda::Stream) { return 0; };
  driver.eventCreate = [](cuda::Event *event, unsigned) { return *event = reinterpret_cast<cuda::Event>(8), 0; };
  driver.eventDestroy = [](cuda::Event) { return 0; };
  driver.eventRecord = [](cuda::Event, cuda::Stream) { return notes += "recorded; ", 0; };
  driver.eventQuery = [](cuda::Event) { return isDone ? 0 : cuda::kNotReady; };
  driver.streamWaitEvent = [](cuda::Stream, cuda::Event, unsigned) { return notes += "waits; ", 0; };
  driver.streamIsCapturing = [](cuda::Stream, int *status) { return *status = isCapturing, 0; };
  return driver;
}

class MaskMapsTest : public testing::Test {
protected:
  MaskMapsTest() {
    notes.clear();
    isCapturing = isDone = false;
    launchResult = 0;
    nextAddress = 0;
    load(kManifest);
  }

  void load(StringRef manifest) {
    kernel.reset();
    device = cantFail(GPUDevice::open(driver));
    kernel = cantFail(Kernel::load(*device, makeCode("code"), cantFail(Manifest::parse(manifest))));
  }

  /// Launches with `length` positions and the scalar `width`. Returns `notes`, or the error of the launch.
  std::string launch(int64_t length, uint64_t width = 7, uint64_t plan = 0) {
    notes.clear();
    LaunchArgument q{1024, {length}, {1}}, scalar;
    scalar.scalar = width;
    Expected<PreparedLaunch> prepared = kernel->prepare({q, scalar}, plan);
    if (!prepared)
      return toString(prepared.takeError());
    if (Error error = prepared->launch())
      return toString(std::move(error));
    return notes;
  }

  cuda::Driver driver = makeDriver();
  std::unique_ptr<GPUDevice> device;
  std::unique_ptr<Kernel> kernel;
};

TEST_F(MaskMapsTest, MakesAMapOnce) {
  EXPECT_EQ(launch(100), "maps 4096; recorded; pool 32; orders 4096 512; attends early 4160 512; ");
  isDone = true;
  EXPECT_EQ(launch(100), "pool 32; orders 4096 512; attends early 4160 512; ");
  MaskMaps::Statistics statistics = kernel->getMaskMaps().getStatistics();
  EXPECT_EQ(statistics.maps, 1u);
  EXPECT_EQ(statistics.bytes, 1600u);
  EXPECT_EQ(statistics.hits, 1u);
  EXPECT_EQ(statistics.misses, 1u);
}

TEST_F(MaskMapsTest, TellsExtentsAndScalarsApart) {
  launch(100);
  EXPECT_TRUE(StringRef(launch(101)).starts_with("maps 8192")) << notes;
  EXPECT_TRUE(StringRef(launch(100, 8)).starts_with("maps 12288")) << notes;
  isDone = true;
  EXPECT_EQ(launch(101), "pool 32; orders 8192 512; attends early 8256 512; ");
}

TEST_F(MaskMapsTest, WaitsForAMapThatIsBeingMade) {
  launch(100);
  EXPECT_EQ(launch(100), "waits; pool 32; orders 4096 512; attends early 4160 512; ");
}

TEST_F(MaskMapsTest, MakesNoneInAGraphAndTakesWhatIsDone) {
  isCapturing = true;
  std::string inGraph = "pool 1856; maps 768; orders early 768 512; attends early 832 512; ";
  EXPECT_EQ(launch(100), inGraph);
  isCapturing = false;
  launch(100);
  isCapturing = true;
  EXPECT_EQ(launch(100), inGraph);
  isDone = true;
  EXPECT_EQ(launch(100), "pool 32; orders 4096 512; attends early 4160 512; ");
}

TEST_F(MaskMapsTest, IsBounded) {
  for (size_t length = 1; length <= MaskMaps::kMostMaps; ++length)
    launch(length);
  EXPECT_TRUE(StringRef(launch(1000)).starts_with("pool ")) << notes;
  load(kManifest);
  EXPECT_TRUE(StringRef(launch(MaskMaps::kMostBytes / 16 + 1)).starts_with("pool ")) << notes;
}

TEST_F(MaskMapsTest, KeepsNothingOfALaunchThatFails) {
  launchResult = 700;
  EXPECT_EQ(launch(100), "launching maps failed: a reason (CUDA error 700)");
  launchResult = 0;
  EXPECT_TRUE(StringRef(launch(100)).starts_with("maps 8192; recorded")) << notes;
}

TEST_F(MaskMapsTest, NeedsAPlanWhereArraysAreRead) {
  std::string manifest = kManifest.str();
  StringRef scalar = "{\"kind\": \"scalar\", \"argument\": 1},\n";
  manifest.replace(manifest.find(scalar), scalar.size(), "{\"kind\": \"pointer\", \"argument\": 0},\n");
  load(manifest);
  std::string every = "pool 1856; maps 768; orders early 768 512; attends early 832 512; ";
  EXPECT_EQ(launch(100), every);
  EXPECT_EQ(launch(100), every);
  EXPECT_TRUE(StringRef(launch(100, 7, /*plan=*/3)).starts_with("maps 4096")) << notes;
  isDone = true;
  EXPECT_EQ(launch(100, 7, 3), "pool 32; orders 4096 512; attends early 4160 512; ");
  EXPECT_TRUE(StringRef(launch(100, 7, 4)).starts_with("maps 8192")) << notes;
  notes.clear();
  kernel->getMaskMaps().forget(3);
  EXPECT_EQ(notes, "freed 4096; ");
  EXPECT_EQ(launch(100, 7, 4), "pool 32; orders 8192 512; attends early 8256 512; ");
  EXPECT_EQ(kernel->getMaskMaps().getStatistics().maps, 1u);
}

} // namespace
