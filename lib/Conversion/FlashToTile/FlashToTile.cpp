//===- FlashToTile.cpp - convert-flash-to-tile --------------------------------------------------------------------===//
//
// A function of level L1 becomes a launch: a main kernel for each of its nests of loops (LoopNest.h), whose body a
// frame emits (KernelFrame.h), and the launch kernels of the nests, before and after the main kernels
// (LaunchKernels/LaunchKernel.h).
//
//===--------------------------------------------------------------------------------------------------------------===//

#include "NestKernel.h"
#include "PlainLaunch.h"
#include "Steps/TileStep.h"
#include "flashc/Conversion/Passes.h"
#include "flashc/Dialect/Tile/IR/SharedLayout.h"
#include "flashc/Launch/Launch.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

namespace flashc {
#define GEN_PASS_DEF_CONVERTFLASHTOTILE
#include "flashc/Conversion/Passes.h.inc"
} // namespace flashc

using namespace mlir;
using namespace flashc;

//===--------------------------------------------------------------------------------------------------------------===//
// Main kernels
//===--------------------------------------------------------------------------------------------------------------===//

/// Describes how the kernel of a nest is launched.
static ManifestKernel describeKernel(NestKernel &kernel, KernelSignature &signature) {
  ManifestKernel info;
  info.kernel = kernel.func.getName();
  info.parameters = signature.getParameters();
  info.dynamicSharedMemory = tile::KernelLayout(kernel.func).bytes;
  makeUnit(kernel.schedule)->describe(kernel, info);
  return info;
}

/// Chooses the name of a nest's kernel: the function's name for the first kernel of the module.
static std::string chooseName(LoopNest &nest, gpu::GPUModuleOp gpuModule) {
  std::string name = nest.func.getName().str();
  if (!gpuModule.lookupSymbol(name))
    return name;
  std::string ofResult = (name + "_" + nest.results.front().info.name).str();
  name = ofResult;
  for (int64_t number = 1; gpuModule.lookupSymbol(name); ++number) // reads of one captured tensor share a name
    name = ofResult + std::to_string(number);
  return name;
}

/// Emits the body of a nest's kernel.
static LogicalResult emitNest(NestKernel &kernel, gpu::GPUModuleOp gpuModule, const TileTables &tables) {
  auto [nest, schedule, func] = std::tie(kernel.nest, kernel.schedule, kernel.func);
  OpBuilder b = OpBuilder::atBlockEnd(gpuModule.getBody());
  func = gpu::GPUFuncOp::create(b, nest.func.getLoc(), chooseName(nest, gpuModule), b.getFunctionType({}, {}));
  func->setAttr(gpu::GPUDialect::getKernelFuncAttrName(), b.getUnitAttr());
  KernelSignature signature(nest.func, func, tables);
  KernelFrame frame(nest, schedule, /*isSorted=*/!kernel.whySorted.empty(), func, signature);
  if (failed(frame.build(*getTileStep(nest).makeTileStep(frame))))
    return failure();
  signature.finish();
  kernel.info = describeKernel(kernel, signature);
  return success();
}

//===--------------------------------------------------------------------------------------------------------------===//
// The launch
//===--------------------------------------------------------------------------------------------------------------===//

/// Collects the tables that kernels of the launch pass to each other.
static FailureOr<TileTables> getTables(ArrayRef<NestKernel> kernels) {
  FailureOr<TileTables> tables = TileTables::get(kernels.front().nest.func);
  if (failed(tables))
    return failure();
  for (const NestKernel &main : kernels)
    for (const std::unique_ptr<LaunchKernel> &kernel : main.nest.kernels)
      if (failed(kernel->addTables(main.nest, *tables)))
        return failure();
  return tables;
}

/// Emits the launch kernels: first those that run before all main kernels, then those that run after them; each of
/// these groups is in the order of the nests.
static LogicalResult emitLaunchKernels(ArrayRef<NestKernel> kernels, const LaunchContext &context, Launch &launch) {
  using Time = LaunchKernel::Time;
  llvm::SmallPtrSet<Operation *, 4> emitted;
  for (Time time : {Time::Before, Time::After, Time::Last})
    for (const NestKernel &main : kernels)
      for (const std::unique_ptr<LaunchKernel> &kernel : main.nest.kernels) {
        if (kernel->getTime() != time || (kernel->getOp() && !emitted.insert(kernel->getOp()).second))
          continue;
        FailureOr<ManifestKernel> info = kernel->emit(main.nest, context);
        if (failed(info))
          return failure();
        (time == Time::Before ? launch.before : launch.after).push_back(std::move(*info));
      }
  return success();
}

/// Describes the launch of all kernels. The kernel of the first nest is the main one; the kernels of the other nests
/// run after it.
static LogicalResult emitLaunch(ArrayRef<NestKernel> kernels, gpu::GPUModuleOp gpuModule, const TileTables &tables) {
  const NestKernel &main = kernels.front();
  func::FuncOp host = main.nest.func;
  SmallVector<LaunchRoles> roles;
  SmallVector<const LaunchNest *> nests;
  for (const NestKernel &kernel : kernels)
    roles.push_back(getRoles(kernel.nest)), nests.push_back(&kernel.nest);
  LaunchInterface interface = describeLaunch(host, roles);
  Launch launch;
  static_cast<ManifestKernel &>(launch) = main.info;
  launch.target = GPUTarget::of(main.func).name;
  launch.arguments = std::move(interface.arguments);
  launch.requirements = std::move(interface.requirements);
  launch.schedule = main.schedule.str();
  launch.sorted = main.whySorted;
  if (!main.whySorted.empty())
    launch.workTiles = main.extents;
  launch.mayOverlap = main.mayOverlap;
  launch.workspace = tables.getWorkspaceBytes();
  launch.maskMap = tables.getMaskMapBytes();
  for (const NestKernel &kernel : kernels.drop_front())
    launch.after.push_back(kernel.info);
  if (failed(emitLaunchKernels(kernels, {host, gpuModule, tables, nests}, launch)))
    return failure();
  launch.set(main.func);
  return success();
}

/// Makes a gpu.module next to the host function, and then erases the function; on failure erases the gpu.module
/// instead.
static LogicalResult convert(ModuleOp module, MutableArrayRef<LoopNest> nests, StringRef target, StringRef overrides) {
  func::FuncOp host = nests.front().func;
  for (LoopNest &nest : nests)
    if (!isa<TileStepOpInterface>(nest.getStep().getOperation()))
      return nest.getStep()->emitError("expected a step with code for tiles (TileStepOpInterface)");
  FailureOr<std::vector<NestKernel>> kernels = scheduleNests(nests, target, overrides);
  FailureOr<TileTables> tables = succeeded(kernels) ? getTables(*kernels) : FailureOr<TileTables>();
  if (failed(tables))
    return failure();
  if (failed(decideWorkLists(*kernels, target, !tables->empty())))
    return failure();
  OpBuilder b = OpBuilder::atBlockEnd(module.getBody());
  auto gpuModule = gpu::GPUModuleOp::create(b, host.getLoc(), "flashc_kernels",
                                            GPUTarget::lookup(target)->getAttr(module.getContext()));
  bool isEmitted =
      llvm::all_of(*kernels, [&](NestKernel &kernel) { return succeeded(emitNest(kernel, gpuModule, *tables)); });
  if (!isEmitted || failed(emitLaunch(*kernels, gpuModule, *tables))) {
    gpuModule.erase();
    return failure();
  }
  host.erase();
  return success();
}

namespace {
struct ConvertFlashToTile : flashc::impl::ConvertFlashToTileBase<ConvertFlashToTile> {
  using ConvertFlashToTileBase::ConvertFlashToTileBase;

  void runOnOperation() override {
    ModuleOp module = getOperation();
    if (flash::PlainOpInterface plain = findPlainOp(module)) {
      if (failed(convertPlainFunction(module, plain, target)))
        signalPassFailure();
      return;
    }
    FailureOr<SmallVector<LoopNest, 1>> nests = matchLoopNests(module);
    if (failed(nests) || failed(convert(module, *nests, target, overrides)))
      signalPassFailure();
  }
};
} // namespace
