//===- KernelCacheTest.cpp - entries are compiled when they are needed, once --------------------------------------===//

#include "flashc/Compiler/KernelCache.h"
#include "flashc/Compiler/BuildAttention.h"
#include "flashc/Compiler/Session.h"
#include "flashc/InitAll.h"
#include "flashc/Runtime/KernelModule.h"
#include "flashc/Runtime/Manifest.h"
#include "llvm/Support/FileSystem.h"
#include "gtest/gtest.h"

#include <thread>

using namespace flashc;

namespace {

/// Requests a causal kernel with a variant for few queries. Each of the two entries has a kernel before it that sorts
/// the work.
KernelRequest makeRequest(llvm::StringRef score = "", int64_t queries = -1) {
  AttentionSpec spec;
  spec.queries = queries;
  spec.headDim = spec.valueDim = 128;
  spec.mask = AttentionSpec::Mask::Causal;
  spec.maskCode = "%c100 = arith.constant 100 : index\n%last = arith.muli %h, %c100 : index\n"
                  "%keep = arith.cmpi sle, %j, %last : index\nflash.yield %keep : i1"; // heads differ in their work
  spec.scoreCode = score;
  KernelRequest request;
  request.text = llvm::cantFail(printAttention(spec));
  return request;
}

class KernelCacheTest : public testing::Test {
protected:
  KernelCacheTest() { registerAllDialects(registry); }

  mlir::DialectRegistry registry;
  KernelCache cache{registry, /*disk=*/nullptr};
};

TEST_F(KernelCacheTest, EntriesAreThePartsOfAheadOfTimePTX) {
  KernelRequest request = makeRequest();
  auto kernel = llvm::cantFail(cache.get(request));
  Session session(registry);
  auto module = session.parse(request.text);
  CompileOptions options;
  options.pipeline = request.pipeline;
  CompiledKernel whole = *compile(**module, options);
  EXPECT_EQ(kernel->description.manifest, whole.manifest);
  EXPECT_EQ(kernel->description.decisions, whole.decisions);
  EXPECT_EQ(kernel->description.schedule, whole.schedule);
  Manifest manifest = llvm::cantFail(Manifest::parse(whole.manifest));
  ASSERT_EQ(manifest.getNumEntries(), 2u);
  for (size_t number : {0, 1}) {
    std::string ptx = llvm::cantFail(kernel->getEntry(number));
    EXPECT_EQ(llvm::StringRef(ptx).count(".visible .entry"), 2u) << "with the kernel that sorts";
    for (const ManifestKernel *part : manifest.getEntry(number).getKernels())
      EXPECT_NE(ptx.find(".visible .entry " + part->kernel + "("), std::string::npos) << part->kernel;
  }
  EXPECT_EQ(llvm::cantFail(kernel->getPTX()), whole.ptx);
}

/// Runs the backward pass with 32 query heads, 8 key heads and 2^20 positions. The workspace holds statistics of the
/// queries, and sums in f32. The sums are those of dq, dk and dv, with dk and dv for each key head. If the result is
/// deterministic, the sums are only those of dk and dv, for each query head.
TEST_F(KernelCacheTest, CountsTheWorkspaceIn64Bits) {
  constexpr int64_t kPositions = int64_t(1) << 20, kDepth = 128, kHeads = 32, kKeyHeads = 8;
  auto count = [&](bool isDeterministic) {
    AttentionSpec spec;
    spec.headDim = spec.valueDim = kDepth;
    spec.groupSize = kHeads / kKeyHeads;
    spec.operation = AttentionSpec::Operation::Backward;
    spec.isDeterministic = isDeterministic;
    KernelRequest request;
    request.text = llvm::cantFail(printAttention(spec));
    auto kernel = llvm::cantFail(cache.get(request));
    Manifest manifest = llvm::cantFail(Manifest::parse(kernel->description.manifest));
    llvm::SmallVector<llvm::SmallVector<int64_t>> extents;
    for (const ManifestArgument &argument : manifest.arguments) {
      bool isOfKeys = llvm::is_contained({"k", "v", "dk", "dv"}, argument.name);
      extents.push_back({1, isOfKeys ? kKeyHeads : kHeads, kPositions, kDepth});
      extents.back().resize(argument.shape.size());
    }
    llvm::SmallVector<llvm::ArrayRef<int64_t>> shapes(extents.begin(), extents.end());
    return llvm::cantFail(manifest.workspace->evaluate(shapes, /*smCount=*/132));
  };
  // Bytes of the workspace: kRows for the sums of one head, kStatistics for two numbers of each query of every head.
  constexpr int64_t kRows = 4 * kPositions * kDepth, kStatistics = 8 * kPositions * kHeads;
  EXPECT_EQ(count(/*isDeterministic=*/false), kStatistics + (kHeads + 2 * kKeyHeads) * kRows);
  EXPECT_EQ(count(/*isDeterministic=*/true), kStatistics + 2 * kHeads * kRows);
}

/// A launch with more CTAs along y or z than CUDA allows takes a folded entry. The kernels of this entry have grids of
/// one dimension, and parameters with the extents of x and y.
TEST_F(KernelCacheTest, FoldsGrids) {
  AttentionSpec spec;
  spec.headDim = spec.valueDim = 128;
  spec.groupSize = 2;
  spec.operation = AttentionSpec::Operation::Backward;
  KernelRequest request;
  request.text = llvm::cantFail(printAttention(spec));
  auto kernel = llvm::cantFail(cache.get(request));
  Manifest manifest = llvm::cantFail(Manifest::parse(kernel->description.manifest));
  manifest.addFoldedEntries();
  size_t count = manifest.getNumEntries();
  std::string plain = llvm::cantFail(kernel->getEntry(count - 1)),
              folded = llvm::cantFail(kernel->getEntry(2 * count - 1));
  for (llvm::StringRef axis : {"%ctaid.y", "%ctaid.z"}) {
    EXPECT_TRUE(llvm::StringRef(plain).contains(axis));
    EXPECT_FALSE(llvm::StringRef(folded).contains(axis));
  }
  auto kernels = manifest.getEntry(2 * count - 1).getKernels();
  EXPECT_EQ(kernels.size(), 5u) << "delta, the main one, and three that round";
  for (const ManifestKernel *one : kernels) {
    EXPECT_TRUE(isFlat(*one)) << one->kernel;
    EXPECT_EQ(llvm::toString(checkEntry(folded, *one)), "");
    EXPECT_NE(llvm::toString(checkEntry(plain, *one)), "") << "has two parameters less";
  }
}

TEST_F(KernelCacheTest, CompilesEachEntryOnce) {
  auto kernel = llvm::cantFail(cache.get(makeRequest()));
  EXPECT_EQ(cache.getNumEntries(), 0u);
  std::string ptx = llvm::cantFail(kernel->getEntry(1));
  EXPECT_EQ(cache.getNumEntries(), 1u);
  llvm::cantFail(kernel->getEntry(0));
  EXPECT_EQ(llvm::cantFail(kernel->getEntry(1)), ptx);
  llvm::cantFail(kernel->getPTX());
  EXPECT_EQ(cache.getNumEntries(), 2u);
  EXPECT_EQ(cache.getNumCompilations(), 1u) << "it is one program";
}

TEST_F(KernelCacheTest, CompilesEachEntryOnceForAllThreads) {
  auto kernel = llvm::cantFail(cache.get(makeRequest()));
  std::vector<std::thread> threads;
  for (size_t thread = 0; thread < 8; ++thread)
    threads.emplace_back([&, thread] { llvm::cantFail(kernel->getEntry(thread % 2)); });
  for (std::thread &thread : threads)
    thread.join();
  EXPECT_EQ(cache.getNumEntries(), 2u);
}

TEST_F(KernelCacheTest, CompilesAtOnceWhereThereIsNothingToChoose) {
  llvm::cantFail(cache.get(makeRequest(/*score=*/"", /*queries=*/4096)));
  EXPECT_EQ(cache.getNumEntries(), 1u);
}

TEST_F(KernelCacheTest, RefusesBeforeAnEntryIsCompiled) {
  // The score uses an op that the target has no instruction for, so no code could be made of it.
  auto kernel = cache.get(makeRequest("%x = arith.extf %s : f32 to f64\n%y = math.sin %x : f64\n"
                                      "%t = arith.truncf %y : f64 to f32\nflash.yield %t : f32\n"));
  std::string error = toString(kernel.takeError());
  EXPECT_TRUE(llvm::StringRef(error).ends_with("expected a function of f32 that sm_90a has, got 'math.sin' of 'f64'"))
      << error;
  EXPECT_EQ(cache.getNumEntries(), 0u);
}

TEST_F(KernelCacheTest, KeepsEachEntryOnDisk) {
  llvm::SmallString<128> folder;
  ASSERT_FALSE(llvm::sys::fs::createUniqueDirectory("flashc-cache-test", folder));
  std::string ptx;
  for (bool isFirst : {true, false}) {
    DiskCache disk({folder.str().str()});
    KernelCache stored(registry, &disk);
    auto kernel = llvm::cantFail(stored.get(makeRequest()));
    EXPECT_EQ(stored.getNumDiskHits(), isFirst ? 0u : 1u);
    std::string again = llvm::cantFail(kernel->getEntry(0));
    EXPECT_EQ(stored.getNumCompilations(), isFirst ? 1u : 0u);
    EXPECT_EQ(isFirst ? again : ptx, again);
    ptx = again;
    if (!isFirst) {
      llvm::cantFail(kernel->getEntry(1)); // no process has needed this entry so far
      EXPECT_EQ(stored.getNumCompilations(), 1u);
      EXPECT_EQ(stored.getNumEntries(), 1u);
    }
  }
  llvm::sys::fs::remove_directories(folder);
}

} // namespace
