//===- Report.cpp - prints what a run computed --------------------------------------------------------------------===//

#include "Actions.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/raw_ostream.h"

using namespace mlir;
using namespace flashc;

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

LogicalResult flashc::printRuns(ModuleOp module, ArrayRef<FunctionRun> runs, const DriverOptions &options) {
  bool passed = true;
  for (const FunctionRun &run : runs) {
    if (options.printResults && run.outputs.empty())
      return module.lookupSymbol(run.name)->emitError("nothing to print: expected @")
             << run.name << " to return something or to write to an argument";
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
