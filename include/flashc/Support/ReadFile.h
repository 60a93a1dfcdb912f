//===- ReadFile.h - files that come from outside ------------------------------------------------------------------===//
#ifndef FLASHC_SUPPORT_READFILE_H
#define FLASHC_SUPPORT_READFILE_H

#include "llvm/ADT/SmallString.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/ErrorOr.h"
#include "llvm/Support/FileSystem.h"

namespace flashc {

/// The most bytes of a program, of a schedule table or of a kernel in the cache: 64 MiB, a hundred times the largest.
constexpr uint64_t kMaxFileBytes = uint64_t(64) << 20;

/// Opens a regular file. What else a path may name, a pipe or a device, could have no end or wait for a writer: that is
/// `not_supported`, and a folder `is_a_directory`.
llvm::ErrorOr<llvm::sys::fs::file_t> openRegularFile(const llvm::Twine &path);

/// The rest of a file, or `file_too_large` if it is more than `maxBytes`.
llvm::ErrorOr<llvm::SmallString<0>> readToEnd(llvm::sys::fs::file_t file, uint64_t maxBytes = kMaxFileBytes);

/// All of a regular file, or of the standard input if `path` is "-".
llvm::ErrorOr<llvm::SmallString<0>> readFile(llvm::StringRef path, uint64_t maxBytes = kMaxFileBytes);

/// Why one of them failed, in words.
std::string describeReadError(std::error_code error);

} // namespace flashc

#endif // FLASHC_SUPPORT_READFILE_H
