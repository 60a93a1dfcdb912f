//===- Options.h - what the command line asked for ----------------------------------------------------------------===//
#ifndef FLASHC_LIB_DRIVER_OPTIONS_H
#define FLASHC_LIB_DRIVER_OPTIONS_H

#include "flashc/Execution/Inputs.h"
#include "flashc/Pipelines/Pipelines.h"

#include <optional>
#include <string>

namespace flashc {

/// The compiler's output, in the order of the lowering; the first values are the ones of Level.
enum class EmitKind { Flash, Loops, Tile, NVVM, LLVM, PTX, Cubin };

struct DriverOptions {
  std::string inputFile = "-";
  std::string outputFile;
  EmitKind emit = EmitKind::PTX;
  /// Whether code is written; --run, --check and --print-* alone write none.
  bool wantsOutput = true;
  PipelineOptions pipeline;
  /// A textual pipeline that replaces the algorithm's, or empty.
  std::string passes;
  std::string function;
  bool runOnCPU = false, runOnGPU = false;
  bool check = false, checkEachPass = false, printResults = false;
  bool printCost = false, printDecisions = false, explain = false;
  bool time = false;
  InputOptions inputs;
};

/// Parses the command line. Returns nullopt if there is nothing more to do: with `*status` 0 after --help and
/// --version, with 1 after an error message. Must not run on two threads at once.
std::optional<DriverOptions> parseCommandLine(int argc, char **argv, int *status);

/// Resets the options of MLIR's libraries to their defaults, for code that uses them after the driver.
void forgetCommandLine();

} // namespace flashc

#endif // FLASHC_LIB_DRIVER_OPTIONS_H
