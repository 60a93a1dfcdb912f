//===- DiskCache.h - values by key, in files that outlive the process ---------------------------------------------===//
//
// Invariants, which hold for any number of threads and processes that share a folder:
//
// 1. A file never changes after it has its final name: it is written under a temporary name and then renamed. Processes
//    that write the same key write the same value, so either of their files may stay.
// 2. A file begins with a checksum over its key and the rest of the file. A file that does not match its checksum (cut
//    short, damaged, or of another key) is removed and counts as no value.
// 3. A failure of the disk is not an error of the program: a file that cannot be read counts as no value, and a file
//    that cannot be written is counted.
// 4. The folder's size stays below `maxBytes`: the least recently used values are removed first.
//
// The cache has no signal handlers, no locks and no global state, since the library runs inside other programs.
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
    /// The folder. It and its parents are created when the first value is written, with access for the user only.
    std::string directory;
    /// The largest size of all files together.
    uint64_t maxBytes = 256 << 20;
  };

  /// $XDG_CACHE_HOME/flashc, or $HOME/.cache/flashc (the XDG Base Directory Specification ignores a relative
  /// $XDG_CACHE_HOME). None if neither variable is set.
  static std::optional<std::string> getDefaultDirectory();

  explicit DiskCache(Options options) : options(std::move(options)) {}

  /// Returns the value of `key`, which is a list of strings. None if the cache has no value for the key.
  std::optional<std::vector<std::string>> find(llvm::StringRef key);
  /// Stores `value` under `key`.
  void store(llvm::StringRef key, llvm::ArrayRef<llvm::StringRef> value);

  /// Return the number of damaged files, and the number of values that could not be written.
  uint64_t getNumRejected() const { return numRejected; }
  uint64_t getNumWriteFailures() const { return numWriteFailures; }

private:
  const Options options;
  std::atomic<uint64_t> numRejected = 0, numWriteFailures = 0;
};

} // namespace flashc

#endif // FLASHC_RUNTIME_DISKCACHE_H
