//===- KernelCache.h - compiles each kernel once ------------------------------------------------------------------===//
#ifndef FLASHC_COMPILER_KERNELCACHE_H
#define FLASHC_COMPILER_KERNELCACHE_H

#include "flashc/Compiler/Compiler.h"
#include "flashc/Runtime/DiskCache.h"
#include "flashc/Support/OnceMap.h"
#include "mlir/IR/DialectRegistry.h"

namespace flashc {

/// What a kernel is wanted for.
struct KernelRequest {
  /// A module in MLIR's text form.
  std::string text;
  /// The function to compile; empty: the module's only one.
  std::string function;
  PipelineOptions pipeline;
};

/// A kernel with the program that it came from.
struct CachedKernel {
  /// The module, L0 or L1, as MLIR prints it: one function.
  std::string source;
  PipelineOptions pipeline;
  CompiledKernel compiled;
};

/// Kernels by the program that they came from: in memory, on disk, or from the compiler. Threads may share it.
///
/// A kernel is known by the text that asked for it and by its canonical form (as MLIR prints it: no comments, no names
/// of values, no locations); on disk by the canonical form, the options and the build of the compiler. The kernel of a
/// CPU is a program that was checked: its machine code is made where it runs (HostKernel).
class KernelCache {
public:
  /// `registry` (that of registerAllDialects) and `disk`, which may be null, outlive the cache.
  KernelCache(const mlir::DialectRegistry &registry, DiskCache *disk) : registry(registry), disk(disk) {}

  /// The kernel of a program. The error is the compiler's diagnostics, one a line.
  llvm::Expected<std::shared_ptr<const CachedKernel>> get(const KernelRequest &request);

  uint64_t getNumCompilations() const { return numCompilations; }
  uint64_t getNumMemoryHits() const { return numMemoryHits; }
  uint64_t getNumDiskHits() const { return numDiskHits; }

private:
  using KernelPtr = std::shared_ptr<const CachedKernel>;
  llvm::Expected<KernelPtr> getParsed(const KernelRequest &request);
  mlir::FailureOr<CompiledKernel> findOrCompile(mlir::ModuleOp module, const PipelineOptions &pipeline,
                                                llvm::StringRef key);

  const mlir::DialectRegistry &registry;
  DiskCache *disk;
  OnceMap<KernelPtr> requests, kernels;
  std::atomic<uint64_t> numCompilations = 0, numMemoryHits = 0, numDiskHits = 0;
};

} // namespace flashc

#endif // FLASHC_COMPILER_KERNELCACHE_H
