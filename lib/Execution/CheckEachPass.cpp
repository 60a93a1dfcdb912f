//===- CheckEachPass.cpp - which pass changed the numbers? --------------------------------------------------------===//

#include "flashc/Execution/CheckEachPass.h"
#include "mlir/Pass/PassManager.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/raw_ostream.h"

using namespace mlir;
using namespace flashc;

namespace {

/// Copies one pass of a pipeline, so that it can run alone. Pass::clone is protected, since only pass managers copy
/// passes; `Access` makes it accessible.
std::unique_ptr<Pass> clonePass(const Pass &pass) {
  struct Access : Pass {
    static auto get() { return &Access::clone; }
  };
  return (pass.*Access::get())();
}

std::string formatError(double error) {
  std::string text;
  llvm::raw_string_ostream(text) << llvm::format("%.2e", error);
  return text;
}

/// Prints one line with a function's errors before and after a pass.
void printLine(llvm::raw_ostream &os, StringRef pass, StringRef function, ArrayRef<OutputCheck> before,
               ArrayRef<OutputCheck> after) {
  os << "after " << pass << ": @" << function << ":";
  bool passed = true;
  for (auto [old, now] : llvm::zip_equal(before, after)) {
    os << " " << now.name << " error " << formatError(old.maxError) << " -> " << formatError(now.maxError) << " (bound "
       << formatError(now.bound) << "),";
    passed &= now.passed();
  }
  os << (passed ? " PASS\n" : " FAIL\n");
  os.flush();
}

LogicalResult diagnose(ModuleOp module, StringRef pass, StringRef function, ArrayRef<OutputCheck> before,
                       ArrayRef<OutputCheck> after) {
  for (auto [old, now] : llvm::zip_equal(before, after))
    if (!now.passed())
      return SymbolTable::lookupSymbolIn(module, function)->emitError("pass '")
             << pass << "' changed the result of @" << function << ": the error of " << now.name << " was "
             << formatError(old.maxError) << " before and is " << formatError(now.maxError) << " after, over the bound "
             << formatError(now.bound);
  return success();
}

} // namespace

FailureOr<std::vector<FunctionRun>>
flashc::runAndCheckEachPass(ModuleOp module, OpPassManager &pipeline, ModuleChecker &checker, llvm::raw_ostream &os,
                            llvm::function_ref<LogicalResult(PassManager &)> configure) {
  if (pipeline.empty())
    return module.emitError("nothing to compare: expected passes to check, got none");
  auto before = checker.run(module);
  if (failed(before))
    return failure();
  for (Pass &pass : pipeline.getPasses()) {
    StringRef name = pass.getArgument().empty() ? pass.getName() : pass.getArgument();
    PassManager single(module.getContext());
    if (configure && failed(configure(single)))
      return failure();
    single.addPass(clonePass(pass));
    OperationFingerPrint oldText(module);
    if (failed(single.run(module)))
      return failure();
    // If the pass has changed nothing, the functions need not run again.
    auto after = OperationFingerPrint(module) == oldText ? before : checker.run(module);
    if (failed(after))
      return module.emitError("the CPU cannot run what pass '") << name << "' made";
    for (auto [old, now] : llvm::zip_equal(*before, *after)) {
      printLine(os, name, now.name, old.checks, now.checks);
      if (failed(diagnose(module, name, now.name, old.checks, now.checks)))
        return failure();
    }
    before = std::move(after);
  }
  return before;
}
