//===- CPUManifest.cpp - the manifest of a program for the CPU ----------------------------------------------------===//

#include "flashc/Compiler/Compiler.h"
#include "flashc/Launch/LaunchInterface.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/Support/JSON.h"

using namespace mlir;
using namespace flashc;

/// The one function with a body.
static FailureOr<func::FuncOp> findFunction(ModuleOp module) {
  func::FuncOp found;
  for (auto function : module.getOps<func::FuncOp>()) {
    if (function.isExternal() || !function.isPublic())
      continue;
    if (found)
      return module.emitError("expected one public function, got @")
             << found.getName() << " and @" << function.getName() << ": name one";
    found = function;
  }
  if (!found)
    return module.emitError("expected an attention in the module, got none");
  return found;
}

FailureOr<CompiledKernel> flashc::compileForCPU(ModuleOp module, const PipelineOptions &pipeline) {
  FailureOr<func::FuncOp> function = findFunction(module);
  if (failed(function))
    return failure();
  LaunchInterface interface = describeLaunch(*function);
  llvm::json::Array arguments, requirements;
  for (const ManifestArgument &info : interface.arguments)
    arguments.push_back(llvm::json::Object{{"name", info.name},
                                           {"role", info.isOutput ? "output" : "input"},
                                           {"shape", llvm::json::Array(info.shape)},
                                           {"dtype", info.dtype}});
  for (const auto &[first, second] : interface.requirements)
    requirements.push_back(llvm::json::Array{first, second});
  llvm::json::Value manifest =
      llvm::json::Object{{"schema", Manifest::kSchema},       {"version", Manifest::kVersion},
                         {"kernel", function->getName()},     {"target", kCPUTarget},
                         {"arguments", std::move(arguments)}, {"requires", std::move(requirements)}};
  CompiledKernel kernel;
  llvm::raw_string_ostream(kernel.manifest) << llvm::formatv("{0:2}", manifest) << "\n";
  return kernel;
}
