//===- CPUManifest.cpp - the manifest of a program for the CPU ----------------------------------------------------===//

#include "flashc/Compiler/Compiler.h"
#include "flashc/Dialect/Flash/IR/Flash.h"
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

/// What each argument and result of the function is to its attention: q, k, v, o, lse, or arg<number>.
static SmallVector<std::string> getNames(func::FuncOp function) {
  SmallVector<std::string> names;
  for (unsigned number = 0; number < function.getNumArguments() + function.getNumResults(); ++number)
    names.push_back("arg" + std::to_string(number));
  auto setName = [&](Value value, StringRef name) {
    auto argument = dyn_cast<BlockArgument>(value);
    if (argument && argument.getOwner() == &function.getBody().front() && !llvm::is_contained(names, name))
      names[argument.getArgNumber()] = name.str();
  };
  function.walk([&](flash::AttentionOp op) {
    setName(op.getQ(), "q");
    setName(op.getK(), "k");
    setName(op.getV(), "v");
    if (!op.hasTensorSemantics()) {
      setName(op.getOuts()[0], "o");
      setName(op.getOuts()[1], "lse");
    }
  });
  auto terminator = cast<func::ReturnOp>(function.getBody().back().getTerminator());
  for (auto [index, value] : llvm::enumerate(terminator.getOperands()))
    if (auto op = value.getDefiningOp<flash::AttentionOp>())
      names[function.getNumArguments() + index] = value == op.getResult(0) ? "o" : "lse";
  return names;
}

FailureOr<CompiledKernel> flashc::compileForCPU(ModuleOp module, const PipelineOptions &pipeline) {
  FailureOr<func::FuncOp> function = findFunction(module);
  if (failed(function))
    return failure();
  llvm::json::Array arguments;
  SmallVector<Type> types(function->getArgumentTypes());
  llvm::append_range(types, function->getResultTypes());
  for (auto [index, name, type] : llvm::enumerate(getNames(*function), types)) {
    llvm::json::Array shape;
    if (auto shaped = dyn_cast<ShapedType>(type))
      for (int64_t extent : shaped.getShape())
        shape.push_back(ShapedType::isDynamic(extent) ? -1 : extent);
    std::string dtype;
    llvm::raw_string_ostream(dtype) << getElementTypeOrSelf(type);
    bool isOutput = index >= function->getNumArguments() || name == "o" || name == "lse";
    arguments.push_back(llvm::json::Object{
        {"name", name}, {"role", isOutput ? "output" : "input"}, {"shape", std::move(shape)}, {"dtype", dtype}});
  }
  llvm::json::Value manifest = llvm::json::Object{{"schema", "flashc.manifest"},
                                                  {"version", 1},
                                                  {"kernel", function->getName()},
                                                  {"target", kCPUTarget},
                                                  {"arguments", std::move(arguments)},
                                                  {"parameters", llvm::json::Array()},
                                                  {"grid", llvm::json::Array{"1", "1", "1"}},
                                                  {"block", llvm::json::Array{1, 1, 1}},
                                                  {"cluster", llvm::json::Array{1, 1, 1}},
                                                  {"dynamic_shared_memory", 0}};
  CompiledKernel kernel;
  llvm::raw_string_ostream(kernel.manifest) << llvm::formatv("{0:2}", manifest) << "\n";
  return kernel;
}
