//===- Output.h - files that are whole or not there ---------------------------------------------------------------===//
#ifndef FLASHC_LIB_DRIVER_OUTPUT_H
#define FLASHC_LIB_DRIVER_OUTPUT_H

#include "mlir/Support/LLVM.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"

namespace flashc {

/// Writes `contents` to `path` ("-": standard output) through a temporary file beside it, so that a reader never sees
/// half of it. What exists and is no regular file (a device, a pipe) is written in place. Diagnoses at `path` what goes
/// wrong.
mlir::LogicalResult writeOutput(llvm::StringRef path, llvm::StringRef contents);

struct OutputFile {
  llvm::StringRef path, contents;
};

/// The same for files that belong together: none is replaced before all contents lie on the disk.
mlir::LogicalResult writeOutputs(llvm::ArrayRef<OutputFile> outputs);

/// Diagnoses what could not be written to standard output.
mlir::LogicalResult flushStandardOutput();

} // namespace flashc

#endif // FLASHC_LIB_DRIVER_OUTPUT_H
