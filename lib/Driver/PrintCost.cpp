//===- PrintCost.cpp - --print-cost -------------------------------------------------------------------------------===//

#include "Actions.h"
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
  double bytes = toDouble(cost.bytesRead + cost.bytesWritten);
  os << llvm::format(", FLOPs per byte %.2f\n", toDouble(cost.matmulFlops + cost.otherFlops) / std::max(bytes, 1.0));
}

LogicalResult flashc::printCost(ModuleOp module, const CompileOptions &compileOptions, const DriverOptions &options) {
  auto functions = selectFunctions(module);
  if (failed(functions))
    return failure();
  for (func::FuncOp function : *functions) {
    FailureOr<FunctionInputs> inputs = describeInputs(function, options.inputs);
    if (failed(inputs))
      return failure();
    SmallVector<SmallVector<int64_t, 4>> shapes;
    for (const ArgumentInfo &argument : inputs->arguments)
      shapes.push_back(argument.shape);
    FailureOr<Cost> cost = countAlgorithmCost(function, shapes, compileOptions);
    if (failed(cost))
      return failure();
    print(function.getName(), *inputs, *cost, options);
  }
  return success();
}
