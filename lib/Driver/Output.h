//===- Output.h - files that are whole or not there ---------------------------------------------------------------===//
#ifndef FLASHC_LIB_DRIVER_OUTPUT_H
#define FLASHC_LIB_DRIVER_OUTPUT_H

#include "mlir/Support/LLVM.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"

namespace flashc {

/// Writes `contents` to `path`, where "-" means standard output. Writes a temporary file next to `path` first, so that
/// no reader sees a part of the contents. A device or a pipe is written in place. Error messages name `path`.
mlir::LogicalResult writeOutput(llvm::StringRef path, llvm::StringRef contents);

struct OutputFile {
  llvm::StringRef path, contents;
};

/// Writes files that belong together. No file is replaced until the contents of all of them are on disk.
mlir::LogicalResult writeOutputs(llvm::ArrayRef<OutputFile> outputs);

/// Flushes standard output; fails after an error message.
mlir::LogicalResult flushStandardOutput();

} // namespace flashc

#endif // FLASHC_LIB_DRIVER_OUTPUT_H
