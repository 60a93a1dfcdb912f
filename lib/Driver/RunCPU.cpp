//===- RunCPU.cpp - --run=cpu, --check, --check-each-pass ---------------------------------------------------------===//

#include "Actions.h"
#include "flashc/Dialect/Flash/Transforms/IndexPasses.h"
#include "flashc/Execution/CheckEachPass.h"
#include "mlir/Pass/PassManager.h"
#include "llvm/Support/raw_ostream.h"

using namespace mlir;
using namespace flashc;

FailureOr<SmallVector<func::FuncOp>> flashc::selectFunctions(ModuleOp module) {
  SmallVector<func::FuncOp> functions;
  for (auto function : module.getOps<func::FuncOp>())
    if (!function.isExternal() && function.isPublic())
      functions.push_back(function);
  if (functions.empty())
    return module.emitError("expected a public function to run, got none");
  return functions;
}

LogicalResult flashc::runOnCPU(ModuleOp module, const CompileOptions &compileOptions, const DriverOptions &options) {
  FailureOr<SmallVector<func::FuncOp>> functions = selectFunctions(module);
  if (failed(functions))
    return failure();
  PassManager pm(module.getContext());
  if (failed(applyPassManagerCLOptions(pm)))
    return failure();
  if (!options.checkEachPass)
    pm.addNestedPass<func::FuncOp>(flash::createCheckData());
  if (failed(addAlgorithm(pm, compileOptions)))
    return failure();
  FailureOr<ModuleChecker> checker =
      ModuleChecker::create(module, *functions, options.inputs, options.check || options.checkEachPass);
  if (failed(checker))
    return failure();
  if (!options.checkEachPass && failed(pm.run(module)))
    return failure();
  auto runs = options.checkEachPass ? runAndCheckEachPass(module, pm, *checker, llvm::outs(), applyPassManagerCLOptions)
                                    : checker->run(module);
  if (failed(runs))
    return failure();
  bool isPrinted = !options.checkEachPass || options.check || options.printResults;
  return isPrinted ? printRuns(module, *runs, options) : success();
}
