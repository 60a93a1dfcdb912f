//===- KernelCache.h - compiles each kernel once ------------------------------------------------------------------===//
#ifndef FLASHC_COMPILER_KERNELCACHE_H
#define FLASHC_COMPILER_KERNELCACHE_H

#include "flashc/Compiler/Compiler.h"
#include "flashc/Compiler/Session.h"
#include "flashc/Runtime/DiskCache.h"
#include "flashc/Support/OnceMap.h"
#include "mlir/IR/DialectRegistry.h"

namespace flashc {

class KernelCache;

/// A program to compile, and the options.
struct KernelRequest {
  /// A module in MLIR's text form.
  std::string text;
  /// The function to compile; empty: the module's only one.
  std::string function;
  PipelineOptions pipeline;
  Author author = Author::Caller;
};

/// A kernel and the program that it was compiled from. Threads may share it; the cache that made it outlives it.
///
/// A launch needs one entry, and the step from L2 to PTX takes longest by far (LLVM's back end). So a kernel is lowered
/// to L2, where its manifest is known and programs are rejected; an entry is compiled to PTX when it is first needed,
/// once for all threads.
/// 1. The kernel at L2 is kept for the first entry that is compiled. For any other entry `source` is lowered again: the
///    entry may be compiled in another process, or never, and the kernel with its MLIRContext takes megabytes.
/// 2. If the compilation of an entry fails, its caller gets the error, and the next caller tries again.
class CachedKernel {
public:
  ~CachedKernel();

  /// The module (L0 or L1) as MLIR prints it, with one function; for the CPU with locations, which a run may print.
  const std::string source;
  const PipelineOptions pipeline;
  const Author author;
  const KernelDescription description;

  /// Returns the PTX of an entry, by its number in the manifest, from memory, from disk, or from the compiler. The
  /// error has the compiler's diagnostics, one per line.
  llvm::Expected<std::string> getEntry(size_t number) const;
  /// Returns the PTX of all entries; missing ones are compiled in parallel. Empty for the CPU. It lives as long as this
  /// object.
  llvm::Expected<const char *> getPTX() const;

private:
  friend class KernelCache;
  struct Lowered;
  using Text = std::shared_ptr<const std::string>;

  CachedKernel(KernelCache &cache, std::string source, PipelineOptions pipeline, Author author,
               KernelDescription description, std::unique_ptr<Lowered> lowered);
  llvm::Expected<Text> getSharedEntry(size_t number) const;
  llvm::Expected<Text> findOrCompileEntry(size_t number) const;
  llvm::Expected<std::unique_ptr<Lowered>> takeLowered() const;
  llvm::Expected<Text> joinEntries() const;

  KernelCache &cache;
  /// The PTX of entries by number, and of all entries together under "all".
  mutable OnceMap<Text> texts;
  mutable std::mutex mutex; ///< guards `lowered`
  mutable std::unique_ptr<Lowered> lowered;
  /// Whether the program was compiled in this process.
  mutable std::atomic<bool> isCompiled;
};

/// Kernels by the programs that they were compiled from: in memory, on disk, or from the compiler. Threads may share
/// it.
///
/// A kernel in memory is found by the text of the request and by its canonical form (as MLIR prints it: without
/// comments, names of values and locations); on disk by the canonical form, the options and the build of the compiler,
/// with a file for each entry. The kernel for a CPU is a checked program: its machine code is made in the process that
/// runs it (HostKernel).
class KernelCache {
public:
  /// `registry` (the one of registerAllDialects) and `disk`, which may be null, must outlive the cache.
  KernelCache(const mlir::DialectRegistry &registry, DiskCache *disk) : registry(registry), disk(disk) {}

  /// Returns the kernel of a program. The error has the compiler's diagnostics, one per line.
  llvm::Expected<std::shared_ptr<const CachedKernel>> get(const KernelRequest &request);

  /// The numbers of programs that were compiled, and of entries that were compiled to PTX.
  uint64_t getNumCompilations() const { return numCompilations; }
  uint64_t getNumEntries() const { return numEntries; }
  uint64_t getNumMemoryHits() const { return numMemoryHits; }
  uint64_t getNumDiskHits() const { return numDiskHits; }

private:
  friend class CachedKernel;
  using KernelPtr = std::shared_ptr<const CachedKernel>;
  struct Program;
  llvm::Expected<KernelPtr> getParsed(const KernelRequest &request);
  llvm::Expected<KernelPtr> findOrLower(Program program, std::string source, const KernelRequest &request);
  llvm::Expected<std::unique_ptr<CachedKernel::Lowered>> lower(Program program, const PipelineOptions &pipeline);
  std::optional<std::vector<std::string>> findOnDisk(const std::string &key, size_t count);
  void storeOnDisk(const std::string &key, llvm::ArrayRef<llvm::StringRef> value);

  const mlir::DialectRegistry &registry;
  DiskCache *disk;
  OnceMap<KernelPtr> requests, kernels;
  std::atomic<uint64_t> numCompilations = 0, numEntries = 0, numMemoryHits = 0, numDiskHits = 0;
};

} // namespace flashc

#endif // FLASHC_COMPILER_KERNELCACHE_H
