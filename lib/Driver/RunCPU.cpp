//===- RunCPU.cpp - --run=cpu, --check, --check-each-pass ----------------------------------------------------------===//

#include "RunCPU.h"
#include "flashc/Execution/CheckEachPass.h"
#include "mlir/Pass/PassManager.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/raw_ostream.h"

using namespace mlir;
using namespace flashc;

FailureOr<SmallVector<func::FuncOp>> flashc::selectFunctions(ModuleOp module, const DriverOptions &options) {
  SmallVector<func::FuncOp> functions;
  for (auto function : module.getOps<func::FuncOp>())
    if (!function.isExternal() &&
        (options.function.empty() ? function.isPublic() : function.getName() == options.function))
      functions.push_back(function);
  if (!functions.empty())
    return functions;
  if (options.function.empty())
    return module.emitError("expected a public function to run, got none");
  return module.emitError("expected a function named '") << options.function << "', got none";
}

//===--------------------------------------------------------------------------------------------------------------===//
// Printing
//===--------------------------------------------------------------------------------------------------------------===//

static void printValues(llvm::raw_ostream &os, ArrayRef<double> values, ArrayRef<int64_t> shape) {
  if (shape.empty()) {
    os << llvm::format("%.6g", values.front());
    return;
  }
  size_t step = shape.front() ? values.size() / shape.front() : 0;
  os << "[";
  for (int64_t i = 0; i < shape.front(); ++i) {
    os << (i ? ", " : "");
    printValues(os, values.slice(i * step, step), shape.drop_front());
  }
  os << "]";
}

static void printOutput(StringRef function, const NamedOutput &output, bool withValues) {
  llvm::raw_ostream &os = llvm::outs();
  const HostTensor &tensor = output.tensor;
  os << "run @" << function << ": " << output.name << ": ";
  for (int64_t extent : tensor.getShape())
    os << extent << "x";
  os << getName(tensor.getDType());
  if (withValues)
    printValues(os << " = ", tensor.toDoubles(), tensor.getShape());
  os << "\n";
}

static void printCheck(StringRef function, const OutputCheck &check) {
  llvm::outs() << "check @" << function << ": " << check.name
               << llvm::format(": max error %.2e, bound %.2e, relative Frobenius error %.2e: ", check.maxError,
                               check.bound, check.frobenius)
               << (check.passed() ? "PASS" : "FAIL") << "\n";
}

//===--------------------------------------------------------------------------------------------------------------===//
// Running
//===--------------------------------------------------------------------------------------------------------------===//

/// Prints what the functions computed, and fails if a check did.
static LogicalResult printRuns(ArrayRef<FunctionRun> runs, const DriverOptions &options) {
  bool passed = true;
  for (const FunctionRun &run : runs) {
    if (run.checks.empty() || options.printResults)
      for (const NamedOutput &output : run.outputs)
        printOutput(run.name, output, options.printResults);
    for (const OutputCheck &check : run.checks) {
      printCheck(run.name, check);
      passed &= check.passed();
    }
  }
  return success(passed);
}

LogicalResult flashc::runOnCPU(ModuleOp module, PipelineBuilder buildPipeline, const DriverOptions &options) {
  FailureOr<SmallVector<func::FuncOp>> functions = selectFunctions(module, options);
  if (failed(functions))
    return failure();
  PassManager pm(module.getContext());
  if (failed(applyPassManagerCLOptions(pm)) || failed(buildPipeline(pm)))
    return failure();
  FailureOr<ModuleChecker> checker =
      ModuleChecker::create(module, *functions, options.inputs, options.check || options.checkEachPass);
  if (failed(checker))
    return failure();
  if (options.checkEachPass)
    return runAndCheckEachPass(module, pm, *checker, llvm::outs());
  if (failed(pm.run(module)))
    return failure();
  FailureOr<std::vector<FunctionRun>> runs = checker->run(module);
  return failed(runs) ? failure() : printRuns(*runs, options);
}
