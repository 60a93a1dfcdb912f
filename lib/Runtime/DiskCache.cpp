//===- DiskCache.cpp - values by key, in files that outlive the process -------------------------------------------===//

#include "flashc/Runtime/DiskCache.h"
#include "flashc/Support/ReadFile.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallString.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/Endian.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/SHA256.h"
#include "llvm/Support/raw_ostream.h"

#include <chrono>
#include <cstdlib>
#include <tuple>

using namespace flashc;
using namespace llvm;

std::optional<std::string> DiskCache::getDefaultDirectory() {
  SmallString<128> directory;
  if (const char *cache = std::getenv("XDG_CACHE_HOME"); cache && sys::path::is_absolute(cache))
    directory = cache;
  else if (const char *home = std::getenv("HOME"); home && sys::path::is_absolute(home))
    sys::path::append(directory = StringRef(home), ".cache");
  else
    return std::nullopt;
  sys::path::append(directory, "flashc");
  return directory.str().str();
}

//===--------------------------------------------------------------------------------------------------------------===//
// A file: the checksum (32 bytes), then for every string of the value its length (8 bytes, little endian) and its bytes
//===--------------------------------------------------------------------------------------------------------------===//

using Digest = std::array<uint8_t, 32>;

static Digest computeChecksum(StringRef key, StringRef body) {
  SHA256 hash;
  char length[8];
  support::endian::write64le(length, key.size()); // separates the key from the body
  for (StringRef part : {StringRef(length, sizeof(length)), key, body})
    hash.update(part);
  return hash.final();
}

static std::string serialize(StringRef key, ArrayRef<StringRef> value) {
  std::string body;
  for (StringRef part : value) {
    char length[8];
    support::endian::write64le(length, part.size());
    body.append(length, sizeof(length));
    body.append(part.data(), part.size());
  }
  Digest checksum = computeChecksum(key, body);
  return std::string(checksum.begin(), checksum.end()) + body;
}

static std::optional<std::vector<std::string>> deserialize(StringRef key, StringRef file) {
  if (file.size() < sizeof(Digest))
    return std::nullopt;
  StringRef body = file.drop_front(sizeof(Digest));
  Digest checksum = computeChecksum(key, body);
  if (file.take_front(sizeof(Digest)) != toStringRef(checksum))
    return std::nullopt;
  std::vector<std::string> value;
  while (body.size() >= 8) {
    uint64_t length = support::endian::read64le(body.data());
    body = body.drop_front(8);
    if (length > body.size())
      return std::nullopt;
    value.push_back(body.take_front(length).str());
    body = body.drop_front(length);
  }
  return value;
}

//===--------------------------------------------------------------------------------------------------------------===//
// The folder
//===--------------------------------------------------------------------------------------------------------------===//

/// The prefix of the names of all files of the cache, including unfinished ones. Other files in the folder are not
/// touched.
static constexpr StringLiteral kPrefix = "kernel-";

/// The path of the file of `key`.
static SmallString<128> getPath(StringRef directory, StringRef key) {
  SmallString<128> path(directory);
  sys::path::append(path, kPrefix + toHex(SHA256::hash(arrayRefFromStringRef(key)), /*LowerCase=*/true));
  return path;
}

std::optional<std::vector<std::string>> DiskCache::find(StringRef key) {
  SmallString<128> path = getPath(options.directory, key);
  ErrorOr<sys::fs::file_t> file = openRegularFile(path);
  if (!file) {
    numRejected += file.getError() == std::errc::not_supported; // a pipe or a device at `path` counts as a damaged file
    return std::nullopt;
  }
  // The file is read and not mapped, because a process is killed if a file that it has mapped is shortened.
  ErrorOr<SmallString<0>> contents = readToEnd(*file);
  // Stores the time of this use, for `prune`. File systems by themselves store the time of a read at most once a day
  // (relatime), or never (noatime).
  (void)sys::fs::setLastAccessAndModificationTime(*file, std::chrono::system_clock::now());
  sys::fs::closeFile(*file);
  if (!contents && contents.getError() != std::errc::file_too_large)
    return std::nullopt;
  std::optional<std::vector<std::string>> value;
  if (contents)
    value = deserialize(key, *contents);
  if (!value) {
    ++numRejected;
    sys::fs::remove(path);
  }
  return value;
}

/// Writes `contents` under a temporary name, and then renames the file to `path`.
static bool writeFile(const Twine &path, StringRef contents) {
  int descriptor;
  // createUniquePath replaces percent signs, which the folder's path may contain. So it makes only the file's name.
  SmallString<128> random, temporary;
  sys::fs::createUniquePath(".%%%%%%%%%%%%%%%%", random, /*MakeAbsolute=*/false);
  (path + random).toVector(temporary);
  if (sys::fs::openFileForWrite(temporary, descriptor, sys::fs::CD_CreateNew, sys::fs::OF_None,
                                sys::fs::owner_read | sys::fs::owner_write))
    return false;
  raw_fd_ostream stream(descriptor, /*shouldClose=*/true);
  stream << contents;
  stream.close();
  bool isWritten = !stream.has_error();
  stream.clear_error(); // otherwise the destructor would end the process
  if (isWritten && !sys::fs::rename(temporary, path))
    return true;
  sys::fs::remove(temporary);
  return false;
}

/// Removes the least recently used files until the other files have at most `maxBytes`. llvm::pruneCache would choose
/// files by access time, and would end the process if the folder disappeared meanwhile.
static void prune(StringRef directory, uint64_t maxBytes) {
  struct File {
    sys::TimePoint<> used;
    uint64_t bytes;
    std::string path;
  };
  std::vector<File> files;
  uint64_t bytes = 0;
  std::error_code error;
  for (sys::fs::directory_iterator it(directory, error), end; !error && it != end; it.increment(error)) {
    if (!sys::path::filename(it->path()).starts_with(kPrefix))
      continue;
    ErrorOr<sys::fs::basic_file_status> status = it->status();
    if (!status)
      continue; // another process has removed it
    files.push_back({status->getLastModificationTime(), status->getSize(), it->path()});
    bytes += files.back().bytes;
  }
  llvm::sort(files, [](const File &x, const File &y) { return std::tie(x.used, x.path) < std::tie(y.used, y.path); });
  for (const File &file : files) {
    if (bytes <= maxBytes)
      break;
    sys::fs::remove(file.path);
    bytes -= file.bytes;
  }
}

void DiskCache::store(StringRef key, ArrayRef<StringRef> value) {
  std::string contents = serialize(key, value);
  if (contents.size() > kMaxFileBytes || // `find` would not read it
      sys::fs::create_directories(options.directory, /*IgnoreExisting=*/true, sys::fs::owner_all) ||
      !writeFile(getPath(options.directory, key), contents)) {
    ++numWriteFailures;
    return;
  }
  prune(options.directory, options.maxBytes); // takes little time compared with a compilation
}
