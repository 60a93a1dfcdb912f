//===- Driver.cpp - the flashc program ----------------------------------------------------------------------------===//

#include "flashc/Driver/Driver.h"
#include "Options.h"
#include "Output.h"
#include "PrintCost.h"
#include "RunCPU.h"
#include "RunGPU.h"
#include "flashc/Conversion/Schedule.h"
#include "flashc/InitAll.h"
#include "flashc/Target/PTX.h"
#include "mlir/Bytecode/BytecodeReader.h"
#include "mlir/IR/DialectRegistry.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/Parser/Parser.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Pass/PassRegistry.h"
#include "mlir/Support/FileUtilities.h"
#include "mlir/Support/Timing.h"
#include "mlir/Transforms/Passes.h"
#include "llvm/Support/InitLLVM.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/SourceMgr.h"

using namespace mlir;
using namespace flashc;

namespace {

/// One run of the program, after the command line is understood.
class Compilation {
public:
  Compilation(MLIRContext &context, const DriverOptions &options, TimingScope &timing)
      : context(context), options(options), timing(timing) {}

  LogicalResult run(llvm::SourceMgr &sources);

private:
  LogicalResult keepFunction();
  LogicalResult addAlgorithm(OpPassManager &pm, const PipelineOptions &pipeline);
  LogicalResult runPasses(ModuleOp target, llvm::function_ref<LogicalResult(OpPassManager &)> build, StringRef step);
  LogicalResult emit();
  LogicalResult emitIR(ModuleOp ir);
  FailureOr<OwningOpRef<ModuleOp>> lowerToKernel(KernelLevel level);
  FailureOr<std::string> translateToCode(ModuleOp kernel);
  LogicalResult emitKernel(ModuleOp kernel);
  FailureOr<CompiledKernel> compileKernel();

  StringRef getOutputFile() const { return options.outputFile.empty() ? StringRef("-") : options.outputFile; }

  MLIRContext &context;
  const DriverOptions &options;
  TimingScope &timing;
  OwningOpRef<ModuleOp> module;
};

} // namespace

LogicalResult Compilation::addAlgorithm(OpPassManager &pm, const PipelineOptions &pipeline) {
  if (options.passes.empty()) {
    buildAlgorithmPipeline(pm, pipeline);
    return success();
  }
  registerAllPasses();
  return parsePassPipeline(options.passes, pm);
}

LogicalResult Compilation::runPasses(ModuleOp target, llvm::function_ref<LogicalResult(OpPassManager &)> build,
                                     StringRef step) {
  TimingScope scope = timing.nest(step);
  PassManager pm(&context);
  if (failed(applyPassManagerCLOptions(pm)) || failed(build(pm)))
    return failure();
  pm.enableTiming(scope);
  return pm.run(target);
}

LogicalResult Compilation::emitIR(ModuleOp ir) {
  std::string text;
  llvm::raw_string_ostream os(text);
  ir.print(os);
  os << "\n";
  return writeOutput(getOutputFile(), text);
}

LogicalResult Compilation::emit() {
  if (options.emit == EmitKind::Flash)
    return emitIR(*module);
  if (options.emit == EmitKind::Loops) {
    OwningOpRef<ModuleOp> loops = module->clone();
    if (failed(runPasses(*loops, [&](OpPassManager &pm) { return addAlgorithm(pm, options.pipeline); }, "algorithm")))
      return failure();
    return emitIR(*loops);
  }
  KernelLevel level = options.emit == EmitKind::Tile   ? KernelLevel::Tile
                      : options.emit == EmitKind::NVVM ? KernelLevel::NVVM
                                                       : KernelLevel::LLVM;
  FailureOr<OwningOpRef<ModuleOp>> kernel = lowerToKernel(level);
  if (failed(kernel))
    return failure();
  if (options.emit == EmitKind::Tile || options.emit == EmitKind::NVVM)
    return emitIR(**kernel);
  if (options.emit != EmitKind::LLVM)
    return emitKernel(**kernel);
  FailureOr<std::string> text = translateToLLVMIR(**kernel, options.pipeline.target);
  return failed(text) ? failure() : writeOutput(getOutputFile(), *text);
}

/// The module's attention as a kernel. L1's tiles are those of the schedule.
FailureOr<OwningOpRef<ModuleOp>> Compilation::lowerToKernel(KernelLevel level) {
  FailureOr<Schedule> schedule = resolveSchedule(*module, options.pipeline.schedule);
  if (failed(schedule))
    return failure();
  PipelineOptions pipeline = options.pipeline;
  pipeline.schedule = schedule->str(); // decided once: L1 shows less of the shapes and more of the mask
  pipeline.qTile = pipeline.qTile ? pipeline.qTile : schedule->getQTile();
  pipeline.kvTile = pipeline.kvTile ? pipeline.kvTile : schedule->kvTile;
  OwningOpRef<ModuleOp> kernel = module->clone();
  auto build = [&](OpPassManager &pm) {
    if (failed(addAlgorithm(pm, pipeline)))
      return failure();
    buildKernelPipeline(pm, pipeline, level);
    return success();
  };
  if (failed(runPasses(*kernel, build, "lower")))
    return failure();
  return kernel;
}

FailureOr<std::string> Compilation::translateToCode(ModuleOp kernel) {
  TimingScope scope = timing.nest("translate to PTX");
  return translateToPTX(kernel, options.pipeline.target);
}

/// Writes the code and, when it goes to a file, its manifest beside it: kernel.ptx, kernel.json.
LogicalResult Compilation::emitKernel(ModuleOp kernel) {
  FailureOr<std::string> code = translateToCode(kernel);
  if (succeeded(code) && options.emit == EmitKind::Cubin) {
    TimingScope scope = timing.nest("ptxas");
    code = assemblePTX(kernel, *code, options.pipeline.target);
  }
  if (failed(code))
    return failure();
  if (getOutputFile() == "-")
    return writeOutput("-", *code);
  FailureOr<std::string> manifest = exportManifest(kernel);
  if (failed(manifest))
    return failure();
  SmallString<128> manifestFile(getOutputFile());
  llvm::sys::path::replace_extension(manifestFile, "json");
  OutputFile files[] = {{getOutputFile(), *code}, {manifestFile, *manifest}};
  return writeOutputs(files);
}

FailureOr<CompiledKernel> Compilation::compileKernel() {
  FailureOr<OwningOpRef<ModuleOp>> kernel = lowerToKernel(KernelLevel::LLVM);
  if (failed(kernel))
    return failure();
  FailureOr<std::string> code = translateToCode(**kernel);
  FailureOr<std::string> manifest = exportManifest(**kernel);
  if (failed(code) || failed(manifest))
    return failure();
  return CompiledKernel{*code, *manifest};
}

/// Leaves the function that --function names, and what it calls.
LogicalResult Compilation::keepFunction() {
  if (options.function.empty())
    return success();
  if (failed(selectFunctions(*module, options)))
    return failure();
  for (auto function : module->getOps<func::FuncOp>())
    if (function.getName() != options.function)
      function.setPrivate();
  return runPasses(
      *module, [](OpPassManager &pm) { return pm.addPass(createSymbolDCEPass()), success(); }, "select the function");
}

LogicalResult Compilation::run(llvm::SourceMgr &sources) {
  {
    TimingScope scope = timing.nest("parse");
    module = parseSourceFile<ModuleOp>(sources, ParserConfig(&context));
  }
  if (!module || failed(keepFunction()))
    return failure();
  if (options.wantsOutput && failed(emit()))
    return failure();
  auto algorithm = [&](OpPassManager &pm) { return addAlgorithm(pm, options.pipeline); };
  if (options.printCost && failed(printCost(*module, algorithm, options)))
    return failure();
  if (options.runOnGPU) {
    TimingScope scope = timing.nest("run on the GPU");
    return runOnGPU(*module, [&] { return compileKernel(); }, options);
  }
  if (options.runOnCPU) {
    TimingScope scope = timing.nest("run on the CPU");
    return runOnCPU(*module, algorithm, options);
  }
  return success();
}

/// The parser is recursive: refuses text that nests brackets so deep that it would run out of stack.
static LogicalResult checkNesting(const llvm::SourceMgr &sources, MLIRContext *context) {
  constexpr int kMaxDepth = 1000;
  StringRef text = sources.getMemoryBuffer(sources.getMainFileID())->getBuffer();
  if (isBytecode(sources.getMemoryBuffer(sources.getMainFileID())->getMemBufferRef()))
    return success();
  int depth = 0;
  for (size_t at = 0; at < text.size(); ++at) {
    if (text[at] == '"') {
      while (++at < text.size() && text[at] != '"' && text[at] != '\n')
        at += text[at] == '\\';
    } else if (text.substr(at).starts_with("//")) {
      at = text.find('\n', at);
      if (at == StringRef::npos)
        break;
    } else if (StringRef("([{<").contains(text[at]) && ++depth > kMaxDepth) {
      auto [line, column] = sources.getLineAndColumn(llvm::SMLoc::getFromPointer(text.data() + at));
      StringRef name = sources.getMemoryBuffer(sources.getMainFileID())->getBufferIdentifier();
      return emitError(FileLineColLoc::get(context, name, line, column), "expected brackets to nest at most ")
             << kMaxDepth << " deep";
    } else if (StringRef(")]}>").contains(text[at]) && !text.take_front(at + 1).ends_with("->")) {
      --depth;
    }
  }
  return success();
}

/// Reads the input and hands it to MLIR with a handler that prints diagnostics with their source lines.
static LogicalResult compile(const DriverOptions &options) {
  std::string message;
  std::unique_ptr<llvm::MemoryBuffer> input = openInputFile(options.inputFile, &message);
  if (!input) {
    llvm::errs() << options.inputFile << ": error: " << message << "\n";
    return failure();
  }
  DefaultTimingManager timing;
  timing.setEnabled(options.time);
  TimingScope rootTiming = timing.getRootScope();

  DialectRegistry registry;
  registerAllDialects(registry);
  MLIRContext context(registry, MLIRContext::Threading::DISABLED);
  context.printOpOnDiagnostic(false); // the source line says which op; the whole module may be pages
  llvm::SourceMgr sources;
  sources.AddNewSourceBuffer(std::move(input), llvm::SMLoc());
  SourceMgrDiagnosticHandler handler(sources, &context);
  if (failed(checkNesting(sources, &context)))
    return failure();
  return Compilation(context, options, rootTiming).run(sources);
}

int flashc::runDriver(int argc, char **argv) {
  llvm::InitLLVM init(argc, argv);
  std::optional<DriverOptions> options = parseCommandLine(argc, argv);
  if (!options)
    return 1;
  bool compiled = succeeded(compile(*options));
  return succeeded(flushStandardOutput()) && compiled ? 0 : 1;
}
