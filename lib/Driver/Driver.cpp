//===- Driver.cpp - the flashc program ----------------------------------------------------------------------------===//

#include "flashc/Driver/Driver.h"
#include "Actions.h"
#include "Output.h"
#include "flashc/Compiler/LoweredKernel.h"
#include "flashc/InitAll.h"
#include "flashc/Support/ReadFile.h"
#include "flashc/Target/PTX.h"
#include "mlir/IR/DialectRegistry.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Pass/PassRegistry.h"
#include "mlir/Support/Timing.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/PrettyStackTrace.h"
#include "llvm/Support/Process.h"
#include "llvm/Support/Signals.h"
#include "llvm/Support/SourceMgr.h"

#include <mutex>

using namespace mlir;
using namespace flashc;

/// Returns the compiler's options for a command line.
static CompileOptions getCompileOptions(const DriverOptions &options, TimingScope &timing) {
  CompileOptions result;
  result.pipeline = options.pipeline;
  result.configure = applyPassManagerCLOptions;
  result.timing = &timing;
  if (!options.passes.empty())
    result.addAlgorithm = [passes = options.passes](OpPassManager &pm) {
      registerAllPasses();
      return parsePassPipeline(passes, pm);
    };
  return result;
}

namespace {

/// What the program does after the command line is parsed.
class Compilation {
public:
  Compilation(MLIRContext &context, const DriverOptions &options, TimingScope &timing)
      : context(context), options(options), timing(timing), compileOptions(getCompileOptions(options, timing)) {}

  LogicalResult run(llvm::SourceMgr &sources);

private:
  LogicalResult emit();
  LogicalResult emitKernel(ModuleOp kernel);
  LogicalResult printDecisions();

  StringRef getOutputFile() const { return options.outputFile.empty() ? StringRef("-") : options.outputFile; }

  MLIRContext &context;
  const DriverOptions &options;
  TimingScope &timing;
  const CompileOptions compileOptions;
  OwningOpRef<ModuleOp> module;
};

} // namespace

LogicalResult Compilation::emit() {
  if (options.emit <= EmitKind::LLVM) {
    FailureOr<std::string> text = printAtLevel(*module, static_cast<Level>(options.emit), compileOptions);
    return failed(text) ? failure() : writeOutput(getOutputFile(), *text);
  }
  FailureOr<LoweredKernel> kernel = lowerToKernel(*module, compileOptions, KernelLevel::LLVM);
  return failed(kernel) ? failure() : emitKernel(*kernel->module);
}

/// Whether `path` exists and is neither a regular file nor a folder: it is a device or a pipe.
static bool isDevice(StringRef path) {
  llvm::sys::fs::file_status status;
  return !llvm::sys::fs::status(path, status) && llvm::sys::fs::exists(status) &&
         !llvm::sys::fs::is_regular_file(status) && !llvm::sys::fs::is_directory(status);
}

/// Writes the code of `kernel`. If it goes to a file such as kernel.ptx, also writes the manifest next to it
/// (kernel.json).
LogicalResult Compilation::emitKernel(ModuleOp kernel) {
  FailureOr<std::string> code = translateKernel(kernel, compileOptions);
  if (succeeded(code) && options.emit == EmitKind::Cubin) {
    TimingScope scope = timing.nest("ptxas");
    code = assemblePTX(kernel, *code, options.pipeline.target);
  }
  if (failed(code))
    return failure();
  if (getOutputFile() == "-" || isDevice(getOutputFile()))
    return writeOutput(getOutputFile(), *code);
  FailureOr<std::string> manifest = exportManifest(kernel);
  if (failed(manifest))
    return failure();
  SmallString<128> manifestFile(getOutputFile());
  llvm::sys::path::replace_extension(manifestFile, "json");
  OutputFile files[] = {{getOutputFile(), *code}, {manifestFile, *manifest}};
  return writeOutputs(files);
}

LogicalResult Compilation::printDecisions() {
  FailureOr<LoweredKernel> kernel = lowerToKernel(*module, compileOptions, KernelLevel::Tile);
  if (failed(kernel))
    return failure();
  llvm::outs() << describeDecisions(*kernel);
  return success();
}

LogicalResult Compilation::run(llvm::SourceMgr &sources) {
  {
    TimingScope scope = timing.nest("parse");
    FailureOr<OwningOpRef<ModuleOp>> parsed = parseModule(sources, context);
    if (failed(parsed))
      return failure();
    module = std::move(*parsed);
  }
  if (failed(keepFunction(*module, options.function, compileOptions)))
    return failure();
  if (options.wantsOutput && failed(emit()))
    return failure();
  if (options.printCost && failed(printCost(*module, compileOptions, options)))
    return failure();
  if (options.printDecisions && failed(printDecisions()))
    return failure();
  if (options.explain && failed(printExplanations(*module, compileOptions, options)))
    return failure();
  if (options.runOnGPU) {
    TimingScope scope = timing.nest("run on the GPU");
    return runOnGPU(*module, compileOptions, options);
  }
  if (options.runOnCPU) {
    TimingScope scope = timing.nest("run on the CPU");
    return runOnCPU(*module, compileOptions, options);
  }
  return success();
}

/// Compiles the input, with a handler that prints diagnostics with their source lines.
static LogicalResult compileInput(const DriverOptions &options) {
  llvm::ErrorOr<llvm::SmallString<0>> input = readFile(options.inputFile);
  if (!input) {
    llvm::errs() << options.inputFile << ": error: cannot open input file '" << options.inputFile
                 << "': " << describeReadError(input.getError()) << "\n";
    return failure();
  }
  DefaultTimingManager timing;
  timing.setEnabled(options.time);
  TimingScope rootTiming = timing.getRootScope();

  DialectRegistry registry;
  registerAllDialects(registry);
  MLIRContext context(registry, MLIRContext::Threading::DISABLED);
  context.printOpOnDiagnostic(false); // the source line shows the op; printing it may take pages
  llvm::SourceMgr sources;
  StringRef name = options.inputFile == "-" ? StringRef("<stdin>") : StringRef(options.inputFile);
  sources.AddNewSourceBuffer(llvm::MemoryBuffer::getMemBufferCopy(*input, name), llvm::SMLoc());
  SourceMgrDiagnosticHandler handler(sources, &context);
  return Compilation(context, options, rootTiming).run(sources);
}

static int runOnce(int argc, char **argv) {
  int status = 0;
  std::optional<DriverOptions> options = parseCommandLine(argc, argv, &status);
  if (options)
    status = succeeded(compileInput(*options)) ? 0 : 1;
  forgetCommandLine();
  return succeeded(flushStandardOutput()) ? status : 1;
}

int flashc::runDriver(int argc, char **argv) {
  // A process has only one LLVM command line and only one standard output, so concurrent calls wait.
  static std::mutex mutex;
  std::lock_guard<std::mutex> lock(mutex);
  // Does the same as llvm::InitLLVM, but without llvm_shutdown at the end: that would free memory that other threads
  // may still use.
  llvm::sys::Process::FixupStandardFileDescriptors();
  static bool isHandlerSet = (llvm::sys::PrintStackTraceOnErrorSignal("flashc"), true);
  (void)isHandlerSet;
  llvm::PrettyStackTraceProgram stackTrace(argc, argv);
  return runOnce(argc, argv);
}
