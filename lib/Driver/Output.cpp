//===- Output.cpp - files that are whole or not there -------------------------------------------------------------===//

#include "Output.h"
#include "llvm/Support/Error.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/raw_ostream.h"

using namespace mlir;
using namespace flashc;

static LogicalResult complain(llvm::StringRef path, const llvm::Twine &reason) {
  llvm::errs() << path << ": error: cannot write the output: " << reason << "\n";
  return failure();
}

/// Flushes a stream. Reports an error and clears it, since otherwise the destructor of the stream would abort.
static LogicalResult finish(llvm::raw_fd_ostream &os, llvm::StringRef path) {
  os.flush();
  if (!os.has_error())
    return success();
  std::error_code error = os.error();
  os.clear_error();
  return complain(path, error.message());
}

/// Writes to a device or a pipe, which a temporary file cannot replace.
static LogicalResult writeInPlace(llvm::StringRef path, llvm::StringRef contents) {
  std::error_code error;
  llvm::raw_fd_ostream os(path, error);
  if (error)
    return complain(path, error.message());
  os << contents;
  return finish(os, path);
}

namespace {

/// An output whose contents are in a temporary file next to it, unless it is a device or a pipe.
struct StagedFile {
  const OutputFile &output;
  std::optional<llvm::sys::fs::TempFile> temporary;

  LogicalResult stage();
  LogicalResult commit();
  void discard() {
    if (temporary)
      llvm::consumeError(temporary->discard());
  }
};

} // namespace

LogicalResult StagedFile::stage() {
  llvm::sys::fs::file_status status;
  bool exists = !llvm::sys::fs::status(output.path, status) && llvm::sys::fs::exists(status);
  if (exists && llvm::sys::fs::is_directory(status))
    return complain(output.path, std::make_error_code(std::errc::is_a_directory).message());
  if (exists && !llvm::sys::fs::is_regular_file(status))
    return success();
  auto created = llvm::sys::fs::TempFile::create(output.path + ".tmp-%%%%%%");
  if (!created) {
    // The user does not know the name of the temporary file, so the message does not have it.
    std::error_code error = llvm::errorToErrorCode(created.takeError());
    return complain(output.path, error.message());
  }
  temporary.emplace(std::move(*created));
  llvm::raw_fd_ostream os(temporary->FD, /*shouldClose=*/false);
  os << output.contents;
  return finish(os, output.path);
}

LogicalResult StagedFile::commit() {
  if (!temporary)
    return writeInPlace(output.path, output.contents);
  llvm::Error error = temporary->keep(output.path);
  temporary.reset();
  return error ? complain(output.path, llvm::toString(std::move(error))) : success();
}

LogicalResult flashc::writeOutputs(llvm::ArrayRef<OutputFile> outputs) {
  llvm::SmallVector<StagedFile, 2> files;
  LogicalResult result = success();
  for (const OutputFile &output : outputs)
    if (succeeded(result))
      result = files.emplace_back(StagedFile{output, std::nullopt}).stage();
  // A write in place can still fail. So all writes in place come before any file is replaced.
  for (bool replaces : {false, true})
    for (StagedFile &file : files)
      if (succeeded(result) && file.temporary.has_value() == replaces)
        result = file.commit();
  for (StagedFile &file : files)
    file.discard();
  return result;
}

LogicalResult flashc::writeOutput(llvm::StringRef path, llvm::StringRef contents) {
  if (path != "-")
    return writeOutputs(OutputFile{path, contents});
  llvm::outs() << contents;
  return flushStandardOutput();
}

LogicalResult flashc::flushStandardOutput() { return finish(llvm::outs(), "<stdout>"); }
