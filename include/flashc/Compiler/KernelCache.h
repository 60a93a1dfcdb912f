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

/// What a kernel is wanted for.
struct KernelRequest {
  /// A module in MLIR's text form.
  std::string text;
  /// The function to compile; empty: the module's only one.
  std::string function;
  PipelineOptions pipeline;
  Author author = Author::Caller;
};

/// A kernel with the program that it came from. Threads may share it; the cache that made it outlives it.
///
/// A launch needs one entry, and code takes longest by far (L3, LLVM's back end). So a kernel is lowered to L2, where
/// its manifest is known and programs are refused, and an entry becomes PTX when it is first asked for, once for all
/// threads.
/// 1. The kernel at L2 is kept for the first entry that is compiled. Any other is lowered again, from `source`: it may
///    be wanted in another process, or never, and the kernel with its MLIRContext takes megabytes.
/// 2. An entry that fails is an error of who asks for it, and is tried again by who asks next.
class CachedKernel {
public:
  ~CachedKernel();

  /// The module, L0 or L1, as MLIR prints it: one function; for the CPU with locations, which a run may have to name.
  const std::string source;
  const PipelineOptions pipeline;
  const Author author;
  const KernelDescription description;

  /// PTX of an entry, by its number in the manifest: from memory, from disk, or from the compiler. The error is the
  /// compiler's diagnostics, one a line.
  llvm::Expected<std::string> getEntry(size_t number) const;
  /// PTX of all of them; those that are not there are compiled at once. Empty for the CPU. It lives as long as this.
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
  /// By number; all of them under "all".
  mutable OnceMap<Text> texts;
  mutable std::mutex mutex; ///< of `lowered`
  mutable std::unique_ptr<Lowered> lowered;
  /// Whether the program went through the compiler in this process.
  mutable std::atomic<bool> isCompiled;
};

/// Kernels by the program that they came from: in memory, on disk, or from the compiler. Threads may share it.
///
/// A kernel is known by the text that asked for it and by its canonical form (as MLIR prints it: no comments, no names
/// of values, no locations); on disk by the canonical form, the options and the build of the compiler, each of its
/// entries in a file of its own. The kernel of a CPU is a program that was checked: its machine code is made where it
/// runs (HostKernel).
class KernelCache {
public:
  /// `registry` (that of registerAllDialects) and `disk`, which may be null, outlive the cache.
  KernelCache(const mlir::DialectRegistry &registry, DiskCache *disk) : registry(registry), disk(disk) {}

  /// The kernel of a program. The error is the compiler's diagnostics, one a line.
  llvm::Expected<std::shared_ptr<const CachedKernel>> get(const KernelRequest &request);

  /// Programs that went through the compiler, and entries that became PTX there.
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
