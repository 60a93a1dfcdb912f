//===- ReadFile.cpp - files that come from outside ----------------------------------------------------------------===//

#include "flashc/Support/ReadFile.h"
#include "llvm/ADT/ScopeExit.h"
#include "llvm/ADT/Twine.h"
#include "llvm/Support/Errno.h"

#include <cerrno>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

using namespace flashc;
using namespace llvm;

static std::error_code getLastError() { return std::error_code(errno, std::generic_category()); }

ErrorOr<sys::fs::file_t> flashc::openRegularFile(const Twine &path) {
  SmallString<128> storage;
  const char *name = path.toNullTerminatedStringRef(storage).data();
  // Without O_NONBLOCK, opening a pipe waits for a writer. Regular files ignore the flag.
  int file = sys::RetryAfterSignal(-1, [&] { return ::open(name, O_RDONLY | O_CLOEXEC | O_NONBLOCK); });
  if (file < 0)
    return getLastError();
  auto close = make_scope_exit([&] { ::close(file); });
  struct stat status;
  if (::fstat(file, &status) != 0)
    return getLastError();
  if (S_ISDIR(status.st_mode))
    return std::make_error_code(std::errc::is_a_directory);
  if (!S_ISREG(status.st_mode))
    return std::make_error_code(std::errc::not_supported);
  close.release();
  return file;
}

ErrorOr<SmallString<0>> flashc::readToEnd(sys::fs::file_t file, uint64_t maxBytes) {
  constexpr size_t kChunk = 1 << 16;
  SmallString<0> contents;
  while (contents.size() <= maxBytes) {
    size_t size = contents.size();
    contents.resize_for_overwrite(size + kChunk);
    Expected<size_t> read = sys::fs::readNativeFile(file, MutableArrayRef<char>(contents.data() + size, kChunk));
    if (!read)
      return errorToErrorCode(read.takeError());
    contents.resize(size + *read);
    if (*read == 0)
      return contents;
  }
  return std::make_error_code(std::errc::file_too_large);
}

ErrorOr<SmallString<0>> flashc::readFile(StringRef path, uint64_t maxBytes) {
  if (path == "-")
    return readToEnd(sys::fs::getStdinHandle(), maxBytes);
  ErrorOr<sys::fs::file_t> file = openRegularFile(path);
  if (!file)
    return file.getError();
  auto close = make_scope_exit([&] { sys::fs::closeFile(*file); });
  return readToEnd(*file, maxBytes);
}

std::string flashc::describeReadError(std::error_code error) {
  if (error == std::errc::not_supported)
    return "expected a regular file, got a pipe or a device";
  if (error == std::errc::file_too_large)
    return ("expected at most " + Twine(kMaxFileBytes) + " bytes").str();
  return error.message();
}
