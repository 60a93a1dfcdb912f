//===- FlashToTile.cpp - convert-flash-to-tile --------------------------------------------------------------------===//

#include "KernelFrame.h"
#include "Steps/TileStep.h"
#include "WorkOrder.h"
#include "flashc/Conversion/HostToKernel/TableKernel.h"
#include "flashc/Conversion/Passes.h"
#include "flashc/Conversion/ScheduleChoice.h"
#include "flashc/Dialect/Tile/IR/SharedLayout.h"
#include "flashc/Launch/Launch.h"
#include "flashc/Launch/LaunchInterface.h"
#include "flashc/Schedule/Rules.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/Dialect/Utils/StaticValueUtils.h"

namespace flashc {
#define GEN_PASS_DEF_CONVERTFLASHTOTILE
#include "flashc/Conversion/Passes.h.inc"
} // namespace flashc

using namespace mlir;
using namespace flashc;

/// The schedule that the function carries; without one, the table's.
static FailureOr<Schedule> getSchedule(const LoopNest &nest, StringRef target, StringRef overrides) {
  flash::StepOpInterface op = nest.getStep();
  StepShape shape = getStepShape(nest);
  Attribute carried = func::FuncOp(nest.func)->getAttr(kScheduleAttrName);
  if (!carried)
    return resolveSchedule(op, target, shape.depth, shape.valueDepth, nest.elementType, shape.outputs, overrides);
  if (!isa<DictionaryAttr>(carried))
    return op.emitError() << "expected '" << kScheduleAttrName << "' to be a dictionary, got " << carried;
  llvm::Expected<Schedule> schedule = Schedule::get(cast<DictionaryAttr>(carried));
  if (!schedule)
    return op.emitError() << "schedule: " << llvm::toString(schedule.takeError());
  return *schedule;
}

/// The schedule, if it is the one that L1 was tiled for.
static FailureOr<Schedule> chooseFor(const LoopNest &nest, StringRef target, StringRef overrides) {
  flash::StepOpInterface op = nest.getStep();
  FailureOr<Schedule> schedule = getSchedule(nest, target, overrides);
  if (failed(schedule))
    return failure();
  if (nest.residentTile != schedule->getQTile() || nest.streamedTile != schedule->kvTile)
    return op.emitError() << "expected tiles of " << schedule->getQTile() << " queries and " << schedule->kvTile
                          << " keys (schedule " << schedule->str() << "), got " << nest.residentTile << " and "
                          << nest.streamedTile;
  return schedule;
}

/// Decides what the schedule leaves open to what only L1 shows. Returns why points are sorted, or an empty text.
static std::string settle(const LoopNest &nest, bool hasTables, Schedule &schedule) {
  // A tile that TMA does not store leaves the slot later than Q's is free.
  if (nest.segmentTile && schedule.store == Store::QSlot)
    schedule.store = Store::Registers;
  std::string why = schedule.order == Order::List ? "the schedule asks for it" : "";
  if (schedule.order == Order::Auto && schedule.persistent)
    why = whyUnsorted(nest);
  schedule.order = why.empty() ? Order::Closed : Order::List;
  schedule.programmaticLaunch &= hasTables || !why.empty(); // a kernel that is alone overlaps with none
  return why;
}

//===--------------------------------------------------------------------------------------------------------------===//
// The manifest
//===--------------------------------------------------------------------------------------------------------------===//

/// The number of tiles of queries; none: no formula.
static std::optional<GridFormula> countQueryTiles(LoopNest &nest) {
  flash::SegmentTileOp segments = nest.segmentTile;
  std::optional<GridFormula> queries = getFormula(segments ? OpFoldResult(segments.getLength()) : nest.resident.extent);
  if (!queries || !segments)
    return queries ? std::optional(ceilDiv(*queries, nest.residentTile)) : std::nullopt;
  std::optional<GridFormula> offsets = getFormula(segments.getSorted(), segments.getIndices().size());
  if (!offsets)
    return std::nullopt;
  // Without a query there is nothing to launch: 0.
  return min(*queries, 1) * (ceilDiv(*queries + 1, nest.residentTile) + *offsets);
}

/// The tiles of queries, heads and batches.
static FailureOr<std::array<GridFormula, 3>> getExtents(LoopNest &nest) {
  std::optional<GridFormula> tiles = countQueryTiles(nest), heads = getFormula(nest.head.extent);
  std::optional<GridFormula> batches = getFormula(nest.batch.extent);
  if (!tiles || !heads || !batches)
    return nest.end->emitError() << "expected the extents of the parallel loop to be constants or extents of "
                                    "arguments";
  return std::array<GridFormula, 3>{*tiles, *heads, *batches};
}

/// One CTA for every tile of queries, or as many as run at once.
static std::array<GridFormula, 3> getGrid(const std::array<GridFormula, 3> &extents, bool persistent) {
  auto &[tiles, heads, batches] = extents;
  if (!persistent)
    return extents;
  return {min(GridFormula::smCount(), tiles * heads * batches), 1, 1};
}

/// What the function's arguments and results are to the nest.
static LaunchRoles getRoles(LoopNest &nest) {
  LaunchRoles result;
  result.groupSize = nest.groupSize;
  for (const NestOperand &operand : nest.operands)
    result.roles.push_back({operand.info, {operand.argument}, /*isOutput=*/false, operand.getCols()});
  auto epilogue = dyn_cast_or_null<flash::EpilogueOpInterface>(nest.epilogue);
  for (auto [index, info] : llvm::enumerate(epilogue ? epilogue.getEpilogueResults() : nest.getStep().getStepState())) {
    int64_t depth = cast<ShapedType>(nest.results[index].getType()).getShape().back();
    LaunchRole &role = result.roles.emplace_back(LaunchRole{info, {}, /*isOutput=*/true, depth});
    if (nest.groupSums)
      llvm::replace(role.info.dims, flash::StepDim::H, flash::StepDim::KeyHead);
    for (const NestOutput &output : nest.outputs)
      if (output.result == index)
        role.arguments.push_back(output.argument);
  }
  return result;
}

/// Makes what runs after the kernel. Fails after an error.
static FailureOr<std::vector<ManifestKernel>> emitKernelsAfter(const LoopNest &nest, gpu::GPUFuncOp kernel,
                                                               const TileTables &tables) {
  std::vector<ManifestKernel> kernels;
  if (std::optional<GroupSums> sums = nest.getGroupSums()) {
    auto outputs = llvm::map_to_vector(nest.outputs, [](const NestOutput &output) { return output.argument; });
    FailureOr<ManifestKernel> sum = emitGroupKernel(nest.func, kernel, tables, *sums, outputs);
    if (failed(sum))
      return failure();
    kernels.push_back(std::move(*sum));
  }
  return kernels;
}

/// How the kernel alone is launched.
static Launch describeKernel(LoopNest &nest, const Schedule &schedule, KernelSignature &signature,
                             gpu::GPUFuncOp kernel, const std::array<GridFormula, 3> &extents) {
  const GPUTarget &target = GPUTarget::of(kernel);
  LaunchInterface interface = describeLaunch(nest.func, getRoles(nest));
  Launch launch;
  launch.kernel = kernel.getName();
  launch.target = target.name;
  launch.arguments = std::move(interface.arguments);
  launch.requirements = std::move(interface.requirements);
  launch.parameters = signature.getParameters();
  launch.grid = getGrid(extents, schedule.persistent);
  launch.block[0] = target.groupThreads * (schedule.consumers + 1);
  launch.dynamicSharedMemory = tile::KernelLayout(kernel).bytes;
  launch.schedule = schedule.str();
  return launch;
}

//===--------------------------------------------------------------------------------------------------------------===//
// The pass
//===--------------------------------------------------------------------------------------------------------------===//

static tile::ScheduleAttr getAttr(const Schedule &schedule, MLIRContext *context) {
  return tile::ScheduleAttr::get(context, schedule.consumers, schedule.producerRegisters, schedule.consumerRegisters,
                                 schedule.overlap, schedule.pingPong, schedule.epilogue, schedule.waitAfter);
}

/// Makes the gpu.module beside the host function; erases the one or, on failure, the other.
static LogicalResult convert(ModuleOp module, LoopNest &nest, Schedule schedule, const GPUTarget &target) {
  FailureOr<std::array<GridFormula, 3>> extents = getExtents(nest);
  FailureOr<TileTables> tables = TileTables::get(nest.func);
  if (failed(extents) || failed(tables))
    return failure();
  std::optional<GroupSums> sums = nest.getGroupSums();
  FailureOr<TileTables::Table> partial = sums ? sums->getTable() : TileTables::Table{};
  if (failed(partial))
    return failure();
  if (sums)
    tables->add(std::move(*partial));
  std::string whySorted = settle(nest, !tables->empty(), schedule);
  StepShape shape = getStepShape(nest);
  if (llvm::Error error = checkSchedule(schedule, target, shape.depth, shape.valueDepth)) // what a list needs
    return nest.end->emitError() << "schedule: " << llvm::toString(std::move(error));
  MLIRContext *context = module.getContext();
  OpBuilder b = OpBuilder::atBlockEnd(module.getBody());
  auto gpuModule = gpu::GPUModuleOp::create(b, nest.func.getLoc(), "flashc_kernels", target.getAttr(context));
  b.setInsertionPointToStart(gpuModule.getBody());
  auto kernel = gpu::GPUFuncOp::create(b, nest.func.getLoc(), nest.func.getName(), b.getFunctionType({}, {}));
  kernel->setAttr(gpu::GPUDialect::getKernelFuncAttrName(), b.getUnitAttr());
  kernel->setAttr(tile::kScheduleAttrName, getAttr(schedule, context));

  KernelSignature signature(nest.func, kernel, *tables);
  KernelFrame frame(nest, schedule, kernel, signature);
  if (failed(frame.build(*makeTileStep(frame)))) {
    gpuModule.erase();
    return failure();
  }
  schedule.ownKeys = frame.hasOwnKeys(); // where extents are known, no loop may be left that has the mask
  signature.finish();
  Launch launch = describeKernel(nest, schedule, signature, kernel, *extents);
  launch.sorted = whySorted;
  if (!whySorted.empty())
    launch.points = *extents;
  launch.mayOverlap = schedule.programmaticLaunch;
  launch.workspace = tables->getTotalBytes();
  FailureOr<std::vector<ManifestKernel>> before = emitTableKernels(nest.func, kernel, *tables);
  FailureOr<std::vector<ManifestKernel>> after = emitKernelsAfter(nest, kernel, *tables);
  if (failed(before) || failed(after)) {
    gpuModule.erase();
    return failure();
  }
  launch.before = std::move(*before);
  launch.after = std::move(*after);
  launch.set(kernel);
  nest.func.erase();
  return success();
}

namespace {
struct ConvertFlashToTile : flashc::impl::ConvertFlashToTileBase<ConvertFlashToTile> {
  using ConvertFlashToTileBase::ConvertFlashToTileBase;

  void runOnOperation() override {
    ModuleOp module = getOperation();
    FailureOr<LoopNest> nest = matchLoopNest(module);
    if (failed(nest))
      return signalPassFailure();
    FailureOr<Schedule> schedule = chooseFor(*nest, target, overrides);
    if (failed(schedule) || failed(convert(module, *nest, *schedule, *GPUTarget::lookup(target))))
      return signalPassFailure();
  }
};
} // namespace
