//===- DiskCacheTest.cpp - what is found is what was stored, or nothing -------------------------------------------===//

#include "flashc/Runtime/DiskCache.h"
#include "flashc/Runtime/BuildID.h"
#include "llvm/ADT/SmallString.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/raw_ostream.h"
#include "gtest/gtest.h"

#include <chrono>
#include <cstdlib>
#include <sys/stat.h>
#include <thread>
#include <unistd.h>

using namespace flashc;
using namespace llvm;

namespace {

using Value = std::vector<std::string>;

class DiskCacheTest : public testing::Test {
protected:
  DiskCacheTest() { EXPECT_FALSE(sys::fs::createUniqueDirectory("flashc-cache", directory)); }
  ~DiskCacheTest() override { sys::fs::remove_directories(directory); }

  DiskCache::Options getOptions(uint64_t maxBytes = 1 << 20) const {
    SmallString<128> path(directory);
    sys::path::append(path, "made", "when", "needed");
    return {path.str().str(), maxBytes};
  }

  std::vector<std::string> listFiles() const {
    std::vector<std::string> files;
    std::error_code error;
    for (sys::fs::directory_iterator it(getOptions().directory, error), end; !error && it != end; it.increment(error))
      files.push_back(it->path());
    return files;
  }

  SmallString<128> directory;
};

TEST_F(DiskCacheTest, FindsWhatWasStored) {
  DiskCache cache(getOptions());
  EXPECT_FALSE(cache.find("key"));
  std::string bytes("a\0b", 3);
  cache.store("key", {"", bytes, "text"});
  cache.store("key of nothing", {});
  EXPECT_EQ(DiskCache(getOptions()).find("key"), (Value{"", bytes, "text"}));
  EXPECT_EQ(cache.find("key of nothing"), Value());
  EXPECT_FALSE(cache.find("ke"));
  EXPECT_EQ(cache.getNumRejected() + cache.getNumWriteFailures(), 0u);
  EXPECT_EQ(listFiles().size(), 2u);
}

TEST_F(DiskCacheTest, ReadsRegularFilesOnly) {
  DiskCache cache(getOptions());
  cache.store("key", {"value"});
  std::string path = listFiles().front();
  sys::fs::remove(path);
  ASSERT_EQ(mkfifo(path.c_str(), 0600), 0); // a pipe that nobody writes to
  EXPECT_FALSE(cache.find("key"));
  EXPECT_EQ(cache.getNumRejected(), 1u);
  cache.store("key", {"value"}); // replaces the pipe
  EXPECT_EQ(cache.find("key"), Value{"value"});
  sys::fs::remove(path);
  ASSERT_EQ(symlink("/dev/zero", path.c_str()), 0);
  EXPECT_FALSE(cache.find("key"));
  sys::fs::remove(path);
  std::error_code error;
  raw_fd_ostream(path, error) << "text";
  ASSERT_EQ(truncate(path.c_str(), int64_t(1) << 36), 0); // a sparse file that takes no room on the disk
  EXPECT_FALSE(cache.find("key"));
  EXPECT_EQ(cache.getNumRejected(), 3u);
  EXPECT_FALSE(sys::fs::exists(path));
}

TEST_F(DiskCacheTest, RejectsEveryDamagedFile) {
  DiskCache cache(getOptions());
  cache.store("key", {"first", "second"});
  std::string path = listFiles().front();
  std::string good = (*MemoryBuffer::getFile(path))->getBuffer().str();
  auto isFoundAs = [&](StringRef contents) {
    std::error_code error;
    raw_fd_ostream(path, error) << contents;
    return cache.find("key").has_value();
  };
  EXPECT_TRUE(isFoundAs(good));
  unsigned damages = 0;
  for (size_t length = 0; length < good.size(); ++length, ++damages)
    EXPECT_FALSE(isFoundAs(StringRef(good).take_front(length))) << length;
  for (size_t at = 0; at < good.size(); ++at, ++damages) {
    std::string bad = good;
    bad[at] ^= 1;
    EXPECT_FALSE(isFoundAs(bad)) << at;
  }
  EXPECT_EQ(cache.getNumRejected(), damages);
  EXPECT_TRUE(listFiles().empty()) << "a rejected file is removed";
}

TEST_F(DiskCacheTest, RejectsTheFileOfAnotherKey) {
  DiskCache cache(getOptions());
  cache.store("one", {"value"});
  std::string one = listFiles().front();
  cache.store("two", {"other"});
  std::vector<std::string> files = listFiles();
  std::string two = files[0] == one ? files[1] : files[0];
  EXPECT_FALSE(sys::fs::rename(one, two));
  EXPECT_FALSE(cache.find("two"));
  EXPECT_EQ(cache.getNumRejected(), 1u);
}

TEST_F(DiskCacheTest, StaysBelowItsBound) {
  constexpr uint64_t kBound = 64 << 10;
  DiskCache cache(getOptions(kBound));
  std::string value(15 << 10, 'x');
  for (int i = 0; i < 12; ++i)
    cache.store("key " + std::to_string(i), {value});
  uint64_t bytes = 0, size = 0;
  for (const std::string &file : listFiles()) {
    EXPECT_FALSE(sys::fs::file_size(file, size));
    bytes += size;
  }
  EXPECT_LE(bytes, kBound);
  EXPECT_GE(bytes, kBound / 2);
}

/// Sets the mtime of each file to ten hours ago, and its atime to now plus `hours`. File systems mounted with relatime
/// or noatime do not update such an atime when the file is read.
static void setTimes(ArrayRef<std::string> paths, int hours) {
  auto now = std::chrono::system_clock::now();
  for (const std::string &path : paths) {
    int file;
    ASSERT_FALSE(sys::fs::openFileForReadWrite(path, file, sys::fs::CD_OpenExisting, sys::fs::OF_None));
    EXPECT_FALSE(
        sys::fs::setLastAccessAndModificationTime(file, now + std::chrono::hours(hours), now - std::chrono::hours(10)));
    sys::fs::closeFile(file);
  }
}

TEST_F(DiskCacheTest, ForgetsWhatWasNotUsedForLongest) {
  DiskCache cache(getOptions(/*maxBytes=*/64 << 10));
  std::string value(20 << 10, 'x');
  cache.store("used", {value});
  std::vector<std::string> used = listFiles();
  for (const char *key : {"unused", "young"})
    cache.store(key, {value});
  setTimes(listFiles(), /*hours=*/2);
  setTimes(used, /*hours=*/1);
  EXPECT_TRUE(cache.find("used"));
  EXPECT_TRUE(cache.find("young"));
  cache.store("new", {value});
  EXPECT_TRUE(cache.find("used"));
  EXPECT_FALSE(cache.find("unused"));
  EXPECT_TRUE(cache.find("young"));
  EXPECT_TRUE(cache.find("new"));
}

TEST_F(DiskCacheTest, LeavesFilesOfOthersAlone) {
  DiskCache cache(getOptions(/*maxBytes=*/1 << 10));
  cache.store("key", {"value"});
  std::string other = getOptions().directory + "/other";
  std::error_code error;
  raw_fd_ostream(other, error) << std::string(10 << 10, 'x');
  cache.store("too large", {std::string(10 << 10, 'x')});
  EXPECT_FALSE(cache.find("too large"));
  EXPECT_TRUE(sys::fs::exists(other));
}

TEST_F(DiskCacheTest, TakesAFolderOfAnyName) {
  DiskCache::Options options = getOptions();
  options.directory += "/100 %s%%%%";
  DiskCache cache(options);
  cache.store("key", {"value"});
  EXPECT_EQ(cache.find("key"), Value{"value"});
  EXPECT_EQ(cache.getNumWriteFailures(), 0u);
}

TEST_F(DiskCacheTest, CountsWhatCannotBeWritten) {
  DiskCache::Options options = getOptions();
  std::error_code error;
  raw_fd_ostream((directory + "/made").str(), error) << "a file where the folder should be";
  DiskCache cache(options);
  cache.store("key", {"value"});
  EXPECT_FALSE(cache.find("key"));
  EXPECT_EQ(cache.getNumWriteFailures(), 1u);
}

TEST_F(DiskCacheTest, IsSharedByThreads) {
  std::string value(100 << 10, 'y');
  std::vector<std::thread> threads;
  std::atomic<int> wrong = 0;
  for (int thread = 0; thread < 8; ++thread)
    threads.emplace_back([&] {
      DiskCache cache(getOptions(64 << 20));
      for (int round = 0; round < 20; ++round) {
        std::string key = "key " + std::to_string(round % 3);
        if (auto found = cache.find(key); found && *found != Value{value + key})
          ++wrong;
        cache.store(key, {value + key});
      }
      wrong += cache.getNumRejected() + cache.getNumWriteFailures();
    });
  for (std::thread &thread : threads)
    thread.join();
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(listFiles().size(), 3u);
}

TEST(DiskCacheDirectory, FollowsTheXDGSpecification) {
  setenv("HOME", "/home/someone", 1);
  setenv("XDG_CACHE_HOME", "/elsewhere", 1);
  EXPECT_EQ(DiskCache::getDefaultDirectory(), "/elsewhere/flashc");
  setenv("XDG_CACHE_HOME", "relative", 1);
  EXPECT_EQ(DiskCache::getDefaultDirectory(), "/home/someone/.cache/flashc");
  unsetenv("XDG_CACHE_HOME");
  EXPECT_EQ(DiskCache::getDefaultDirectory(), "/home/someone/.cache/flashc");
  unsetenv("HOME");
  EXPECT_EQ(DiskCache::getDefaultDirectory(), std::nullopt);
}

TEST(BuildID, HasTheVersionAndTheLinkersHash) {
  StringRef id = getBuildID();
  auto [version, hash] = id.split('-');
  EXPECT_EQ(version.count('.'), 2u) << id.str();
  EXPECT_GE(hash.size(), 16u) << id.str();
  EXPECT_TRUE(all_of(hash, isHexDigit)) << id.str();
}

} // namespace
