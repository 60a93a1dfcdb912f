//===- ReadFile.h - files that come from outside ------------------------------------------------------------------===//
#ifndef FLASHC_SUPPORT_READFILE_H
#define FLASHC_SUPPORT_READFILE_H

#include "llvm/ADT/SmallString.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/ErrorOr.h"
#include "llvm/Support/FileSystem.h"

namespace flashc {

/// The largest size of a program, a schedule table or a cached kernel: 64 MiB, a hundred times the largest one known.
constexpr uint64_t kMaxFileBytes = uint64_t(64) << 20;

/// Opens a regular file. For a folder the error is `is_a_directory`. For other files, such as pipes and devices, which
/// may have no end or wait for a writer, the error is `not_supported`.
llvm::ErrorOr<llvm::sys::fs::file_t> openRegularFile(const llvm::Twine &path);

/// Reads the rest of a file, or returns `file_too_large` if it has more than `maxBytes`.
llvm::ErrorOr<llvm::SmallString<0>> readToEnd(llvm::sys::fs::file_t file, uint64_t maxBytes = kMaxFileBytes);

/// Reads a regular file, or the standard input if `path` is "-".
llvm::ErrorOr<llvm::SmallString<0>> readFile(llvm::StringRef path, uint64_t maxBytes = kMaxFileBytes);

/// Describes in words an error that one of the functions above returned.
std::string describeReadError(std::error_code error);

} // namespace flashc

#endif // FLASHC_SUPPORT_READFILE_H
