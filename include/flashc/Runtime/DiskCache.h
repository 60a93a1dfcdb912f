//===- DiskCache.h - values by key, in files that outlive the process ---------------------------------------------===//
//
// Invariants, which hold for any number of threads and processes that share a folder:
//
// 1. A file never changes once it has its name: it is written under another name, and then renamed. Processes that
//    write one key write one value, so that it does not matter whose file stays.
// 2. A file begins with a checksum over its key and everything that follows. What does not match, because it was cut
//    short or damaged or belongs to another key, is removed and is no value.
// 3. Nothing that goes wrong with the disk is an error of the program: what cannot be read is not there, what cannot be
//    written is counted.
// 4. The folder stays below its bound: the values that were not used for longest go first.
//
// No signal handlers, no locks, nothing global: the library lives in other people's processes.
//
//===--------------------------------------------------------------------------------------------------------------===//
#ifndef FLASHC_RUNTIME_DISKCACHE_H
#define FLASHC_RUNTIME_DISKCACHE_H

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"

#include <atomic>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace flashc {

class DiskCache {
public:
  struct Options {
    /// Made, with its parents, when the first value is written; for its user alone.
    std::string directory;
    /// The most bytes of all files together.
    uint64_t maxBytes = 256 << 20;
  };

  /// $XDG_CACHE_HOME/flashc, or $HOME/.cache/flashc (XDG Base Directory Specification: a relative $XDG_CACHE_HOME does
  /// not count). None if neither is set.
  static std::optional<std::string> getDefaultDirectory();

  explicit DiskCache(Options options) : options(std::move(options)) {}

  /// The value of `key`, which is a list of strings.
  std::optional<std::vector<std::string>> find(llvm::StringRef key);
  /// Keeps a value.
  void store(llvm::StringRef key, llvm::ArrayRef<llvm::StringRef> value);

  /// Files that were damaged, and values that could not be written.
  uint64_t getNumRejected() const { return numRejected; }
  uint64_t getNumWriteFailures() const { return numWriteFailures; }

private:
  const Options options;
  std::atomic<uint64_t> numRejected = 0, numWriteFailures = 0;
};

} // namespace flashc

#endif // FLASHC_RUNTIME_DISKCACHE_H
