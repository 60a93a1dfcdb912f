//===- Check.cpp - are these the right numbers? -------------------------------------------------------------------===//

#include "flashc/Execution/Check.h"
#include "flashc/Execution/Reference.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

#include <cmath>

using namespace mlir;
using namespace flashc;

/// Returns |a - b|: 0 for equal infinities, and infinity if `a` or `b` is NaN or if the two are not the same infinity.
static double distance(double a, double b) {
  if (a == b)
    return 0;
  double difference = std::fabs(a - b);
  return std::isfinite(difference) ? difference : INFINITY;
}

static double maxDistance(ArrayRef<double> a, ArrayRef<double> b) {
  double largest = 0;
  for (auto [x, y] : llvm::zip_equal(a, b))
    largest = std::max(largest, distance(x, y));
  return largest;
}

OutputCheck flashc::compareOutput(StringRef name, DType dtype, ArrayRef<double> out, ArrayRef<double> naive,
                                  ArrayRef<double> ref) {
  double rounding = 0, largest = 1, errorSquared = 0, refSquared = 0;
  for (auto [x, y] : llvm::zip_equal(out, ref)) {
    if (!std::isfinite(y))
      continue;
    largest = std::max(largest, std::fabs(y));
    rounding = std::max(rounding, distance(roundTo(dtype, roundTo(dtype, y + 0.3) - 0.3), y));
    errorSquared += (x - y) * (x - y);
    refSquared += y * y;
  }
  OutputCheck check;
  check.name = name.str();
  check.maxError = maxDistance(out, ref);
  if (isFloat(dtype))
    check.bound = 2 * maxDistance(naive, ref) + 2 * rounding + (is16BitFloat(dtype) ? 0 : 1e-5 * largest);
  check.frobenius = refSquared > 0 ? std::sqrt(errorSquared / refSquared) : std::sqrt(errorSquared);
  // If Algorithm 0 overflows in this type, its error is infinite, so it gives no bound. Then only an output without any
  // error passes.
  if (!std::isfinite(check.bound))
    check.bound = 0;
  return check;
}

/// Runs a function on its seeded inputs, converted to f64 if `wide`, and returns all outputs.
static FailureOr<SmallVector<NamedOutput, 2>> runOnInputs(ModuleChecker::Runner runner, StringRef function,
                                                          const FunctionInputs &inputs, uint64_t seed, bool wide) {
  SmallVector<HostTensor> arguments = makeInputs(inputs, seed);
  if (wide)
    for (HostTensor &argument : arguments)
      if (isFloat(argument.getDType()))
        argument = argument.convert(DType::F64);
  FailureOr<SmallVector<HostTensor>> results = runner(function, inputs, arguments);
  if (failed(results))
    return failure();

  SmallVector<NamedOutput, 2> outputs;
  for (auto [info, argument] : llvm::zip(inputs.arguments, arguments))
    if (info.role != ArgumentRole::Input)
      outputs.push_back({info.name, argument});
  for (auto [name, result] : llvm::zip_equal(inputs.resultNames, *results))
    outputs.push_back({name, result});
  return outputs;
}

/// Emits a diagnostic for a function without outputs. The check of such a function would always succeed.
static LogicalResult checkOutputs(func::FuncOp function, const FunctionInputs &inputs) {
  if (inputs.hasOutputs())
    return success();
  return function.emitError("nothing to compare: expected @")
         << function.getName() << " to return something or to write to an argument";
}

static LogicalResult checkElements(func::FuncOp function, ArrayRef<NamedOutput> outputs) {
  auto hasElements = [](const NamedOutput &output) { return !llvm::is_contained(output.tensor.getShape(), 0); };
  if (llvm::any_of(outputs, hasElements))
    return success();
  return function.emitError("nothing to compare: expected an output of @") << function.getName() << " with elements";
}

/// Returns a Runner for the functions of `module`. `program` was compiled from `module`.
static auto makeCPURunner(CPUProgram &program, ModuleOp module) {
  return [&program, module](StringRef name, const FunctionInputs &,
                            MutableArrayRef<HostTensor> arguments) -> FailureOr<SmallVector<HostTensor>> {
    auto function = ModuleOp(module).lookupSymbol<func::FuncOp>(name);
    if (!function)
      return ModuleOp(module).emitError("expected the function @") << name << " to be there still";
    return program.run(function, arguments);
  };
}

FailureOr<ModuleChecker> ModuleChecker::create(ModuleOp module, ArrayRef<func::FuncOp> functions,
                                               const InputOptions &options, bool withReference) {
  ModuleChecker checker;
  checker.seed = options.seed;
  for (func::FuncOp function : functions) {
    FailureOr<FunctionInputs> inputs = describeInputs(function, options);
    if (failed(inputs) || (withReference && failed(checkOutputs(function, *inputs))))
      return failure();
    checker.plans.push_back({function.getName().str(), std::move(*inputs), {}, {}});
  }
  if (withReference && failed(checker.computeReference(module)))
    return failure();
  return checker;
}

LogicalResult ModuleChecker::computeReference(ModuleOp module) {
  FailureOr<OwningOpRef<ModuleOp>> wideModule = makeReference(module);
  if (failed(wideModule))
    return failure();
  // Algorithm 0 in the function's own types is the CPU lowering of the module before any pass.
  FailureOr<CPUProgram> wide = CPUProgram::compile(**wideModule), naive = CPUProgram::compile(module);
  if (failed(wide) || failed(naive))
    return failure();
  for (Plan &plan : plans) {
    auto wideOutputs = runOnInputs(makeCPURunner(*wide, **wideModule), plan.name, plan.inputs, seed, /*wide=*/true);
    auto naiveOutputs = runOnInputs(makeCPURunner(*naive, module), plan.name, plan.inputs, seed, /*wide=*/false);
    if (failed(wideOutputs) || failed(naiveOutputs) ||
        failed(checkElements(module.lookupSymbol<func::FuncOp>(plan.name), *naiveOutputs)))
      return failure();
    plan.reference = std::move(*wideOutputs);
    plan.naive = std::move(*naiveOutputs);
  }
  return success();
}

FailureOr<std::vector<FunctionRun>> ModuleChecker::run(ModuleOp module) {
  FailureOr<CPUProgram> program = CPUProgram::compile(module);
  if (failed(program))
    return failure();
  return run(makeCPURunner(*program, module));
}

FailureOr<std::vector<FunctionRun>> ModuleChecker::run(Runner runner) {
  std::vector<FunctionRun> runs;
  for (const Plan &plan : plans) {
    auto outputs = runOnInputs(runner, plan.name, plan.inputs, seed, /*wide=*/false);
    if (failed(outputs))
      return failure();
    FunctionRun &run = runs.emplace_back(FunctionRun{plan.name, std::move(*outputs), {}});
    if (plan.reference.empty())
      continue;
    for (auto [output, naive, reference] : llvm::zip_equal(run.outputs, plan.naive, plan.reference))
      run.checks.push_back(compareOutput(output.name, output.tensor.getDType(), output.tensor.toDoubles(),
                                         naive.tensor.toDoubles(), reference.tensor.toDoubles()));
  }
  return runs;
}
