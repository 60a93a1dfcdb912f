//===- Cubin.cpp - PTX to machine code, with the ptxas that the user has ------------------------------------------===//

#include "flashc/Target/PTX.h"
#include "mlir/IR/BuiltinOps.h"
#include "llvm/ADT/ScopeExit.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/Process.h"
#include "llvm/Support/Program.h"

using namespace mlir;

/// Finds ptxas in PATH, in $CUDA_HOME/bin, or in the toolkit's usual folder.
static llvm::ErrorOr<std::string> findPtxas() {
  if (llvm::ErrorOr<std::string> found = llvm::sys::findProgramByName("ptxas"))
    return found;
  SmallVector<std::string> folders;
  if (std::optional<std::string> home = llvm::sys::Process::GetEnv("CUDA_HOME"))
    folders.push_back(*home + "/bin");
  folders.push_back("/usr/local/cuda/bin");
  SmallVector<StringRef> paths(folders.begin(), folders.end());
  return llvm::sys::findProgramByName("ptxas", paths);
}

namespace {
/// A temporary file, which the destructor removes.
struct TemporaryFile {
  explicit TemporaryFile(StringRef suffix) { error = llvm::sys::fs::createTemporaryFile("flashc", suffix, path); }
  ~TemporaryFile() { llvm::sys::fs::remove(path); }
  SmallString<128> path;
  std::error_code error;
};
} // namespace

static bool writeFile(StringRef path, StringRef contents) {
  std::error_code error;
  llvm::raw_fd_ostream stream(path, error);
  if (error)
    return false;
  stream << contents;
  stream.close();
  return !stream.has_error();
}

FailureOr<std::string> flashc::assemblePTX(ModuleOp module, StringRef ptx, StringRef target) {
  llvm::ErrorOr<std::string> ptxas = findPtxas();
  if (!ptxas)
    return module.emitError() << "expected ptxas on the PATH, in $CUDA_HOME/bin or in the CUDA toolkit's usual folder";
  TemporaryFile input("ptx"), output("cubin"), messages("log");
  if (input.error || output.error || messages.error || !writeFile(input.path, ptx))
    return module.emitError() << "expected a folder for temporary files that can be written";
  std::string arch = ("-arch=" + target).str();
  StringRef arguments[] = {*ptxas, arch, input.path, "-o", output.path};
  std::optional<StringRef> redirects[] = {std::nullopt, messages.path, messages.path};
  if (llvm::sys::ExecuteAndWait(*ptxas, arguments, std::nullopt, redirects) != 0) {
    auto log = llvm::MemoryBuffer::getFile(messages.path);
    return module.emitError() << "ptxas failed: " << (log ? (*log)->getBuffer().trim() : StringRef("no message"));
  }
  auto cubin = llvm::MemoryBuffer::getFile(output.path);
  if (!cubin)
    return module.emitError() << "expected a cubin from ptxas";
  return (*cubin)->getBuffer().str();
}
