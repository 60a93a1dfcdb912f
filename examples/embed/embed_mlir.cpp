//===- embed_mlir.cpp - flashc in a program with an MLIR of its own -----------------------------------------------===//
//
// The program owns the context, the module and the pass manager. flashc provides its dialect, passes and compiler.
//
//===--------------------------------------------------------------------------------------------------------------===//

#include "flashc/Compiler/Compiler.h"
#include "flashc/InitAll.h"
#include "flashc/Pipelines/Pipelines.h"
#include "flashc/Runtime/Manifest.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/Parser/Parser.h"
#include "mlir/Pass/PassManager.h"
#include "llvm/Support/raw_ostream.h"

#include <map>

// Each query sees the keys up to 128 positions ahead. A compiler would build these ops instead of parsing them.
static constexpr const char *kModule = R"mlir(
  func.func @look_ahead(%q: tensor<?x8x?x64xf16>, %k: tensor<?x8x?x64xf16>, %v: tensor<?x8x?x64xf16>)
      -> (tensor<?x8x?x64xf16>, tensor<?x8x?xf32>) {
    %reach = arith.constant 128 : index
    %o, %lse = flash.attention
        ins(%q, %k, %v : tensor<?x8x?x64xf16>, tensor<?x8x?x64xf16>, tensor<?x8x?x64xf16>) {scale = 0.125 : f32}
        mask (%b: index, %h: index, %i: index, %j: index) {
          %last = arith.addi %i, %reach : index
          %keep = arith.cmpi sle, %j, %last : index
          flash.yield %keep : i1
        } -> tensor<?x8x?x64xf16>, tensor<?x8x?xf32>
    return %o, %lse : tensor<?x8x?x64xf16>, tensor<?x8x?xf32>
  }
)mlir";

/// Runs flashc's passes in the program's own pass manager, and counts the ops of the loops.
static mlir::LogicalResult printLoops(mlir::ModuleOp module) {
  mlir::OwningOpRef<mlir::ModuleOp> loops = module.clone();
  mlir::PassManager pm(module.getContext());
  flashc::PipelineOptions options;
  options.algorithm = "fa2";
  flashc::buildAlgorithmPipeline(pm, options);
  if (failed(pm.run(*loops)))
    return mlir::failure();
  std::map<std::string, int> counts;
  loops->walk([&](mlir::Operation *op) { ++counts[op->getName().getStringRef().str()]; });
  for (const char *name : {"scf.forall", "scf.for", "flash.online_attention", "flash.finalize"})
    llvm::outs() << "loops: " << counts[name] << " " << name << "\n";
  return mlir::success();
}

/// Compiles the module without changing it, and prints the name and the size of the kernel.
static mlir::LogicalResult printKernel(mlir::ModuleOp module, const flashc::CompileOptions &options) {
  mlir::FailureOr<flashc::CompiledKernel> kernel = flashc::compile(module, options);
  if (failed(kernel))
    return mlir::failure();
  llvm::Expected<flashc::Manifest> manifest = flashc::Manifest::parse(kernel->manifest);
  if (!manifest)
    return module.emitError() << llvm::toString(manifest.takeError());
  llvm::outs() << "kernel: " << manifest->kernel << " for " << manifest->target << ", " << kernel->ptx.size()
               << " bytes of PTX\n";
  return mlir::success();
}

int main() {
  mlir::DialectRegistry registry;
  flashc::registerAllDialects(registry);
  mlir::MLIRContext context(registry);
  // flashc reports errors as MLIR diagnostics, so they go to the handler of the context.
  mlir::ScopedDiagnosticHandler handler(&context, [](mlir::Diagnostic &diagnostic) {
    llvm::outs() << "my handler: " << diagnostic.str() << "\n";
    return mlir::success();
  });

  mlir::OwningOpRef<mlir::ModuleOp> module = mlir::parseSourceString<mlir::ModuleOp>(kModule, &context);
  if (!module || failed(printLoops(*module)) || failed(printKernel(*module, {})))
    return 1;
  flashc::CompileOptions wrong;
  wrong.pipeline.schedule = "kv-tile=many";
  bool isRefused = failed(printKernel(*module, wrong));
  return isRefused ? 0 : 1;
}
