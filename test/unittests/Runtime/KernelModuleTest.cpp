//===- KernelModuleTest.cpp - kernels are loaded together, once ---------------------------------------------------===//

#include "flashc/Runtime/KernelModule.h"
#include "TestManifest.h"
#include "gtest/gtest.h"

#include <cstring>
#include <thread>

using namespace flashc;
using namespace llvm;

namespace {

/// Counts what the fake driver saw.
struct Counts {
  std::atomic<int> loading = 0, loaded = 0, unloaded = 0;
};
Counts *counts;
/// How many of the next loads fail.
std::atomic<int> failures;
size_t numParameters;
thread_local int captureMode;
constexpr int kCaptureGlobal = 0;

cuda::Result loadModule(cuda::Module *module, const void *, unsigned, int *, void **values) {
  EXPECT_EQ(captureMode, cuda::kCaptureRelaxed);
  EXPECT_EQ(++counts->loading, 1) << "two threads load the same";
  std::this_thread::sleep_for(std::chrono::milliseconds(5));
  --counts->loading;
  *module = reinterpret_cast<cuda::Module>(8);
  if (failures > 0) {
    --failures;
    std::strcpy(static_cast<char *>(values[0]), "ptxas: no\n");
    return 218;
  }
  return ++counts->loaded, 0;
}

cuda::Driver makeFakeDriver() {
  cuda::Driver driver;
  driver.getErrorString = [](cuda::Result, const char **text) { return *text = "a reason", 0; };
  driver.threadExchangeStreamCaptureMode = [](int *mode) { return std::swap(*mode, captureMode), 0; };
  driver.moduleLoadDataEx = loadModule;
  driver.moduleUnload = [](cuda::Module) { return ++counts->unloaded, 0; };
  driver.moduleGetFunction = [](cuda::Function *function, cuda::Module, const char *name) {
    EXPECT_EQ(captureMode, cuda::kCaptureRelaxed);
    return *function = reinterpret_cast<cuda::Function>(std::strlen(name)), 0;
  };
  driver.functionGetParamInfo = [](cuda::Function, size_t index, size_t *, size_t *bytes) {
    static const size_t sizes[] = {128, 8, 8, 4, 4, 8};
    return index < numParameters ? (*bytes = sizes[index], 0) : 1;
  };
  driver.functionSetAttribute = [](cuda::Function, int, int) { return 0; };
  return driver;
}

class KernelModuleTest : public testing::Test {
protected:
  KernelModuleTest() {
    counts = &seen;
    failures = 0;
    numParameters = 6;
    captureMode = kCaptureGlobal;
  }

  Counts seen;
  cuda::Driver driver = makeFakeDriver();
  Manifest manifest = cantFail(Manifest::parse(getTestManifestWithBefore()));
  EntryCode code = makeCode(getTestPTX());
};

TEST_F(KernelModuleTest, LoadsOnceForAllThreads) {
  KernelModule module(driver, manifest, /*number=*/0, code);
  std::vector<std::thread> threads;
  for (int thread = 0; thread < 8; ++thread)
    threads.emplace_back([&] {
      EXPECT_FALSE(module.load());
      EXPECT_EQ(module.getFunction("causal"), reinterpret_cast<cuda::Function>(6));
      EXPECT_EQ(module.getFunction("causal_one"), reinterpret_cast<cuda::Function>(10));
    });
  for (std::thread &thread : threads)
    thread.join();
  EXPECT_EQ(seen.loaded, 1);
}

TEST_F(KernelModuleTest, PutsTheCaptureModeBack) {
  for (int mode : {kCaptureGlobal, 1}) {
    KernelModule module(driver, manifest, /*number=*/0, code);
    captureMode = mode;
    failures = 1;
    EXPECT_EQ(toString(module.load()), "loading causal failed: a reason (CUDA error 218): ptxas: no");
    EXPECT_EQ(captureMode, mode);
    EXPECT_EQ(toString(module.load()), "");
    EXPECT_EQ(captureMode, mode);
  }
}

TEST_F(KernelModuleTest, TriesAgainAfterAFailure) {
  {
    KernelModule module(driver, manifest, /*number=*/0, code);
    failures = 1;
    EXPECT_TRUE(errorToBool(module.load()));
    EXPECT_EQ(seen.unloaded, 0);
    numParameters = 5; // loading fails, and what was loaded already is unloaded
    EXPECT_EQ(toString(module.load()), "kernel causal_one: expected 6 parameters, got 5");
    EXPECT_EQ(seen.unloaded, 1);
    numParameters = 6;
    EXPECT_EQ(toString(module.load()), "");
    EXPECT_EQ(seen.loaded, 2);
  }
  EXPECT_EQ(seen.unloaded, 2);
}

TEST_F(KernelModuleTest, UnloadsNothingThatItDidNotLoad) {
  failures = 1;
  for (bool isAsked : {false, true}) {
    KernelModule module(driver, manifest, /*number=*/0, code);
    if (isAsked) { // braces, because EXPECT_TRUE expands to an `if`
      EXPECT_TRUE(errorToBool(module.load()));
    }
  }
  EXPECT_EQ(seen.unloaded, 0);
}

TEST_F(KernelModuleTest, AsksForItsCodeOnceForAllThreads) {
  std::atomic<int> asked = 0;
  EntryCode countingCode = [&](size_t number) {
    EXPECT_EQ(number, 0u);
    EXPECT_EQ(captureMode, kCaptureGlobal) << "compiling is nothing to the driver";
    return ++asked, getTestPTX();
  };
  KernelModule module(driver, manifest, /*number=*/0, countingCode);
  EXPECT_EQ(asked, 0);
  std::vector<std::thread> threads;
  for (int thread = 0; thread < 8; ++thread)
    threads.emplace_back([&] { EXPECT_FALSE(module.load()); });
  for (std::thread &thread : threads)
    thread.join();
  EXPECT_EQ(asked, 1);
}

TEST_F(KernelModuleTest, TellsWhatDoesNotCompileFromWhatDoesNotLoad) {
  bool compiles = false;
  EntryCode lateCode = [&](size_t) -> Expected<std::string> {
    return compiles ? Expected<std::string>(getTestPTX()) : createStringError("3:1: error: no such op");
  };
  KernelModule module(driver, manifest, /*number=*/0, lateCode);
  auto load = [&](bool isCompilers, StringRef text) {
    handleAllErrors(module.load(), [&](const ErrorInfoBase &error) {
      EXPECT_EQ(isCompileError(error.convertToErrorCode()), isCompilers);
      EXPECT_EQ(error.message(), text);
    });
  };
  load(true, "3:1: error: no such op");
  load(true, "3:1: error: no such op");
  EXPECT_EQ(seen.loaded, 0);
  compiles = true;
  failures = 1;
  load(false, "loading causal failed: a reason (CUDA error 218): ptxas: no");
  EXPECT_FALSE(module.load());
}

} // namespace
