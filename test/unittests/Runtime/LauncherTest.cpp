//===- LauncherTest.cpp - a launch against a driver that only takes notes -----------------------------------------===//

#include "flashc/Runtime/Launcher.h"
#include "TestManifest.h"
#include "llvm/Support/raw_ostream.h"
#include "gtest/gtest.h"

#include <cstring>

using namespace flashc;
using namespace llvm;

namespace {

/// What the fake driver was told: a line for each call that matters.
std::string notes;
int computeCapabilityMajor = 9;
/// The number, from 0, of the next launch that fails. -1 if none fails.
int failingLaunch = -1;
/// Sizes of the kernel's parameters.
SmallVector<size_t> parameterBytes;
/// Whether kernels have two more parameters, the extents along x and y of a grid that is folded into one dimension.
bool isFolded = false;
size_t mostParametersAsked = 0;

template <typename T> void note(StringRef what, ArrayRef<T> values) {
  raw_string_ostream stream(notes);
  stream << what;
  for (T value : values)
    stream << ' ' << value;
  stream << '\n';
}

cuda::Result encodeTiled(cuda::TensorMap *map, int type, uint32_t rank, void *address, const uint64_t *extents,
                         const uint64_t *strides, const uint32_t *box, const uint32_t *elementStrides, int interleave,
                         int swizzle, int promotion, int fill) {
  EXPECT_EQ(reinterpret_cast<uintptr_t>(map) % 64, 0u);
  note<uint64_t>("map", {uint64_t(type), rank, reinterpret_cast<uint64_t>(address)});
  note("extents", ArrayRef(extents, rank));
  note("strides", ArrayRef(strides, rank - 1));
  note("box", ArrayRef(box, rank));
  note("element strides", ArrayRef(elementStrides, rank));
  note<int>("modes", {interleave, swizzle, promotion, fill});
  std::memset(map, 0x5A, sizeof(*map));
  return 0;
}

template <typename T> T readParameter(void **parameters, unsigned index) {
  T value;
  std::memcpy(&value, parameters[index], sizeof(T));
  return value;
}

cuda::Result launchKernel(const cuda::LaunchConfig *config, cuda::Function function, void **parameters, void **) {
  if (failingLaunch-- == 0)
    return 700;
  note<StringRef>("kernel", *reinterpret_cast<const StringLiteral *>(function));
  note("grid", ArrayRef(config->grid, 3));
  note("block", ArrayRef(config->block, 3));
  note<uint32_t>("shared", config->sharedMemoryBytes);
  for (const cuda::LaunchAttribute &attribute : ArrayRef(config->attributes, config->numAttributes)) {
    if (attribute.id == cuda::kClusterDimension)
      note("cluster", ArrayRef(attribute.value.cluster, 3));
    else
      note<int>("overlaps", {attribute.id, attribute.value.programmaticStreamSerialization});
  }
  EXPECT_EQ(static_cast<unsigned char *>(parameters[0])[127], 0x5A);
  note<uint64_t>("pointer", readParameter<uint64_t>(parameters, 1));
  note<int64_t>("stride", readParameter<int64_t>(parameters, 2));
  note<int32_t>("extent", readParameter<int32_t>(parameters, 3));
  note<float>("scalar", readParameter<float>(parameters, 4));
  note<uint64_t>("workspace", readParameter<uint64_t>(parameters, 5));
  if (isFolded)
    note<int32_t>("extents", {readParameter<int32_t>(parameters, 6), readParameter<int32_t>(parameters, 7)});
  return 0;
}

/// The fake driver accepts the PTX of TestManifest.h, and the text "good", which stands for a module with all kernels.
cuda::Result loadModule(cuda::Module *module, const void *code, unsigned, int *, void **values) {
  StringRef text(static_cast<const char *>(code));
  *module = reinterpret_cast<cuda::Module>(8);
  if (text == "good")
    return 0;
  if (text.starts_with(".version") && !text.contains("bad"))
    return note<size_t>("load", {text.count(".entry")}), 0;
  std::strcpy(static_cast<char *>(values[0]), "ptxas: line 1: syntax error\n");
  return 218;
}

cuda::Result getDeviceAttribute(int *value, int attribute, cuda::Device) {
  *value = attribute == cuda::kMultiprocessorCount      ? 132
           : attribute == cuda::kComputeCapabilityMajor ? computeCapabilityMajor
                                                        : 0;
  return 0;
}

cuda::Driver makeFakeDriver() {
  cuda::Driver driver;
  driver.getErrorString = [](cuda::Result, const char **text) { return *text = "a reason", 0; };
  driver.deviceGet = [](cuda::Device *, int ordinal) { return ordinal == 0 ? 0 : 101; };
  driver.deviceGetName = [](char *name, int, cuda::Device) { return std::strcpy(name, "Fake"), 0; };
  driver.deviceGetAttribute = getDeviceAttribute;
  driver.primaryContextRetain = [](cuda::Context *, cuda::Device) { return 0; };
  driver.contextSetCurrent = [](cuda::Context) { return 0; };
  driver.moduleLoadDataEx = loadModule;
  driver.moduleUnload = [](cuda::Module) { return note<int>("unload", {}), 0; };
  driver.threadExchangeStreamCaptureMode = [](int *) { return 0; };
  driver.moduleGetFunction = [](cuda::Function *function, cuda::Module, const char *name) {
    static constexpr StringLiteral kernels[] = {"causal", "causal_one", "causal_few"};
    const StringLiteral *kernel = find(kernels, StringRef(name));
    *function = reinterpret_cast<cuda::Function>(const_cast<StringLiteral *>(kernel));
    return kernel != std::end(kernels) ? 0 : 500;
  };
  driver.functionGetParamInfo = [](cuda::Function, size_t index, size_t *, size_t *bytes) {
    mostParametersAsked = std::max(mostParametersAsked, index + 1);
    return index < parameterBytes.size() ? (*bytes = parameterBytes[index], 0) : 1;
  };
  driver.functionSetAttribute = [](cuda::Function, int attribute, int value) {
    note<int>("attribute", {attribute, value});
    return 0;
  };
  driver.tensorMapEncodeTiled = encodeTiled;
  driver.launchKernelEx = launchKernel;
  driver.memAlloc = [](cuda::DevicePtr *address, size_t) { return *address = 4096, 0; };
  driver.memFree = [](cuda::DevicePtr) { return 0; };
  driver.memPoolCreate = [](cuda::MemPool *pool, const cuda::MemPoolProps *properties) {
    note<int>("pool", {properties->allocationType, properties->locationType, properties->location});
    return *pool = reinterpret_cast<cuda::MemPool>(24), 0;
  };
  driver.memPoolDestroy = [](cuda::MemPool) { return note<int>("pool destroyed", {}), 0; };
  driver.memPoolSetAttribute = [](cuda::MemPool, int attribute, void *value) {
    EXPECT_EQ(*static_cast<uint64_t *>(value), ~uint64_t(0));
    return note<int>("pool attribute", {attribute}), 0;
  };
  driver.memAllocFromPoolAsync = [](cuda::DevicePtr *address, size_t bytes, cuda::MemPool pool, cuda::Stream stream) {
    EXPECT_EQ(pool, reinterpret_cast<cuda::MemPool>(24));
    note<uint64_t>("allocate", {bytes, reinterpret_cast<uint64_t>(stream)});
    return *address = 4096, 0;
  };
  driver.memFreeAsync = [](cuda::DevicePtr address, cuda::Stream stream) {
    note<uint64_t>("free", {address, reinterpret_cast<uint64_t>(stream)});
    return 0;
  };
  return driver;
}

/// Returns the arguments: q, of shape [B, H, N, D] and stored as [B, N, H, D]; the slope 0.5; and o.
SmallVector<LaunchArgument> makeArguments() {
  LaunchArgument q{1024, {2, 8, 1000, 128}, {1024000, 128, 1024, 1}};
  LaunchArgument slope;
  float value = 0.5f;
  std::memcpy(&slope.scalar, &value, sizeof(value));
  LaunchArgument o = q;
  o.address = 2048;
  return {q, slope, o};
}

class Launcher : public testing::Test {
protected:
  Launcher() {
    notes.clear();
    computeCapabilityMajor = 9;
    failingLaunch = -1;
    isFolded = false;
    parameterBytes = {128, 8, 8, 4, 4, 8};
  }

  /// Loads and launches; returns the error's text, if any.
  std::string run(StringRef code, ArrayRef<LaunchArgument> arguments, StringRef manifest = kTestManifest) {
    Expected<std::unique_ptr<GPUDevice>> device = GPUDevice::open(driver);
    if (!device)
      return toString(device.takeError());
    Expected<std::unique_ptr<Kernel>> kernel =
        Kernel::load(**device, makeCode(code.str()), cantFail(Manifest::parse(manifest)));
    if (!kernel)
      return toString(kernel.takeError());
    Expected<PreparedLaunch> launch = (*kernel)->prepare(arguments);
    if (!launch)
      return toString(launch.takeError());
    PreparedLaunch moved = std::move(*launch);
    return toString(moved.launch(stream));
  }

  cuda::Driver driver = makeFakeDriver();
  cuda::Stream stream = reinterpret_cast<cuda::Stream>(7);
};

TEST_F(Launcher, PassesWhatTheManifestAsksFor) {
  EXPECT_EQ(run("good", makeArguments()), "");
  EXPECT_EQ(notes, "attribute 8 197632\n"
                   "pool 1 1 0\n"
                   "pool attribute 4\n"
                   "map 9 4 1024\n"
                   "extents 128 1000 8 2\n"
                   "strides 2048 256 2048000\n"
                   "box 64 128 1 1\n"
                   "element strides 1 1 1 1\n"
                   "modes 0 3 2 0\n"
                   "allocate 64 7\n"
                   "kernel causal\n"
                   "grid 8 8 2\n"
                   "block 384 1 1\n"
                   "shared 197632\n"
                   "cluster 2 1 1\n"
                   "pointer 2048\n"
                   "stride 1024\n"
                   "extent 1000\n"
                   "scalar 5.000000e-01\n"
                   "workspace 4096\n"
                   "free 4096 7\n"
                   "unload\n"
                   "pool destroyed\n");
}

/// Returns the lines of `notes` about the order of launches, allocations and frees.
std::string getSequence() {
  std::string sequence;
  for (StringRef line : split(StringRef(notes), '\n'))
    if (line.starts_with("kernel") || line.starts_with("grid") || line.starts_with("allocate") ||
        line.starts_with("free") || line.starts_with("workspace") || line.starts_with("overlaps"))
      sequence += (line + "; ").str();
  return sequence;
}

TEST_F(Launcher, LaunchesWhatRunsBeforeFirst) {
  EXPECT_EQ(run("good", makeArguments(), getTestManifestWithBefore()), "");
  EXPECT_EQ(getSequence(), "allocate 64 7; kernel causal_one; grid 4 1 1; workspace 4096; "
                           "kernel causal_few; grid 1 1 1; workspace 4096; "
                           "kernel causal; grid 8 8 2; workspace 4096; free 4096 7; ");
  EXPECT_TRUE(StringRef(notes).starts_with("attribute 8 65536\nattribute 8 197632\npool")) << notes;
}

/// Returns the manifest with kernels before the main one. Each kernel but the first waits for the one in front of it.
std::string getOverlappingManifest() {
  std::string manifest = getTestManifestWithBefore();
  manifest.replace(manifest.find("\"before\""), 0, "\"programmatic_launch\": true, ");
  return manifest;
}

TEST_F(Launcher, LetsAllKernelsButTheFirstOverlap) {
  EXPECT_EQ(run("good", makeArguments(), getOverlappingManifest()), "");
  EXPECT_EQ(getSequence(), "allocate 64 7; kernel causal_one; grid 4 1 1; workspace 4096; "
                           "kernel causal_few; grid 1 1 1; overlaps 6 1; workspace 4096; "
                           "kernel causal; grid 8 8 2; overlaps 6 1; workspace 4096; free 4096 7; ");
  EXPECT_TRUE(StringRef(notes).contains("cluster 2 1 1\noverlaps 6 1\n")) << notes;
}

TEST_F(Launcher, LetsAKernelThatIsAloneOverlap) {
  std::string manifest = kTestManifest.str();
  manifest.replace(manifest.find("\"block\""), 0, "\"programmatic_launch\": true, ");
  EXPECT_EQ(run("good", makeArguments(), manifest), "");
  EXPECT_TRUE(StringRef(notes).contains("overlaps 6 1\n")) << notes;
}

TEST_F(Launcher, LetsTheFirstKernelThereIsNotOverlap) {
  std::string manifest = getOverlappingManifest();
  StringRef grid = "\"ceildiv(arg0.dim2, 256)\"";
  manifest.replace(manifest.find(grid), grid.size(), "0");
  EXPECT_EQ(run("good", makeArguments(), manifest), "");
  EXPECT_EQ(getSequence(), "allocate 64 7; kernel causal_few; grid 1 1 1; workspace 4096; "
                           "kernel causal; grid 8 8 2; overlaps 6 1; workspace 4096; free 4096 7; ");
}

TEST_F(Launcher, LaunchesWhatRunsAfterLast) {
  std::string manifest = getTestManifestWithAfter();
  manifest.replace(manifest.find("\"before\""), 0, "\"programmatic_launch\": true, ");
  EXPECT_EQ(run("good", makeArguments(), manifest), "");
  EXPECT_EQ(getSequence(), "allocate 64 7; kernel causal_one; grid 4 1 1; workspace 4096; "
                           "kernel causal; grid 8 8 2; overlaps 6 1; workspace 4096; "
                           "kernel causal_few; grid 1 1 1; overlaps 6 1; workspace 4096; free 4096 7; ");
}

TEST_F(Launcher, LooksAtWhatRunsAfter) {
  EXPECT_EQ(run(".entry causal_few() { ret; }", makeArguments(), getTestManifestWithAfter()),
            "kernel causal_few: expected 6 parameters, got 0");
}

TEST_F(Launcher, PassesAddressesInsideTheWorkspace) {
  std::string manifest = getTestManifestWithBefore();
  StringRef whole = "{\"kind\": \"workspace\"}";
  manifest.replace(manifest.rfind(whole), whole.size(), "{\"kind\": \"workspace\", \"offset\": \"mul(8, arg0.dim0)\"}");
  EXPECT_EQ(run("good", makeArguments(), manifest), "");
  EXPECT_EQ(getSequence(), "allocate 64 7; kernel causal_one; grid 4 1 1; workspace 4096; "
                           "kernel causal_few; grid 1 1 1; workspace 4112; "
                           "kernel causal; grid 8 8 2; workspace 4096; free 4096 7; ");
}

TEST_F(Launcher, LaunchesNothingBeforeNothing) {
  SmallVector<LaunchArgument> arguments = makeArguments();
  arguments[0].shape[0] = arguments[2].shape[0] = 0;
  EXPECT_EQ(run("good", arguments, getTestManifestWithBefore()), "");
  EXPECT_EQ(getSequence(), "");
}

TEST_F(Launcher, FreesTheWorkspaceOfALaunchThatFails) {
  for (int number : {0, 2}) {
    notes.clear();
    failingLaunch = number;
    EXPECT_EQ(run("good", makeArguments(), getTestManifestWithBefore()), std::string("launching ") +
                                                                             (number == 0 ? "causal_one" : "causal") +
                                                                             " failed: a reason (CUDA error 700)");
    EXPECT_TRUE(StringRef(getSequence()).ends_with("free 4096 7; ")) << notes;
  }
}

TEST_F(Launcher, SaysWhatThereIsNoMemoryFor) {
  driver.memAllocFromPoolAsync = [](cuda::DevicePtr *, size_t, cuda::MemPool, cuda::Stream) { return 2; };
  EXPECT_EQ(run("good", makeArguments()), "allocating 64 bytes for causal failed: a reason (CUDA error 2)");
  driver.memPoolCreate = [](cuda::MemPool *, const cuda::MemPoolProps *) { return 801; };
  EXPECT_EQ(run("good", makeArguments()), "making a pool of memory on Fake failed: a reason (CUDA error 801)");
}

TEST_F(Launcher, LooksAtWhatRunsBefore) {
  EXPECT_EQ(run(".entry causal_few() { ret; }", makeArguments(), getTestManifestWithBefore()),
            "kernel causal_few: expected 6 parameters, got 0");
}

TEST_F(Launcher, LaunchesNothingForEmptyArrays) {
  SmallVector<LaunchArgument> arguments = makeArguments();
  arguments[0].shape[0] = arguments[2].shape[0] = 0;
  EXPECT_EQ(run("good", arguments), "");
  EXPECT_FALSE(StringRef(notes).contains("kernel") || StringRef(notes).contains("allocate")) << notes;
}

TEST_F(Launcher, RefusesArraysThatDoNotFit) {
  SmallVector<LaunchArgument> arguments = makeArguments();
  EXPECT_EQ(run("good", ArrayRef(arguments).drop_back()), "expected 3 arguments, got 2");
  arguments[0].shape[3] = 64;
  EXPECT_EQ(run("good", arguments), "argument 0 (q): expected extent 128 in dimension 3, got 64");
  arguments = makeArguments();
  arguments[2].shape.pop_back();
  EXPECT_EQ(run("good", arguments), "argument 2 (o): expected rank 4, got 3");
}

TEST_F(Launcher, RefusesToMapEmptyArrays) {
  SmallVector<LaunchArgument> arguments = makeArguments();
  arguments[0].shape[0] = arguments[2].shape[0] = 0;
  Manifest manifest = cantFail(Manifest::parse(kTestManifest));
  Expected<KernelParameters> parameters = KernelParameters::build(driver, manifest, manifest, arguments, /*smCount=*/1);
  EXPECT_EQ(toString(parameters.takeError()), "argument 0 (q): expected an extent of at least 1 in dimension 0, got 0: "
                                              "without keys, o is 0 and lse is -inf");
}

TEST_F(Launcher, RefusesArraysWithoutMemory) {
  SmallVector<LaunchArgument> arguments = makeArguments();
  arguments[2].address = 0;
  EXPECT_EQ(run("good", arguments), "argument 2 (o): expected an address, got 0");
}

TEST_F(Launcher, RefusesExtentsThatDisagree) {
  SmallVector<LaunchArgument> arguments = makeArguments();
  arguments[2].shape[0] = 1;
  EXPECT_EQ(run("good", arguments),
            "argument 2 (o): expected extent 2 in dimension 0, as in dimension 0 of argument 0 (q), got 1");
  arguments = makeArguments();
  arguments[2].shape[2] = 999;
  EXPECT_EQ(run("good", arguments),
            "argument 2 (o): expected extent 1000 in dimension 2, 1 times dimension 2 of argument 0 (q), got 999");
  arguments = makeArguments();
  arguments[0].shape[2] = arguments[2].shape[2] = -1;
  EXPECT_EQ(run("good", arguments), "argument 0 (q): expected an extent that is not negative in dimension 2, got -1");
}

TEST_F(Launcher, RefusesWhatNoTensorMapDescribes) {
  SmallVector<LaunchArgument> arguments = makeArguments();
  arguments[0].address = 1032;
  EXPECT_EQ(run("good", arguments), "argument 0 (q): expected an address that is a multiple of 16 bytes");
  arguments = makeArguments();
  arguments[0].strides[2] = 1028;
  EXPECT_EQ(run("good", arguments),
            "argument 0 (q): expected a stride of a multiple of 16 bytes in dimension 2, got 2056");
  arguments = makeArguments();
  arguments[0].strides[3] = 2;
  EXPECT_EQ(run("good", arguments), "argument 0 (q): expected stride 1 in the innermost dimension, got 2");
}

TEST_F(Launcher, TakesAnyStrideOfASingleElement) {
  SmallVector<LaunchArgument> arguments = makeArguments();
  arguments[0].shape[0] = arguments[2].shape[0] = 1;
  arguments[0].strides[0] = arguments[2].strides[0] = 3;
  EXPECT_EQ(run("good", arguments), "");
  EXPECT_TRUE(StringRef(notes).contains("strides 2048 256 16\n")) << notes;
}

TEST_F(Launcher, RefusesPointersBelowTheirAlignment) {
  SmallVector<LaunchArgument> arguments = makeArguments();
  arguments[2].address = 2056;
  EXPECT_EQ(run("good", arguments), "argument 2 (o): expected an address that is a multiple of 16 bytes");
  arguments = makeArguments();
  arguments[2].strides[1] = 1;
  EXPECT_EQ(run("good", arguments),
            "argument 2 (o): expected a stride of a multiple of 16 bytes in dimension 1, got 2");
  arguments = makeArguments();
  arguments[2].strides[3] = 2;
  EXPECT_EQ(run("good", arguments), "argument 2 (o): expected stride 1 in the innermost dimension, got 2");
}

TEST_F(Launcher, RefusesPositionsThatKernelsDoNotCount) {
  SmallVector<LaunchArgument> arguments = makeArguments();
  arguments[0].shape[2] = arguments[2].shape[2] = (int64_t(1) << 31) - (1 << 16);
  EXPECT_EQ(run("good", arguments),
            "argument 0 (q): expected an extent of at most 2147418111 in dimension 2, got 2147418112");
}

TEST_F(Launcher, RefusesMoreCTAsThanKernelsCount) {
  SmallVector<LaunchArgument> arguments = makeArguments();
  arguments[0].shape[0] = arguments[2].shape[0] = int64_t(1) << 25; // times 8 heads and 8 tiles
  EXPECT_EQ(run("good", arguments),
            "expected at most 2147483647 CTAs, got 33554432 along grid axis 2 with those of the others");
  EXPECT_FALSE(StringRef(notes).contains("launch")) << notes;
}

TEST_F(Launcher, ReportsWhatTheDriverRefuses) {
  EXPECT_EQ(run("bad", makeArguments()),
            "loading causal failed: a reason (CUDA error 218): ptxas: line 1: syntax error");
}

TEST_F(Launcher, RefusesKernelsWithOtherParameters) {
  parameterBytes = {128, 8, 8, 8, 4, 8};
  EXPECT_EQ(run("good", makeArguments()), "kernel causal: expected parameter 3 to be 4 bytes, got 8");
  parameterBytes = {128, 8, 8, 4, 4};
  EXPECT_EQ(run("good", makeArguments()), "kernel causal: expected 6 parameters, got 5");
}

/// Returns PTX of a kernel with this list of parameters; other kernels stand before and after it.
std::string makePTX(StringRef list) {
  return (".version 8.0\n.visible .entry causal_other(\n  .param .u64 a\n)\n{ ret; }\n.visible .entry causal" + list +
          "\n.reqntid 384\n{ ret; }\n.entry last(.param .u64 a) { ret; }\n")
      .str();
}

TEST_F(Launcher, CountsTheParametersOfPTX) {
  std::string six = ".param .align 64 .b8 causal_param_0[128], .param .u64 .ptr .global .align 16 causal_param_1,\n"
                    ".param .u64 causal_param_2, .param .u32 causal_param_3, .param .f32 p, .param .u64 causal_param_5";
  Manifest manifest = cantFail(Manifest::parse(kTestManifest));
  auto check = [&](const std::string &ptx) { return toString(checkEntry(ptx, manifest)); };
  EXPECT_EQ(check(makePTX("(\n" + six + "\n)")), "");
  EXPECT_EQ(check(makePTX(" (" + six + ", .param .u8 causal_param_6)")), "kernel causal: expected 6 parameters, got 7");
  EXPECT_EQ(check(makePTX("()")), "kernel causal: expected 6 parameters, got 0");
  EXPECT_EQ(check(makePTX("")), "kernel causal: expected 6 parameters, got 0");
  EXPECT_EQ(check("\x7f"
                  "ELF"),
            "");
  // Loading checks the parameters before the driver sees the code.
  EXPECT_EQ(run(makePTX("()"), makeArguments()), "kernel causal: expected 6 parameters, got 0");
}

TEST_F(Launcher, AsksTheDriverForWhatThereIs) {
  mostParametersAsked = 0;
  EXPECT_EQ(run("good", makeArguments()), "");
  EXPECT_EQ(mostParametersAsked, 6u);
}

/// Returns the same arguments with another batch and another number of queries.
static SmallVector<LaunchArgument> makeArguments(int64_t batch, int64_t queries) {
  SmallVector<LaunchArgument> arguments = makeArguments();
  for (unsigned index : {0, 2}) {
    arguments[index].shape[0] = batch;
    arguments[index].shape[2] = queries;
  }
  return arguments;
}

TEST_F(Launcher, LaunchesTheFirstVariantWhoseConditionsHold) {
  std::string manifest = getTestManifestWithVariants();
  auto launch = [&](int64_t batch, int64_t queries) {
    notes.clear();
    EXPECT_EQ(run("good", makeArguments(batch, queries), manifest), "");
    size_t begin = std::min(notes.find("kernel"), notes.size());
    return notes.substr(begin, notes.find("free") - begin);
  };
  // An entry that needs more shared memory than a kernel has by default asks the driver for it.
  EXPECT_TRUE(StringRef(launch(1, 128))
                  .starts_with("kernel causal_one\ngrid 1 8 1\nblock 128 1 1\nshared 1024\n"
                               "pointer 2048\n"));
  EXPECT_FALSE(StringRef(notes).contains("attribute 8")) << notes;
  EXPECT_TRUE(StringRef(notes).contains("allocate 32 7\n")) << notes;
  EXPECT_TRUE(StringRef(launch(2, 128)).starts_with("kernel causal_few\ngrid 2 8 2\nblock 256 1 1\nshared 65536\n"));
  EXPECT_TRUE(StringRef(notes).contains("attribute 8 65536\n")) << notes;
  EXPECT_TRUE(StringRef(notes).contains("allocate 16 7\n")) << notes; // 8 bytes for each batch
  EXPECT_TRUE(StringRef(launch(1, 256)).starts_with("kernel causal_few\ngrid 4 8 1\n"));
  EXPECT_TRUE(StringRef(launch(1, 257)).starts_with("kernel causal\ngrid 3 8 1\nblock 384 1 1\nshared 197632\n"));
  EXPECT_TRUE(StringRef(notes).contains("allocate 64 7\n")) << notes;
  EXPECT_EQ(launch(0, 200), "");
}

TEST_F(Launcher, ChoosesByAMean) {
  std::string manifest = getTestManifestWithVariants();
  StringRef condition = "[\"arg0.dim0\", 1]"; // the condition now means: at most 128 (batch - 1) queries
  manifest.replace(manifest.find(condition), condition.size(),
                   "[\"ceildiv(add(arg0.dim2, 256), add(arg0.dim0, 1))\", 128]");
  for (auto [batch, queries, kernel] : {std::tuple(1, 128, "few"), {2, 128, "one"}, {1, 1, "few"}, {3, 129, "few"}}) {
    notes.clear();
    EXPECT_EQ(run("good", makeArguments(batch, queries), manifest), "");
    EXPECT_TRUE(StringRef(notes).contains(("kernel causal_" + Twine(kernel) + "\n").str())) << notes;
  }
}

TEST_F(Launcher, LooksAtTheVariantThatItLoads) {
  std::string manifest = getTestManifestWithVariants();
  EXPECT_EQ(run(".entry causal_few() { ret; }", makeArguments(1, 200), manifest),
            "kernel causal_few: expected 6 parameters, got 0");
  std::string other = manifest;
  other.replace(other.find("causal_few"), 10, "causal_any");
  EXPECT_EQ(run("good", makeArguments(1, 200), other), "finding kernel causal_any failed: a reason (CUDA error 500)");
}

/// An entry is launched as it is if it has at most 65,535 CTAs along y and z. Otherwise its code for a grid of one
/// dimension is launched.
TEST_F(Launcher, FoldsGridsThatExceedAnAxis) {
  std::string compiled;
  auto launch = [&](int64_t batch) {
    std::unique_ptr<GPUDevice> device = cantFail(GPUDevice::open(driver));
    auto getCode = [&](size_t number) -> Expected<std::string> {
      compiled += std::to_string(number) + ' ';
      isFolded = number >= 3;
      return std::string("good");
    };
    Manifest manifest = cantFail(Manifest::parse(getTestManifestWithVariants()));
    std::unique_ptr<Kernel> kernel = cantFail(Kernel::load(*device, getCode, manifest));
    notes.clear();
    PreparedLaunch prepared = cantFail(kernel->prepare(makeArguments(batch, 1000)));
    EXPECT_EQ(toString(prepared.launch(stream)), "");
    SmallVector<StringRef> lines;
    StringRef(notes).split(lines, '\n');
    erase_if(lines, [](StringRef line) { return !line.starts_with("grid") && !line.starts_with("extents 8"); });
    return join(lines, "; ");
  };
  parameterBytes = {128, 8, 8, 4, 4, 8, 4, 4};
  EXPECT_EQ(launch(65535), "grid 8 8 65535");
  EXPECT_EQ(launch(65537), "grid 4194368 1 1; extents 8 8");
  EXPECT_EQ(compiled, "2 5 "); // the last of three entries, and its folded form
}

//===--------------------------------------------------------------------------------------------------------------===//
// Variants are loaded when they are launched
//===--------------------------------------------------------------------------------------------------------------===//

class LazyLauncher : public Launcher {
protected:
  /// Loads a kernel whose entries are compiled on demand. The driver refuses the code of the entry `bad`.
  Expected<std::unique_ptr<Kernel>> load(std::string bad = "") {
    Manifest manifest = cantFail(Manifest::parse(getTestManifestWithVariants()));
    auto getCode = [this, manifest, bad](size_t number) -> Expected<std::string> {
      std::string entry = manifest.getEntry(number).kernel;
      if (!compiles)
        return createStringError("1:2: error: expected a kernel");
      notes += "compile " + entry + "\n";
      return getTestPTX({entry}) + (entry == bad ? "bad" : "");
    };
    return Kernel::load(*device, getCode, manifest);
  }
  /// Launches the kernel. Returns which entries were loaded, unloaded and run, and the error's text.
  std::string launch(const Kernel &kernel, int64_t queries, int64_t batch = 1) {
    SmallVector<LaunchArgument> arguments = makeArguments();
    for (unsigned index : {0, 2}) {
      arguments[index].shape[0] = batch;
      arguments[index].shape[2] = queries;
    }
    notes.clear();
    Expected<PreparedLaunch> prepared = kernel.prepare(arguments);
    std::string error = prepared ? toString(prepared->launch(stream)) : toString(prepared.takeError());
    return getLoads() + error;
  }
  std::string getLoads() {
    std::string loads;
    for (StringRef line : split(StringRef(notes), '\n'))
      if (line.starts_with("compile") || line.starts_with("load") || line.starts_with("unload") ||
          line.starts_with("kernel"))
        loads += (line + "; ").str();
    return loads;
  }

  std::unique_ptr<GPUDevice> device = cantFail(GPUDevice::open(driver));
  bool compiles = true;
};

TEST_F(LazyLauncher, CompilesAndLoadsAnEntryAtItsFirstLaunch) {
  std::unique_ptr<Kernel> kernel = cantFail(load());
  EXPECT_EQ(notes, "pool 1 1 0\npool attribute 4\n");
  EXPECT_EQ(launch(*kernel, 200, /*batch=*/0), "");
  EXPECT_EQ(launch(*kernel, -1), "argument 0 (q): expected an extent that is not negative in dimension 2, got -1");
  EXPECT_EQ(launch(*kernel, 128), "compile causal_one; load 1; kernel causal_one; ");
  EXPECT_EQ(launch(*kernel, 100), "kernel causal_one; ");
  EXPECT_EQ(launch(*kernel, 1000), "compile causal; load 1; kernel causal; ");
  EXPECT_EQ(launch(*kernel, 256), "compile causal_few; load 1; kernel causal_few; ");
  EXPECT_EQ(launch(*kernel, 1000), "kernel causal; ");
  notes.clear();
  kernel.reset();
  EXPECT_EQ(notes, "unload\nunload\nunload\n");
}

TEST_F(LazyLauncher, LoadsTheRestWhenAsked) {
  std::unique_ptr<Kernel> kernel = cantFail(load());
  EXPECT_EQ(launch(*kernel, 1000), "compile causal; load 1; kernel causal; ");
  notes.clear();
  EXPECT_EQ(toString(kernel->loadAll()), "");
  EXPECT_EQ(getLoads(), "compile causal_one; load 1; compile causal_few; load 1; ");
  EXPECT_EQ(launch(*kernel, 128), "kernel causal_one; ");
}

TEST_F(LazyLauncher, ReportsAVariantThatDoesNotLoadAtEachOfItsLaunches) {
  std::unique_ptr<Kernel> kernel = cantFail(load("causal_few"));
  std::string expected = "loading causal_few failed: a reason (CUDA error 218): ptxas: line 1: syntax error";
  for (int attempt = 0; attempt < 2; ++attempt)
    EXPECT_EQ(launch(*kernel, 256), "compile causal_few; " + expected);
  EXPECT_EQ(toString(kernel->loadAll()), expected);
  EXPECT_EQ(launch(*kernel, 1000), "compile causal; load 1; kernel causal; ");
}

TEST_F(LazyLauncher, ReportsAVariantThatDoesNotCompileAtEachOfItsLaunches) {
  std::unique_ptr<Kernel> kernel = cantFail(load());
  compiles = false;
  for (int attempt = 0; attempt < 2; ++attempt)
    EXPECT_EQ(launch(*kernel, 256), "1:2: error: expected a kernel");
  compiles = true;
  EXPECT_EQ(launch(*kernel, 256), "compile causal_few; load 1; kernel causal_few; ");
}

TEST_F(LazyLauncher, LoadsAtOnceWhereThereIsNothingToChoose) {
  cantFail(Kernel::load(*device, makeCode(getTestPTX()), cantFail(Manifest::parse(kTestManifest))));
  EXPECT_EQ(getLoads(), "load 3; unload; ");
}

TEST_F(Launcher, RefusesAnotherArchitecture) {
  computeCapabilityMajor = 10;
  EXPECT_EQ(run("good", makeArguments()), "the kernel is for sm_90a, the GPU (Fake) is sm_100");
}

} // namespace
