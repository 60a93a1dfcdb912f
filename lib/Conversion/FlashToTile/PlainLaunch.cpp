//===- PlainLaunch.cpp - launches of ops without scores -----------------------------------------------------------===//

#include "PlainLaunch.h"
#include "flashc/Conversion/ScheduleChoice.h"
#include "flashc/Dialect/Flash/IR/Arguments.h"
#include "flashc/Launch/Launch.h"
#include "flashc/LaunchKernels/LaunchNest.h"
#include "flashc/Target/GPUTarget.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"

using namespace mlir;
using namespace flashc;

flash::PlainOpInterface flashc::findPlainOp(ModuleOp module) {
  flash::PlainOpInterface found;
  module.walk([&](Operation *op) {
    if (isa<flash::ScoresOpInterface>(op)) {
      found = {};
      return WalkResult::interrupt();
    }
    if (auto plain = dyn_cast<flash::PlainOpInterface>(op); plain && !found)
      found = plain;
    return WalkResult::advance();
  });
  return found;
}

/// Checks that the function applies `op` to its arguments, and does nothing else.
static LogicalResult checkFunction(ModuleOp module, func::FuncOp function, flash::PlainOpInterface op) {
  for (auto other : module.getOps<func::FuncOp>())
    if (other != function && !other.isExternal())
      return other.emitError() << "expected one function, got @" << function.getName() << " and @" << other.getName();
  for (Operation &other : function.getBody().front())
    if (&other != op && !isa<func::ReturnOp, tensor::CastOp, memref::CastOp>(other) && !isMemoryEffectFree(&other))
      return other.emitError() << "expected a function that computes one " << op->getName()
                               << " only, got another side effect";
  for (OpOperand &operand : op->getOpOperands())
    if (!flash::getRootArgument(operand.get()))
      return op->emitOpError() << "expected operands that are arguments of the function, got another as number "
                               << operand.getOperandNumber();
  return success();
}

/// Emits the only kernel of the launch. To find it, passes a nest that has no loops and ends with `op` to the match
/// functions of the launch kernels.
static FailureOr<ManifestKernel> emitKernel(func::FuncOp host, gpu::GPUModuleOp module, const LaunchRoles &roles,
                                            flash::PlainOpInterface op) {
  LaunchNest nest;
  nest.func = host, nest.end = op;
  for (auto [result, role] : llvm::enumerate(ArrayRef(roles.roles).drop_front(op.getInputs().size())))
    for (unsigned argument : role.arguments)
      nest.outputs.push_back({unsigned(result), argument, {}});
  matchKernels(nest);
  return nest.kernels.front()->emit(nest, {host, module, /*tables=*/TileTables()});
}

/// Checks that all results of the function are outputs of the op.
static LogicalResult checkResults(func::FuncOp function, const LaunchRoles &roles) {
  size_t returned = 0;
  for (const LaunchRole &role : roles.roles)
    returned += llvm::count_if(role.arguments, [&](unsigned number) { return number >= function.getNumArguments(); });
  if (returned == function.getNumResults())
    return success();
  return function.emitError() << "expected every function result to be an output of the op";
}

LogicalResult flashc::convertPlainFunction(ModuleOp module, flash::PlainOpInterface op, StringRef target) {
  auto function = op->getParentOfType<func::FuncOp>();
  if (!GPUTarget::lookup(target))
    return op->emitError() << "expected the target to be one of " << GPUTarget::getNames() << ", got '" << target
                           << "'";
  if (!function || op->getParentOp() != function)
    return op->emitOpError() << "expected to stand in a function itself";
  if (failed(checkFunction(module, function, op)))
    return failure();
  LaunchRoles roles = getLaunchRoles(function, op);
  if (failed(checkResults(function, roles)))
    return failure();
  OpBuilder b = OpBuilder::atBlockEnd(module.getBody());
  auto gpuModule = gpu::GPUModuleOp::create(b, function.getLoc(), "flashc_kernels",
                                            GPUTarget::lookup(target)->getAttr(module.getContext()));
  FailureOr<ManifestKernel> kernel = emitKernel(function, gpuModule, roles, op);
  if (failed(kernel)) {
    gpuModule.erase();
    return failure();
  }
  LaunchInterface interface = describeLaunch(function, roles);
  Launch launch;
  static_cast<ManifestKernel &>(launch) = std::move(*kernel);
  launch.target = target.str();
  launch.arguments = std::move(interface.arguments);
  launch.requirements = std::move(interface.requirements);
  launch.set(gpuModule.lookupSymbol(launch.kernel));
  function.erase();
  return success();
}
