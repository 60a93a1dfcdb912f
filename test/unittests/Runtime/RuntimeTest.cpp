//===- RuntimeTest.cpp - kernels are loaded once ------------------------------------------------------------------===//

#include "flashc/Runtime/Runtime.h"
#include "TestManifest.h"
#include "gtest/gtest.h"

#include <thread>

using namespace flashc;
using namespace llvm;

namespace {

/// Counts what the fake driver saw.
struct Counts {
  int loaded = 0, unloaded = 0, launched = 0, pools = 0;
};
Counts counts;
cuda::Context current = nullptr;
const auto kPrimary = reinterpret_cast<cuda::Context>(16), kOther = reinterpret_cast<cuda::Context>(32);

cuda::Driver makeFakeDriver() {
  cuda::Driver driver;
  driver.getErrorString = [](cuda::Result, const char **text) { return *text = "a reason", 0; };
  driver.deviceGet = [](cuda::Device *device, int ordinal) { return *device = ordinal, ordinal < 2 ? 0 : 101; };
  driver.deviceGetName = [](char *name, int, cuda::Device) { return std::strcpy(name, "Fake"), 0; };
  driver.deviceGetAttribute = [](int *value, int attribute, cuda::Device) {
    return *value = attribute == cuda::kComputeCapabilityMajor ? 9 : 0, 0;
  };
  driver.primaryContextRetain = [](cuda::Context *context, cuda::Device) { return *context = kPrimary, 0; };
  driver.primaryContextRelease = [](cuda::Device) { return 0; };
  driver.contextGetCurrent = [](cuda::Context *context) { return *context = current, 0; };
  driver.contextSetCurrent = [](cuda::Context context) { return current = context, 0; };
  driver.moduleLoadDataEx = [](cuda::Module *module, const void *code, unsigned, int *, void **) {
    EXPECT_EQ(current, kPrimary);
    ++counts.loaded;
    *module = reinterpret_cast<cuda::Module>(8);
    return StringRef(static_cast<const char *>(code)) == "bad" ? 218 : 0;
  };
  driver.moduleUnload = [](cuda::Module) {
    EXPECT_EQ(current, kPrimary);
    ++counts.unloaded;
    return 0;
  };
  driver.threadExchangeStreamCaptureMode = [](int *) { return 0; };
  driver.moduleGetFunction = [](cuda::Function *, cuda::Module, const char *) { return 0; };
  driver.functionGetParamInfo = [](cuda::Function, size_t index, size_t *, size_t *bytes) {
    static const size_t sizes[] = {128, 8, 8, 4, 4, 8};
    return index < std::size(sizes) ? (*bytes = sizes[index], 0) : 1;
  };
  driver.functionSetAttribute = [](cuda::Function, int, int) { return 0; };
  driver.tensorMapEncodeTiled = [](auto...) { return 0; };
  driver.launchKernelEx = [](const cuda::LaunchConfig *, cuda::Function, void **, void **) {
    EXPECT_EQ(current, kPrimary);
    ++counts.launched;
    return 0;
  };
  driver.memAlloc = [](cuda::DevicePtr *address, size_t) { return *address = 4096, 0; };
  driver.memFree = [](cuda::DevicePtr) { return 0; };
  driver.memPoolCreate = [](cuda::MemPool *pool, const cuda::MemPoolProps *) {
    EXPECT_EQ(current, kPrimary);
    return *pool = reinterpret_cast<cuda::MemPool>(24), ++counts.pools, 0;
  };
  driver.memPoolSetAttribute = [](cuda::MemPool, int, void *) { return 0; };
  driver.memAllocFromPoolAsync = [](cuda::DevicePtr *address, size_t, cuda::MemPool, cuda::Stream) {
    return *address = 4096, 0;
  };
  driver.memFreeAsync = [](cuda::DevicePtr, cuda::Stream) { return 0; };
  driver.memPoolDestroy = [](cuda::MemPool) { return --counts.pools, 0; };
  return driver;
}

class RuntimeTest : public testing::Test {
protected:
  RuntimeTest() {
    counts = {};
    current = kOther;
  }

  cuda::Driver driver = makeFakeDriver();
};

TEST_F(RuntimeTest, LoadsAKernelOnceOnEachGPU) {
  Runtime runtime(driver);
  auto first = cantFail(runtime.load("ptx", makeCode("ptx"), kTestManifest, 0)),
       second = cantFail(runtime.load("ptx", makeCode("ptx"), kTestManifest, 0));
  EXPECT_EQ(first, second);
  EXPECT_NE(cantFail(runtime.load("ptx", makeCode("ptx"), kTestManifest, 1)), first);
  EXPECT_NE(cantFail(runtime.load("other", makeCode("other"), kTestManifest, 0)), first);
  EXPECT_EQ(runtime.getNumLoads(), 3u);
  EXPECT_EQ(current, kOther) << "the thread's context stays what it was";
}

TEST_F(RuntimeTest, LoadsAKernelOnceForAllThreads) {
  Runtime runtime(driver);
  std::vector<std::thread> threads;
  for (int thread = 0; thread < 8; ++thread)
    threads.emplace_back([&] { cantFail(runtime.load("ptx", makeCode("ptx"), kTestManifest, 0)); });
  for (std::thread &thread : threads)
    thread.join();
  EXPECT_EQ(counts.loaded, 1);
}

TEST_F(RuntimeTest, KernelsOutliveTheRuntime) {
  auto runtime = std::make_unique<Runtime>(driver);
  auto kernel = cantFail(runtime->load("ptx", makeCode("ptx"), kTestManifest, 0));
  runtime.reset();
  EXPECT_EQ(counts.unloaded, 0);
  kernel.reset();
  EXPECT_EQ(counts.unloaded, 1);
  EXPECT_EQ(current, kOther);
}

TEST_F(RuntimeTest, LaunchesInTheRightContext) {
  Runtime runtime(driver);
  auto kernel = cantFail(runtime.load("ptx", makeCode("ptx"), kTestManifest, 0));
  LaunchArgument q{1024, {2, 8, 1000, 128}, {1024000, 128, 1024, 1}}, slope, o = q;
  for (cuda::Context before : {kOther, kPrimary}) {
    current = before;
    EXPECT_FALSE(kernel->launch({q, slope, o}, nullptr));
    EXPECT_EQ(current, before);
  }
  EXPECT_EQ(counts.launched, 2);
  // A caller can tell errors of the arguments from errors of the GPU.
  q.strides[2] = 3;
  handleAllErrors(kernel->launch({q, slope, o}, nullptr), [](const ErrorInfoBase &error) {
    EXPECT_TRUE(isArgumentMismatch(error.convertToErrorCode())) << error.message();
  });
}

TEST_F(RuntimeTest, LoadsVariantsInTheRightContext) {
  Runtime runtime(driver);
  auto kernel = cantFail(runtime.load("variants", makeCode(getTestPTX()), getTestManifestWithVariants(), 0));
  EXPECT_EQ(counts.loaded, 0);
  LaunchArgument q{1024, {2, 8, 1000, 128}, {1024000, 128, 1024, 1}}, slope, o = q;
  EXPECT_FALSE(kernel->launch({q, slope, o}, nullptr));
  EXPECT_EQ(counts.loaded, 1);
  EXPECT_FALSE(kernel->loadAll());
  EXPECT_EQ(counts.loaded, 3);
  EXPECT_EQ(current, kOther);
  EXPECT_EQ(runtime.getNumLoads(), 1u) << "it is one kernel";
}

TEST_F(RuntimeTest, MakesOnePoolOnEachGPU) {
  {
    Runtime runtime(driver);
    auto first = cantFail(runtime.load("ptx", makeCode("ptx"), kTestManifest, 0)),
         second = cantFail(runtime.load("other", makeCode("other"), kTestManifest, 0));
    EXPECT_EQ(counts.pools, 1); // created before the first launch, which a graph may capture
    LaunchArgument q{1024, {2, 8, 1000, 128}, {1024000, 128, 1024, 1}}, slope, o = q;
    for (auto &kernel : {first, second})
      EXPECT_FALSE(kernel->launch({q, slope, o}, nullptr));
    EXPECT_EQ(counts.pools, 1);
    cantFail(runtime.load("ptx", makeCode("ptx"), kTestManifest, 1));
    EXPECT_EQ(counts.pools, 2);
  }
  EXPECT_EQ(counts.pools, 0);
}

TEST_F(RuntimeTest, ReportsWhatTheDriverRefusesAndTriesAgain) {
  Runtime runtime(driver);
  for (int attempt = 0; attempt < 2; ++attempt)
    EXPECT_EQ(toString(runtime.load("bad", makeCode("bad"), kTestManifest, 0).takeError()),
              "loading causal failed: a reason (CUDA error 218)");
  EXPECT_EQ(counts.loaded, 2);
  EXPECT_EQ(toString(runtime.load("ptx", makeCode("ptx"), kTestManifest, 7).takeError()),
            "opening GPU 7 failed: a reason (CUDA error 101)");
  EXPECT_EQ(runtime.getNumLoads(), 0u);
}

} // namespace
