//===- CPUManifest.cpp - the manifest of a program for the CPU ----------------------------------------------------===//

#include "flashc/Compiler/BuildAttention.h"
#include "flashc/Compiler/Compiler.h"
#include "flashc/Launch/LaunchInterface.h"
#include "flashc/Schedule/Schedule.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

using namespace mlir;
using namespace flashc;

/// Returns the one public function with a body.
static FailureOr<func::FuncOp> findFunction(ModuleOp module) {
  func::FuncOp found;
  for (auto function : module.getOps<func::FuncOp>()) {
    if (function.isExternal() || !function.isPublic())
      continue;
    if (found)
      return module.emitError("expected one public function, got @")
             << found.getName() << " and @" << function.getName() << "; choose one by name";
    found = function;
  }
  if (!found)
    return module.emitError("expected an attention in the module, got none");
  return found;
}

FailureOr<CompiledKernel> flashc::compileForCPU(ModuleOp module, const PipelineOptions &pipeline) {
  if (llvm::Error error = checkOverrides(pipeline.schedule))
    return module.emitError("schedule: ") << llvm::toString(std::move(error));
  FailureOr<func::FuncOp> function = findFunction(module);
  if (failed(function))
    return failure();
  LaunchInterface interface = describeLaunch(*function);
  Manifest manifest;
  manifest.kernel = function->getName();
  manifest.target = kCPUTarget.str();
  manifest.arguments = std::move(interface.arguments);
  manifest.requirements = std::move(interface.requirements);
  if (function->getOperation()->hasAttr(kDoubleAttr))
    for (ManifestArgument &argument : manifest.arguments)
      argument.dtype = argument.dtype.front() == 'i' ? argument.dtype : "f64";
  CompiledKernel kernel;
  llvm::raw_string_ostream(kernel.manifest) << llvm::formatv("{0:2}", llvm::json::Value(manifest.toJSON())) << "\n";
  return kernel;
}
