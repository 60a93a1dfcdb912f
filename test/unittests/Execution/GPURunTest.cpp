//===- GPURunTest.cpp - a run against a driver whose device is the host -------------------------------------------===//

#include "flashc/Execution/GPURun.h"
#include "gtest/gtest.h"

#include <cstdlib>
#include <cstring>

using namespace flashc;
using namespace llvm;

namespace {

constexpr StringLiteral kManifest = R"json(
{ "schema": "flashc.manifest", "version": 1, "kernel": "scale", "target": "sm_90a",
  "arguments": [
    {"name": "x", "role": "input", "shape": [-1, 4], "dtype": "f32"},
    {"name": "factor", "role": "input", "shape": [], "dtype": "f32"},
    {"name": "y", "role": "output", "shape": [-1, 4], "dtype": "f32"}],
  "parameters": [
    {"kind": "pointer", "argument": 0}, {"kind": "stride", "argument": 0, "dim": 0},
    {"kind": "scalar", "argument": 1}, {"kind": "pointer", "argument": 2},
    {"kind": "stride", "argument": 2, "dim": 0}],
  "grid": ["arg0.dim0", 1, 1], "block": [4, 1, 1], "cluster": [1, 1, 1], "dynamic_shared_memory": 0 })json";

int launches = 0, allocations = 0;

template <typename T> T read(void *parameter) {
  T value;
  std::memcpy(&value, parameter, sizeof(T));
  return value;
}

/// y = factor * x, row by row.
cuda::Result launchScale(const cuda::LaunchConfig *config, cuda::Function, void **parameters, void **) {
  auto *x = read<const float *>(parameters[0]);
  auto *y = read<float *>(parameters[3]);
  for (unsigned row = 0; row < config->grid[0]; ++row)
    for (unsigned column = 0; column < config->block[0]; ++column)
      y[row * read<int64_t>(parameters[4]) + column] =
          read<float>(parameters[2]) * x[row * read<int64_t>(parameters[1]) + column];
  ++launches;
  return 0;
}

cuda::Driver makeHostDriver() {
  cuda::Driver driver;
  driver.deviceGet = [](cuda::Device *, int) { return 0; };
  driver.deviceGetName = [](char *name, int, cuda::Device) { return std::strcpy(name, "Host"), 0; };
  driver.deviceGetAttribute = [](int *value, int attribute, cuda::Device) {
    return *value = attribute == cuda::kComputeCapabilityMajor ? 9 : 0, 0;
  };
  driver.primaryContextRetain = [](cuda::Context *, cuda::Device) { return 0; };
  driver.contextSetCurrent = [](cuda::Context) { return 0; };
  driver.contextSynchronize = [] { return 0; };
  driver.moduleLoadDataEx = [](cuda::Module *, const void *, unsigned, int *, void **) { return 0; };
  driver.threadExchangeStreamCaptureMode = [](int *) { return 0; };
  driver.moduleGetFunction = [](cuda::Function *, cuda::Module, const char *) { return 0; };
  driver.functionGetParamInfo = [](cuda::Function, size_t index, size_t *, size_t *bytes) {
    constexpr size_t sizes[] = {8, 8, 4, 8, 8};
    return index < std::size(sizes) ? (*bytes = sizes[index], 0) : 1;
  };
  driver.launchKernelEx = launchScale;
  driver.memAlloc = [](cuda::DevicePtr *address, size_t bytes) {
    ++allocations;
    return *address = reinterpret_cast<cuda::DevicePtr>(std::malloc(bytes)), 0;
  };
  driver.memFree = [](cuda::DevicePtr address) {
    --allocations;
    return std::free(reinterpret_cast<void *>(address)), 0;
  };
  driver.memcpyHtoD = [](cuda::DevicePtr target, const void *source, size_t bytes) {
    return std::memcpy(reinterpret_cast<void *>(target), source, bytes), 0;
  };
  driver.memcpyDtoH = [](void *target, cuda::DevicePtr source, size_t bytes) {
    return std::memcpy(target, reinterpret_cast<void *>(source), bytes), 0;
  };
  driver.eventCreate = [](cuda::Event *, unsigned) { return 0; };
  driver.eventDestroy = [](cuda::Event) { return 0; };
  driver.eventRecord = [](cuda::Event, cuda::Stream) { return 0; };
  driver.eventSynchronize = [](cuda::Event) { return 0; };
  driver.eventElapsedTime = [](float *milliseconds, cuda::Event, cuda::Event) { return *milliseconds = 40.0f, 0; };
  return driver;
}

const EntryCode getCode = [](size_t) { return "code"; };

TEST(GPURun, CopiesLaunchesAndCopiesBack) {
  launches = allocations = 0;
  HostTensor x(DType::F32, {2, 4}, /*strides=*/{6, 1}, /*offset=*/3), factor(DType::F32, {}), y(DType::F32, {2, 4});
  x.forEach([](int64_t index, void *element) { storeElement(DType::F32, element, double(index)); });
  factor.forEach([](int64_t, void *element) { storeElement(DType::F32, element, 10.0); });
  HostTensor arguments[] = {x, factor, y};
  Expected<GPURun> run = runOnGPU(makeHostDriver(), getCode, cantFail(Manifest::parse(kManifest)), arguments);
  ASSERT_TRUE(bool(run)) << toString(run.takeError());
  EXPECT_EQ(run->device, "Host");
  EXPECT_FLOAT_EQ(run->milliseconds, 2.0f);
  EXPECT_EQ(launches, 21);
  EXPECT_EQ(allocations, 0) << "device memory was not freed";
  SmallVector<double, 0> values = arguments[2].toDoubles();
  EXPECT_EQ(ArrayRef<double>(values), ArrayRef<double>({0, 10, 20, 30, 40, 50, 60, 70}));
}

TEST(GPURun, RefusesOtherTypes) {
  HostTensor arguments[] = {HostTensor(DType::BF16, {2, 4}), HostTensor(DType::F32, {}),
                            HostTensor(DType::F32, {2, 4})};
  Expected<GPURun> run = runOnGPU(makeHostDriver(), getCode, cantFail(Manifest::parse(kManifest)), arguments);
  ASSERT_FALSE(bool(run));
  EXPECT_EQ(toString(run.takeError()), "argument x: expected f32, got bf16");
}

} // namespace
