//===- Output.cpp - files that are whole or not there -------------------------------------------------------------===//

#include "Output.h"
#include "llvm/Support/Error.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/raw_ostream.h"

using namespace mlir;

static LogicalResult complain(llvm::StringRef path, const llvm::Twine &reason) {
  llvm::errs() << path << ": error: cannot write the output: " << reason << "\n";
  return failure();
}

/// Writes everything out and takes note of errors that the stream would otherwise abort for.
static LogicalResult finish(llvm::raw_fd_ostream &os, llvm::StringRef path) {
  os.flush();
  if (!os.has_error())
    return success();
  std::error_code error = os.error();
  os.clear_error();
  return complain(path, error.message());
}

/// Devices and pipes cannot be replaced by a file.
static LogicalResult writeInPlace(llvm::StringRef path, llvm::StringRef contents) {
  std::error_code error;
  llvm::raw_fd_ostream os(path, error);
  if (error)
    return complain(path, error.message());
  os << contents;
  return finish(os, path);
}

static LogicalResult writeBeside(llvm::StringRef path, llvm::StringRef contents) {
  llvm::Expected<llvm::sys::fs::TempFile> temporary = llvm::sys::fs::TempFile::create(path + ".tmp-%%%%%%");
  if (!temporary)
    return complain(path, llvm::toString(temporary.takeError()));
  llvm::raw_fd_ostream os(temporary->FD, /*shouldClose=*/false);
  os << contents;
  if (failed(finish(os, path))) {
    llvm::consumeError(temporary->discard());
    return failure();
  }
  if (llvm::Error error = temporary->keep(path))
    return complain(path, llvm::toString(std::move(error)));
  return success();
}

LogicalResult flashc::writeOutput(llvm::StringRef path, llvm::StringRef contents) {
  if (path == "-") {
    llvm::outs() << contents;
    return flushStandardOutput();
  }
  llvm::sys::fs::file_status status;
  bool exists = !llvm::sys::fs::status(path, status) && llvm::sys::fs::exists(status);
  return exists && !llvm::sys::fs::is_regular_file(status) ? writeInPlace(path, contents) : writeBeside(path, contents);
}

LogicalResult flashc::flushStandardOutput() { return finish(llvm::outs(), "<stdout>"); }
