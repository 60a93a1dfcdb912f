//===- Output.cpp - files that are whole or not there --------------------------------------------------------------===//

#include "Output.h"
#include "llvm/Support/Error.h"
#include "llvm/Support/raw_ostream.h"

using namespace mlir;

LogicalResult flashc::writeOutput(llvm::StringRef path, llvm::StringRef contents) {
  llvm::Error error = llvm::writeToOutput(path, [&](llvm::raw_ostream &os) {
    os << contents;
    return llvm::Error::success();
  });
  if (!error)
    return success();
  llvm::errs() << path << ": error: cannot write the output: " << llvm::toString(std::move(error)) << "\n";
  return failure();
}
