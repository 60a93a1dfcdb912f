//===- Output.h - files that are whole or not there ---------------------------------------------------------------===//
#ifndef FLASHC_LIB_DRIVER_OUTPUT_H
#define FLASHC_LIB_DRIVER_OUTPUT_H

#include "mlir/Support/LLVM.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"

namespace flashc {

/// Writes `contents` to `path` ("-": standard output) through a temporary file next to it, so that a reader never sees
/// a part. An existing path that is no regular file (a device, a pipe) is written in place. Errors are printed with
/// `path`.
mlir::LogicalResult writeOutput(llvm::StringRef path, llvm::StringRef contents);

struct OutputFile {
  llvm::StringRef path, contents;
};

/// Writes files that belong together: no file is replaced before the contents of all are on disk.
mlir::LogicalResult writeOutputs(llvm::ArrayRef<OutputFile> outputs);

/// Flushes standard output; fails after an error message.
mlir::LogicalResult flushStandardOutput();

} // namespace flashc

#endif // FLASHC_LIB_DRIVER_OUTPUT_H
