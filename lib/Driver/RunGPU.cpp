//===- RunGPU.cpp - --run=gpu -------------------------------------------------------------------------------------===//

#include "Actions.h"
#include "flashc/Compiler/LoweredKernel.h"
#include "flashc/Dialect/Flash/IR/Flash.h"
#include "flashc/Execution/GPURun.h"
#include "flashc/Target/PTX.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/raw_ostream.h"

using namespace mlir;
using namespace flashc;

/// Prints an error that is not about the user's program, as one line without a location.
static LogicalResult complain(llvm::Error error) {
  llvm::errs() << "flashc: error: " << llvm::toString(std::move(error)) << "\n";
  return failure();
}

/// Returns the StepDim of each dimension of the output `name` of the ops in `function`. Empty if there is no such
/// output.
static SmallVector<flash::StepDim, 4> findDims(func::FuncOp function, StringRef name) {
  SmallVector<flash::StepDim, 4> dims;
  auto find = [&](auto op) {
    for (const flash::StepOperand &output : op.getOutputs())
      if (output.name == name)
        dims = output.dims;
  };
  function.walk([&](flash::WholeOpInterface op) { find(op); });
  function.walk([&](flash::PlainOpInterface op) { find(op); });
  return dims;
}

/// Makes an array for a result that the function returns. The array is filled with NaNs until the kernel writes it.
static FailureOr<HostTensor> makeResult(func::FuncOp function, const ManifestArgument &info,
                                        const FunctionInputs &inputs) {
  SmallVector<int64_t> shape(info.shape.begin(), info.shape.end());
  SmallVector<flash::StepDim, 4> dims = findDims(function, info.name);
  for (auto [dim, extent] : llvm::enumerate(shape)) {
    if (extent >= 0)
      continue;
    if (dims.size() != shape.size())
      return complain(llvm::createStringError("expected result " + info.name + " to be an output of attention"));
    extent = inputs.dims.at(getDimName(dims[dim]).str());
  }
  for (DType dtype : {DType::BF16, DType::F16, DType::F32, DType::F64})
    if (getName(dtype) == info.dtype)
      return HostTensor(dtype, shape);
  return complain(
      llvm::createStringError("expected result " + info.name + " to be of a float type, got " + info.dtype));
}

LogicalResult flashc::runOnGPU(ModuleOp module, const CompileOptions &compileOptions, const DriverOptions &options) {
  llvm::Expected<const cuda::Driver *> driver = cuda::Driver::load();
  if (!driver)
    return complain(driver.takeError());
  FailureOr<SmallVector<func::FuncOp>> functions = selectFunctions(module);
  if (failed(functions))
    return failure();
  if (functions->size() != 1)
    return module.emitError("expected one function to run on the GPU, got ")
           << functions->size() << "; choose one with --function";
  FailureOr<LoweredKernel> kernel = lowerToKernel(module, compileOptions, KernelLevel::Expanded);
  FailureOr<std::string> text = failed(kernel) ? FailureOr<std::string>() : exportManifest(*kernel->module);
  if (failed(text))
    return failure();
  llvm::Expected<Manifest> manifest = Manifest::parse(*text);
  if (!manifest)
    return complain(manifest.takeError());
  FailureOr<ModuleChecker> checker = ModuleChecker::create(module, *functions, options.inputs, options.check);
  if (failed(checker))
    return failure();

  auto compile = [&](size_t number) -> llvm::Expected<std::string> {
    FailureOr<std::string> ptx = compileEntry(*kernel, number, compileOptions);
    return failed(ptx) ? llvm::createStringError("the kernel has no code") : llvm::Expected<std::string>(*ptx);
  };
  auto launch = [&](StringRef function, const FunctionInputs &inputs,
                    MutableArrayRef<HostTensor> arguments) -> FailureOr<SmallVector<HostTensor>> {
    // A copy of a HostTensor shares the buffer of the original, so the kernel writes to the original.
    SmallVector<HostTensor> all(arguments.begin(), arguments.end());
    for (const ManifestArgument &info : llvm::drop_begin(manifest->arguments, arguments.size())) {
      FailureOr<HostTensor> result = makeResult(functions->front(), info, inputs);
      if (failed(result))
        return failure();
      all.push_back(*result);
    }
    llvm::Expected<GPURun> run = flashc::runOnGPU(**driver, compile, *manifest, all);
    if (!run)
      return complain(run.takeError());
    llvm::outs() << "run @" << function << ": " << run->device << llvm::format(": %.3f ms\n", run->milliseconds);
    return SmallVector<HostTensor>(llvm::drop_begin(all, arguments.size()));
  };
  FailureOr<std::vector<FunctionRun>> runs = checker->run(launch);
  return failed(runs) ? failure() : printRuns(module, *runs, options);
}
