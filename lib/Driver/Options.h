//===- Options.h - what the command line asked for ----------------------------------------------------------------===//
#ifndef FLASHC_LIB_DRIVER_OPTIONS_H
#define FLASHC_LIB_DRIVER_OPTIONS_H

#include "flashc/Execution/Inputs.h"
#include "flashc/Pipelines/Pipelines.h"

#include <optional>
#include <string>

namespace flashc {

/// What the compiler writes, in the order of the lowering. The first enumerators are the same as those of Level.
enum class EmitKind { Flash, Loops, Tile, NVVM, LLVM, PTX, Cubin };

struct DriverOptions {
  std::string inputFile = "-";
  std::string outputFile;
  EmitKind emit = EmitKind::PTX;
  /// Whether code is written. False if the command line has only --run, --check or --print-*.
  bool wantsOutput = true;
  PipelineOptions pipeline;
  /// A pipeline as text that takes the place of the algorithm's passes, or empty.
  std::string passes;
  std::string function;
  bool runOnCPU = false, runOnGPU = false;
  bool check = false, checkEachPass = false, printResults = false;
  bool printCost = false, printDecisions = false, explain = false;
  bool time = false;
  InputOptions inputs;
};

/// Parses the command line. Returns nullopt if the program should end: after --help or --version (then `*status` is 0),
/// or after an error message (then it is 1). Must not run on two threads at once.
std::optional<DriverOptions> parseCommandLine(int argc, char **argv, int *status);

/// Resets the options of MLIR's libraries to their defaults, because code that runs after the driver may use them.
void forgetCommandLine();

} // namespace flashc

#endif // FLASHC_LIB_DRIVER_OPTIONS_H
