//===- Options.cpp - the command line of flashc -------------------------------------------------------------------===//

#include "Options.h"
#include "flashc/Compiler/Compiler.h"
#include "flashc/Schedule/Schedule.h"
#include "flashc/Support/ReadFile.h"
#include "flashc/Version.h"
#include "mlir/IR/AsmState.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/Pass/PassManager.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Config/llvm-config.h"
#include "llvm/Support/CommandLine.h"
#include "llvm/Support/raw_ostream.h"

using namespace flashc;
namespace cl = llvm::cl;

namespace {

/// The options of the command line, as objects of LLVM's library for command lines.
struct CommandLine {
  cl::OptionCategory category{"flashc options"};
  cl::opt<std::string> input{cl::Positional, cl::desc("<input.mlir>"), cl::init("-"), cl::cat(category)};
  cl::opt<std::string> output{"o", cl::desc("Write the output to this file; a .json manifest goes next to a .ptx"),
                              cl::value_desc("file"), cl::cat(category)};
  cl::opt<std::string> target{"target", cl::desc("GPU architecture (default: sm_90a)"), cl::init(kDefaultTarget.str()),
                              cl::value_desc("arch"), cl::cat(category)};
  cl::opt<std::string> emit{"emit", cl::desc("Write flash, loops, tile, nvvm, llvm, ptx or cubin (default: ptx)"),
                            cl::value_desc("level"), cl::cat(category)};
  cl::opt<std::string> algorithm{"algorithm", cl::desc("standard, fa1, fa2 or split-kv (default: fa2)"),
                                 cl::init("fa2"), cl::value_desc("name"), cl::cat(category)};
  cl::opt<std::string> schedule{"schedule", cl::desc("Overrides of the schedule table"),
                                cl::value_desc("key=value,..."), cl::cat(category)};
  cl::opt<std::string> scheduleTable{"schedule-table", cl::desc("Look for a schedule in this table first"),
                                     cl::value_desc("file"), cl::cat(category)};
  cl::opt<int64_t> qTile{"q-tile", cl::desc("Queries per tile (default: 64, or the schedule's)"), cl::cat(category)};
  cl::opt<int64_t> kvTile{"kv-tile", cl::desc("Keys per tile (default: 64, or the schedule's)"), cl::cat(category)};
  cl::opt<SplitGradients> splitGradients{
      "split-gradients",
      cl::desc("Backward pass: compute these gradients in separate loops (default: dq is added up in memory)"),
      cl::values(clEnumValN(SplitGradients::Queries, "queries", "dq"), clEnumValN(SplitGradients::Queries, "", "dq"),
                 clEnumValN(SplitGradients::Each, "each", "dq, dk and dv, each")),
      cl::ValueOptional,
      cl::init(SplitGradients::None),
      cl::cat(category)};
  cl::opt<std::string> passes{"passes", cl::desc("L1 passes to run instead of an algorithm's, named as in flashc-opt"),
                              cl::value_desc("pass,..."), cl::cat(category)};
  cl::opt<std::string> function{"function", cl::desc("Compile and run only this function (default: every public one)"),
                                cl::value_desc("name"), cl::cat(category)};
  cl::opt<std::string> run{"run", cl::desc("Run on random inputs: cpu (the L1 loops) or gpu (the kernel)"),
                           cl::value_desc("where"), cl::cat(category)};
  cl::opt<bool> check{"check", cl::desc("Compare what ran with Algorithm 0 in f64"), cl::cat(category)};
  cl::opt<bool> checkEachPass{"check-each-pass", cl::desc("Compare on the CPU, after every pass"), cl::cat(category)};
  cl::opt<bool> printResults{"print-results", cl::desc("Print every element of the results"), cl::cat(category)};
  cl::opt<uint64_t> seed{"seed", cl::desc("Seed of the random inputs (default: 0)"), cl::cat(category)};
  cl::opt<std::string> dims{
      "dims", cl::desc("Dynamic extents (default: B=1,Hk=2,Nq=63,Nk=65; Hq follows Hk, Nq and Nk follow each other)"),
      cl::value_desc("B=n,Hq=n,Hk=n,Nq=n,Nk=n"), cl::cat(category)};
  cl::opt<std::string> shape{"shape", cl::desc("Shapes of arguments: q, k, v, o, lse, or arg<number>"),
                             cl::value_desc("q=1x8x63x128,..."), cl::cat(category)};
  cl::opt<bool> printCost{"print-cost", cl::desc("Print FLOPs and device memory traffic of the chosen algorithm"),
                          cl::cat(category)};
  cl::opt<bool> printDecisions{"print-decisions", cl::desc("Print what was chosen for the kernel, and why"),
                               cl::cat(category)};
  cl::opt<bool> explain{"explain", cl::desc("Print which tiles the mask skips, and what is known about it"),
                        cl::cat(category)};
  cl::opt<bool> time{"time", cl::desc("Print how long each step took"), cl::cat(category)};
};

} // namespace

static bool complain(const llvm::Twine &message) {
  llvm::errs() << "flashc: error: " << message << "\n";
  return false;
}

static bool parseEmit(llvm::StringRef text, EmitKind &kind) {
  llvm::SmallVector<llvm::StringRef> names(getLevelNames());
  names.append({"ptx", "cubin"});
  for (auto [index, name] : llvm::enumerate(names))
    if (text == name) {
      kind = static_cast<EmitKind>(index);
      return true;
    }
  return complain("expected --emit to be one of " + llvm::join(names, ", ") + ", got '" + text + "'");
}

/// The largest tile that is accepted. It is far above any useful tile; yet the product of two such tiles fits memory
/// and 32 bits.
static constexpr int64_t kMaxTile = 16384;

static bool checkNames(const CommandLine &line) {
  if (!GPUTarget::lookup(line.target))
    return complain("expected --target to be one of " + GPUTarget::getNames() + ", got '" + line.target + "'");
  if (!llvm::is_contained(getAlgorithms(), line.algorithm))
    return complain("expected --algorithm to be one of " + llvm::join(getAlgorithms(), ", ") + ", got '" +
                    line.algorithm + "'");
  if (!line.run.empty() && line.run != "cpu" && line.run != "gpu")
    return complain("expected --run to be cpu or gpu, got '" + line.run + "'");
  for (const cl::opt<int64_t> *tile : {&line.qTile, &line.kvTile})
    if (tile->getNumOccurrences() && (*tile <= 0 || *tile > kMaxTile))
      return complain("expected --" + tile->ArgStr + " from 1 to " + llvm::Twine(kMaxTile) + ", got " +
                      llvm::Twine(*tile));
  if (line.checkEachPass && line.run == "gpu")
    return complain("expected --check-each-pass to run on the CPU, got --run=gpu");
  for (const cl::Option *option :
       {(const cl::Option *)&line.qTile, (const cl::Option *)&line.kvTile, (const cl::Option *)&line.splitGradients})
    if (option->getNumOccurrences() && !line.passes.empty())
      return complain("expected --" + option->ArgStr +
                      " with an algorithm, whose passes it is for, got --passes, which takes the options of each pass");
  return true;
}

static bool readTable(llvm::StringRef path, std::string &text) {
  auto file = readFile(path);
  if (!file)
    return complain("cannot read the schedule table " + path + ": " + describeReadError(file.getError()));
  text = file->str();
  return true;
}

/// Reads the fields of a schedule that divide the keys into parts; only these have a meaning in L1. Other fields are
/// for kernels.
static bool readParts(llvm::StringRef schedule, PipelineOptions &pipeline) {
  if (llvm::Error error = checkOverrides(schedule))
    return complain("schedule: " + llvm::toString(std::move(error)));
  Schedule parts;
  llvm::cantFail(overrideSchedule(parts, schedule));
  pipeline.splits = parts.splits, pipeline.chunk = parts.chunk;
  pipeline.partsByWork = parts.splits > 1 && hasOverride(schedule, "persistent") && parts.persistent;
  return true;
}

static bool fill(const CommandLine &line, DriverOptions &options) {
  if (!checkNames(line) || (!line.emit.empty() && !parseEmit(line.emit, options.emit)))
    return false;
  options.inputFile = line.input;
  options.outputFile = line.output;
  options.pipeline = {line.target, line.algorithm, line.schedule, /*scheduleTable=*/"", line.qTile, line.kvTile};
  options.pipeline.splitGradients = line.splitGradients;
  options.pipeline.mayDecode = line.algorithm.getNumOccurrences() == 0;
  if (!line.scheduleTable.empty() && !readTable(line.scheduleTable, options.pipeline.scheduleTable))
    return false;
  options.passes = line.passes;
  options.function = line.function;
  options.check = line.check;
  options.checkEachPass = line.checkEachPass;
  options.printResults = line.printResults;
  options.runOnGPU = line.run == "gpu";
  options.runOnCPU = !options.runOnGPU && (line.run == "cpu" || line.check || line.checkEachPass || line.printResults);
  options.printCost = line.printCost;
  options.printDecisions = line.printDecisions;
  options.explain = line.explain;
  options.time = line.time;
  options.wantsOutput =
      line.emit.getNumOccurrences() || !options.outputFile.empty() ||
      !(options.runOnCPU || options.runOnGPU || options.printCost || options.printDecisions || options.explain);
  if (options.emit >= EmitKind::PTX && llvm::StringRef(options.outputFile).ends_with(".json"))
    return complain("expected -o to name the kernel, not its manifest, got '" + options.outputFile + "'");
  bool isKernel = options.runOnGPU || options.printDecisions || (options.wantsOutput && options.emit >= EmitKind::Tile);
  if (isKernel && line.algorithm != "fa2" && line.algorithm != "split-kv")
    return complain("expected --algorithm=fa2 or split-kv for a kernel, got '" + line.algorithm + "'");
  if (!isKernel && !readParts(line.schedule, options.pipeline))
    return false;
  options.inputs.seed = line.seed;
  if (!options.runOnCPU && !options.runOnGPU)
    options.inputs.maxElements = int64_t(1) << 44; // the limit of launches; only inputs that masks read are made
  std::optional<std::string> mistake;
  if (line.dims.getNumOccurrences())
    mistake = parseDims(line.dims, options.inputs);
  if (!mistake && line.shape.getNumOccurrences())
    mistake = parseShapes(line.shape, options.inputs);
  return !mistake || complain(*mistake);
}

static constexpr const char *kOverview =
    "flashc: a compiler for attention\n\n"
    "  flashc attention.mlir -o attention.ptx         the kernel and how to launch it\n"
    "  flashc attention.mlir --emit=loops             the algorithm as tiled loops\n"
    "  flashc attention.mlir --check                  run those loops, compare with Algorithm 0\n"
    "  flashc attention.mlir --print-cost --dims=Nq=4096,Nk=4096\n"
    "  flashc attention.mlir --explain --dims=Nq=4096,Nk=4096\n";

static void printVersion(llvm::raw_ostream &os) { os << "flashc " FLASHC_VERSION " (LLVM " LLVM_VERSION_STRING ")\n"; }

/// Handles --help, --version and similar options. LLVM's own handling would end the process, and that may be a program
/// that called flashcMain.
static bool printInformation(int argc, char **argv) {
  for (int index = 1; index < argc; ++index) {
    llvm::StringRef name = argv[index];
    if (name == "--")
      return false;
    if (!name.consume_front("-"))
      continue;
    name.consume_front("-");
    if (name == "version") {
      printVersion(llvm::outs());
      return true;
    }
    if (name != "h" && name != "help" && name != "help-hidden" && name != "help-list" && name != "help-list-hidden")
      continue;
    // Tells LLVM the program's name and overview.
    cl::ParseCommandLineOptions(1, argv, kOverview);
    cl::PrintHelpMessage(/*Hidden=*/name.ends_with("hidden"), /*Categorized=*/!name.starts_with("help-list"));
    return true;
  }
  return false;
}

/// Returns the options of the command line. They live until the process ends: LLVM keeps all options in one registry,
/// and the driver may run more than once.
static CommandLine &getCommandLine() {
  static CommandLine *line = [] {
    auto *line = new CommandLine();
    mlir::registerAsmPrinterCLOptions();
    mlir::registerMLIRContextCLOptions();
    mlir::registerPassManagerCLOptions();
    cl::HideUnrelatedOptions(line->category);
    // All options of MLIR's libraries are hidden, except for one that is useful with --passes.
    if (cl::Option *option = cl::getRegisteredOptions().lookup("mlir-print-ir-after-all"))
      option->setHiddenFlag(cl::NotHidden);
    cl::SetVersionPrinter(printVersion);
    return line;
  }();
  return *line;
}

std::optional<DriverOptions> flashc::parseCommandLine(int argc, char **argv, int *status) {
  const CommandLine &line = getCommandLine();
  *status = 0;
  if (printInformation(argc, argv))
    return std::nullopt;
  *status = 1;
  DriverOptions options;
  if (!cl::ParseCommandLineOptions(argc, argv, kOverview, &llvm::errs()) || !fill(line, options))
    return std::nullopt;
  return options;
}

void flashc::forgetCommandLine() { cl::ResetAllOptionOccurrences(); }
