//===- PrintCost.cpp - --print-cost -------------------------------------------------------------------------------===//

#include "PrintCost.h"
#include "flashc/Analysis/Cost.h"
#include "flashc/Dialect/Flash/Transforms/Passes.h"
#include "mlir/Pass/PassManager.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/raw_ostream.h"

using namespace mlir;
using namespace flashc;

static void print(StringRef name, const FunctionInputs &inputs, const Cost &cost, const DriverOptions &options) {
  llvm::raw_ostream &os = llvm::outs();
  os << "cost @" << name << " by " << (options.passes.empty() ? options.pipeline.algorithm : options.passes) << " (";
  for (StringRef dim : {"B", "Hq", "Nq", "Nk"})
    os << dim << " = " << inputs.dims.at(dim.str()) << (dim == "Nk" ? "): " : ", ");
  cost.print(os);
  double bytes = double(cost.bytesRead) + double(cost.bytesWritten);
  os << llvm::format(", FLOPs per byte %.2f\n", double(cost.matmulFlops + cost.otherFlops) / std::max(bytes, 1.0));
}

LogicalResult flashc::printCost(ModuleOp module, PipelineBuilder buildPipeline, const DriverOptions &options) {
  auto functions = selectFunctions(module, options);
  if (failed(functions))
    return failure();
  OwningOpRef<ModuleOp> loops = module.clone();
  PassManager algorithm(module.getContext());
  if (failed(applyPassManagerCLOptions(algorithm)) || failed(buildPipeline(algorithm)) ||
      failed(algorithm.run(*loops)))
    return failure();
  // Traffic is that of the loops as they are; arithmetic is visible only when the flash ops are decomposed.
  OwningOpRef<ModuleOp> decomposed = loops->clone();
  PassManager decompose(module.getContext());
  decompose.addPass(flash::createDecompose());
  if (failed(decompose.run(*decomposed)))
    return failure();

  for (func::FuncOp function : *functions) {
    FailureOr<FunctionInputs> inputs = describeInputs(function, options.inputs);
    if (failed(inputs))
      return failure();
    SmallVector<SmallVector<int64_t, 4>> shapes;
    for (const ArgumentInfo &argument : inputs->arguments)
      shapes.push_back(argument.shape);
    auto traffic = countCost(loops->lookupSymbol<func::FuncOp>(function.getName()), shapes);
    if (failed(traffic))
      return failure();
    auto arithmetic = countCost(decomposed->lookupSymbol<func::FuncOp>(function.getName()), shapes);
    if (failed(arithmetic))
      return failure();
    print(function.getName(), *inputs,
          {arithmetic->matmulFlops, arithmetic->otherFlops, traffic->bytesRead, traffic->bytesWritten}, options);
  }
  return success();
}
