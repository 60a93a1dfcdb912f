//===- Options.h - what the command line asked for ----------------------------------------------------------------===//
#ifndef FLASHC_LIB_DRIVER_OPTIONS_H
#define FLASHC_LIB_DRIVER_OPTIONS_H

#include "flashc/Execution/Inputs.h"
#include "flashc/Pipelines/Pipelines.h"

#include <string>

namespace flashc {

/// What the compiler's output is, in the order of the lowering.
enum class EmitKind { Flash, Loops, Tile, NVVM, LLVM, PTX, Cubin };

struct DriverOptions {
  std::string inputFile = "-";
  std::string outputFile;
  EmitKind emit = EmitKind::PTX;
  /// Whether something is to be written at all; --run, --check and --print-cost alone write no code.
  bool wantsOutput = true;
  PipelineOptions pipeline;
  /// A textual pipeline instead of the algorithm's, or empty.
  std::string passes;
  std::string function;
  bool runOnCPU = false, runOnGPU = false;
  bool check = false, checkEachPass = false, printResults = false;
  bool printCost = false;
  bool time = false;
  InputOptions inputs;
};

/// Parses the command line; --help and --version end the program here. Returns none after a message about a mistake.
std::optional<DriverOptions> parseCommandLine(int argc, char **argv);

} // namespace flashc

#endif // FLASHC_LIB_DRIVER_OPTIONS_H
