//===- HostKernel.cpp - a program on the memory of this process ---------------------------------------------------===//

#include "flashc/Execution/HostKernel.h"
#include "flashc/Compiler/BuildAttention.h"
#include "flashc/Dialect/Flash/Transforms/IndexPasses.h"
#include "flashc/Execution/Reference.h"
#include "mlir/Pass/PassManager.h"

#include <algorithm>
#include <cstring>

using namespace mlir;
using namespace flashc;

/// Lowers the module to the loops of the algorithm, or to Algorithm 0 in f64 if the function has the attribute
/// kDoubleAttr.
static LogicalResult lower(OwningOpRef<ModuleOp> &module, const PipelineOptions &pipeline, StringRef function) {
  CompileOptions options;
  options.pipeline = pipeline;
  auto check = [](OpPassManager &pm) { return pm.addNestedPass<func::FuncOp>(flash::createCheckData()), success(); };
  if (failed(runPasses(*module, check, "check", options)))
    return failure();
  if (module->lookupSymbol(function)->hasAttr(kDoubleAttr)) {
    FailureOr<OwningOpRef<ModuleOp>> reference = makeReference(*module);
    if (succeeded(reference))
      module = std::move(*reference);
    return reference;
  }
  auto algorithm = [&](OpPassManager &pm) { return addAlgorithm(pm, options); };
  return runPasses(*module, algorithm, "algorithm", options);
}

llvm::Expected<std::unique_ptr<const HostKernel>> HostKernel::load(const DialectRegistry &registry,
                                                                   const CachedKernel &kernel) {
  llvm::Expected<Manifest> manifest = Manifest::parse(kernel.description.manifest);
  if (!manifest)
    return manifest.takeError();
  std::unique_ptr<HostKernel> result(new HostKernel(registry, kernel.author, std::move(*manifest)));
  Session &session = result->session;
  FailureOr<OwningOpRef<ModuleOp>> module = session.parse(kernel.source);
  if (failed(module))
    return session.takeError();
  if (failed(lower(*module, kernel.pipeline, result->manifest.kernel)))
    return session.takeError();
  FailureOr<CPUProgram> program = CPUProgram::compile(**module);
  if (failed(program))
    return session.takeError();
  result->program = std::move(*program);
  result->module = std::move(*module);
  result->function = result->module->lookupSymbol<func::FuncOp>(result->manifest.kernel);
  return result;
}

static HostTensor view(DType dtype, const LaunchArgument &argument) {
  return HostTensor::view(dtype, argument.shape, argument.strides, reinterpret_cast<void *>(argument.address));
}

/// Whether the function can use an argument in place. A tensor may have any strides, but a memref type may fix some
/// strides.
static bool hasStrides(Type type, const LaunchArgument &argument) {
  auto memref = dyn_cast<MemRefType>(type);
  if (!memref)
    return true;
  auto [strides, offset] = memref.getStridesAndOffset();
  return llvm::all_of(llvm::zip(strides, argument.strides, argument.shape), [](auto dim) {
    auto [stride, given, extent] = dim;
    return ShapedType::isDynamic(stride) || stride == given || extent == 1;
  });
}

/// Allocates a memref argument. Strides are those that `type` fixes; dynamic strides are those of a contiguous array.
static HostTensor makeTensor(MemRefType type, DType dtype, ArrayRef<int64_t> shape) {
  HostTensor contiguous(dtype, shape);
  auto [strides, offset] = type.getStridesAndOffset();
  for (auto [stride, fallback] : llvm::zip(strides, contiguous.getStrides()))
    if (ShapedType::isDynamic(stride))
      stride = fallback;
  return HostTensor(dtype, shape, strides, ShapedType::isDynamic(offset) ? 0 : offset);
}

/// Returns the tensor for an argument of the function. This is a view if the strides allow it, so that elements that
/// the call does not read take no time.
static HostTensor readArgument(Type type, const LaunchArgument &argument) {
  DType dtype = *flashc::getDType(getElementTypeOrSelf(type));
  if (!isa<ShapedType>(type)) {
    HostTensor scalar(dtype, {});
    std::memcpy(scalar.getBuffer(), &argument.scalar, getByteSize(dtype));
    return scalar;
  }
  if (hasStrides(type, argument))
    return view(dtype, argument);
  HostTensor copy = makeTensor(cast<MemRefType>(type), dtype, argument.shape);
  copy.copyFrom(view(dtype, argument));
  return copy;
}

/// Checks that no product of extents exceeds 64 bits, even if one of the extents is 0.
static llvm::Error checkExtents(const Manifest &manifest, ArrayRef<LaunchArgument> arguments) {
  static constexpr int64_t kMaxElements = int64_t(1) << 44;
  for (auto [info, argument] : llvm::zip(manifest.arguments, arguments)) {
    int64_t room = kMaxElements;
    for (int64_t extent : argument.shape)
      room /= std::max<int64_t>(extent, 1);
    if (room == 0)
      return llvm::createStringError(info.name + ": expected at most 2^44 elements");
  }
  return llvm::Error::success();
}

llvm::Error HostKernel::run(ArrayRef<LaunchArgument> arguments) const {
  if (llvm::Error error = checkArguments(manifest, arguments))
    return blameArguments(std::move(error));
  if (llvm::Error error = checkAddresses(manifest, arguments))
    return blameArguments(std::move(error));
  if (llvm::Error error = checkExtents(manifest, arguments))
    return blameArguments(std::move(error));
  // Locks the session, so that it collects only the diagnostics of this call. Reading a type's strides also needs the
  // lock, because it creates attributes.
  std::lock_guard<std::mutex> lock(mutex);
  func::FuncOp entry = function;
  unsigned numInputs = entry.getNumArguments();
  SmallVector<HostTensor> tensors;
  for (auto [type, argument] : llvm::zip(entry.getArgumentTypes(), arguments))
    tensors.push_back(readArgument(type, argument));
  FailureOr<SmallVector<HostTensor>> results = program->run(entry, tensors);
  if (failed(results))
    return session.takeError();
  for (auto [info, argument, tensor] : llvm::zip(manifest.arguments, arguments, tensors))
    if (info.isOutput && tensor.getBuffer() != reinterpret_cast<void *>(argument.address))
      view(tensor.getDType(), argument).copyFrom(tensor);
  for (auto [argument, result] : llvm::zip(arguments.drop_front(numInputs), *results))
    view(result.getDType(), argument).copyFrom(result);
  return llvm::Error::success();
}
