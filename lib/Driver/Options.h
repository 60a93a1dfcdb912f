//===- Options.h - what the command line asked for ----------------------------------------------------------------===//
#ifndef FLASHC_LIB_DRIVER_OPTIONS_H
#define FLASHC_LIB_DRIVER_OPTIONS_H

#include "flashc/Execution/Inputs.h"
#include "flashc/Pipelines/Pipelines.h"

#include <optional>
#include <string>

namespace flashc {

/// What the compiler's output is, in the order of the lowering; it begins with the values of Level.
enum class EmitKind { Flash, Loops, Tile, NVVM, LLVM, PTX, Cubin };

struct DriverOptions {
  std::string inputFile = "-";
  std::string outputFile;
  EmitKind emit = EmitKind::PTX;
  /// Whether something is to be written at all; --run, --check and --print-* alone write no code.
  bool wantsOutput = true;
  PipelineOptions pipeline;
  /// A textual pipeline instead of the algorithm's, or empty.
  std::string passes;
  std::string function;
  bool runOnCPU = false, runOnGPU = false;
  bool check = false, checkEachPass = false, printResults = false;
  bool printCost = false, printDecisions = false, explain = false;
  bool time = false;
  InputOptions inputs;
};

/// Parses the command line. Returns none if that was all: after --help and --version with `*status` 0, after a message
/// about a mistake with 1. Not for two threads at once.
std::optional<DriverOptions> parseCommandLine(int argc, char **argv, int *status);

/// Puts the options of MLIR's libraries back to their defaults, for those who use them after the driver.
void forgetCommandLine();

} // namespace flashc

#endif // FLASHC_LIB_DRIVER_OPTIONS_H
