//===- Explain.cpp - --explain ------------------------------------------------------------------------------------===//

#include "flashc/Compiler/Explain.h"
#include "Actions.h"
#include "llvm/Support/raw_ostream.h"

#include <cstring>

using namespace mlir;
using namespace flashc;

/// Makes argument `number` as for a launch, and stores its elements in `tensor`. q, k, v and outputs get no elements,
/// since no mask reads them.
static LaunchArgument makeArgument(const FunctionInputs &inputs, size_t number, uint64_t seed, HostTensor &tensor) {
  const ArgumentInfo &info = inputs.arguments[number];
  LaunchArgument argument;
  argument.shape.assign(info.shape.begin(), info.shape.end());
  if (info.role == ArgumentRole::Output || llvm::is_contained({"q", "k", "v"}, info.name)) {
    argument.strides.assign(info.shape.size(), 0);
    return argument;
  }
  tensor = makeInput(inputs, number, seed);
  argument.strides.assign(tensor.getStrides().begin(), tensor.getStrides().end());
  unsigned bytes = getByteSize(tensor.getDType());
  const char *first = static_cast<const char *>(tensor.getBuffer()) + tensor.getOffset() * bytes;
  if (info.isScalar)
    std::memcpy(&argument.scalar, first, bytes);
  else
    argument.address = reinterpret_cast<uintptr_t>(first);
  return argument;
}

LogicalResult flashc::printExplanations(ModuleOp module, const CompileOptions &compileOptions,
                                        const DriverOptions &options) {
  auto functions = selectFunctions(module);
  if (failed(functions))
    return failure();
  for (func::FuncOp function : *functions) {
    FailureOr<FunctionInputs> inputs = describeInputs(function, options.inputs);
    if (failed(inputs))
      return failure();
    SmallVector<HostTensor> tensors(inputs->arguments.size());
    SmallVector<LaunchArgument> arguments;
    for (auto [number, tensor] : llvm::enumerate(tensors))
      arguments.push_back(makeArgument(*inputs, number, options.inputs.seed, tensor));
    FailureOr<Explanation> explanation = explain(function, arguments, compileOptions);
    if (failed(explanation))
      return failure();
    llvm::outs() << explanation->str();
  }
  return success();
}
