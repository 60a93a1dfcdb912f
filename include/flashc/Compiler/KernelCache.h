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

/// A program to compile, with the options for it.
struct KernelRequest {
  /// A module in MLIR's text form.
  std::string text;
  /// The name of the function to compile. If empty, the module must have only one function.
  std::string function;
  PipelineOptions pipeline;
  Author author = Author::Caller;
};

/// A kernel and the program that it was compiled from. Threads may share it. The cache that made it must outlive it.
///
/// A launch needs only one entry, and the step from L2 to PTX (LLVM's back end) takes longest by far. So at first a
/// kernel is lowered only to L2: then its manifest is known, and wrong programs are rejected. An entry is compiled to
/// PTX when it is first needed, once for all threads.
/// 1. The kernel at L2 is kept until the first entry is compiled from it. For every other entry `source` is lowered
///    again. To keep the kernel longer would take megabytes (for its MLIRContext), and the other entries may be
///    compiled in another process, or never.
/// 2. If compiling an entry fails, the caller gets the error. The next caller tries again.
class CachedKernel {
public:
  ~CachedKernel();

  /// The module (L0 or L1) with one function, as MLIR prints it. For the CPU it has locations, which a run may print.
  const std::string source;
  const PipelineOptions pipeline;
  const Author author;
  const KernelDescription description;

  /// Returns the PTX of an entry from memory, from disk, or from the compiler. `number` is the entry's number in the
  /// manifest. The error has the compiler's diagnostics, one per line.
  llvm::Expected<std::string> getEntry(size_t number) const;
  /// Returns the PTX of all entries. The text lives as long as this object. Entries without PTX are compiled in
  /// parallel. Empty for the CPU.
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

/// Finds the kernel of a program in memory or on disk, or compiles it. Threads may share the cache.
///
/// In memory a kernel is found by the text of the request, and by its canonical form: the module as MLIR prints it,
/// without comments, names of values and locations. On disk it is found by the canonical form, the options and the
/// build of the compiler; there is one file for each entry. For the CPU a kernel is only a checked program: the process
/// that runs it makes the machine code (HostKernel).
class KernelCache {
public:
  /// `registry` has the dialects of registerAllDialects. `disk` may be null. Both must outlive the cache.
  KernelCache(const mlir::DialectRegistry &registry, DiskCache *disk) : registry(registry), disk(disk) {}

  /// Returns the kernel of a program. The error has the compiler's diagnostics, one per line.
  llvm::Expected<std::shared_ptr<const CachedKernel>> get(const KernelRequest &request);

  /// The number of programs that were compiled, and the number of entries that were compiled to PTX.
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
