//===- FlashToTile.cpp - convert-flash-to-tile --------------------------------------------------------------------===//

#include "CacheFrame.h"
#include "PairNest.h"
#include "PlainLaunch.h"
#include "Steps/TileStep.h"
#include "WarpFrame.h"
#include "WorkOrder.h"
#include "flashc/Conversion/HostToKernel/DeltaKernel.h"
#include "flashc/Conversion/HostToKernel/TableKernel.h"
#include "flashc/Conversion/Passes.h"
#include "flashc/Conversion/ScheduleChoice.h"
#include "flashc/Dialect/Flash/IR/Arguments.h"
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
#include "mlir/Dialect/Vector/IR/VectorOps.h"

namespace flashc {
#define GEN_PASS_DEF_CONVERTFLASHTOTILE
#include "flashc/Conversion/Passes.h.inc"
} // namespace flashc

using namespace mlir;
using namespace flashc;

/// The schedule that the function carries, if it does.
static FailureOr<std::optional<Schedule>> getCarried(const LoopNest &nest) {
  flash::StepOpInterface op = nest.getStep();
  Attribute carried = func::FuncOp(nest.func)->getAttr(kScheduleAttrName);
  if (!carried)
    return std::optional<Schedule>();
  if (!isa<DictionaryAttr>(carried))
    return op.emitError() << "expected '" << kScheduleAttrName << "' to be a dictionary, got " << carried;
  llvm::Expected<Schedule> schedule = Schedule::get(cast<DictionaryAttr>(carried));
  if (!schedule)
    return op.emitError() << "schedule: " << llvm::toString(schedule.takeError());
  if ((schedule->kind == KernelKind::Decode) != nest.packed.has_value())
    return op.emitError() << "expected a schedule of kind=decode for packed rows, and of another kind for others, got kind="
                          << getKindName(schedule->kind);
  return std::optional(*schedule);
}

/// The schedule that the function carries; without one, the table's.
static FailureOr<Schedule> getSchedule(const LoopNest &nest, StringRef target, StringRef overrides) {
  FailureOr<std::optional<Schedule>> carried = getCarried(nest);
  if (failed(carried))
    return failure();
  if (*carried)
    return **carried;
  StepShape shape = getStepShape(nest);
  return resolveSchedule(nest.getStep(), target, shape.depth, shape.valueDepth, nest.elementType, shape.outputs, overrides);
}

/// The schedule, if it is the one that L1 was tiled for; of pairs, which L1 does not tile, their own, unless an override
/// asks for another.
static FailureOr<Schedule> chooseFor(LoopNest &nest, StringRef target, StringRef overrides) {
  flash::StepOpInterface op = nest.getStep();
  FailureOr<Schedule> schedule = getSchedule(nest, target, overrides);
  if (failed(schedule))
    return failure();
  if (nest.pairs) {
    Schedule ofPairs = choosePairSchedule(nest, *schedule);
    for (auto [field, other] : llvm::zip_equal(ofPairs.getFields(), schedule->getFields()))
      if (field.second != other.second && hasOverride(overrides, field.first))
        return op.emitError() << "schedule: expected " << field.first << "=" << field.second
                              << " for sums of pairs of queries and keys, got " << field.first << "=" << other.second;
    return ofPairs;
  }
  if (nest.residentTile != schedule->getQTile() || nest.streamedTile != schedule->kvTile)
    return op.emitError() << "expected tiles of " << schedule->getQTile() << " queries and " << schedule->kvTile
                          << " keys (schedule " << schedule->str() << "), got " << nest.residentTile << " and "
                          << nest.streamedTile;
  if (std::optional<int64_t> parts = getConstantIntValue(nest.parts.dim.extent); parts != schedule->splits)
    return op.emitError() << "expected " << schedule->splits << " parts of each tile's keys (schedule splits=" << schedule->splits << ")";
  return schedule;
}

/// Decides what the schedule leaves open to what only L1 shows. Returns why work tiles are sorted, or an empty text.
static std::string settle(const LoopNest &nest, bool hasTables, Schedule &schedule) {
  // A tile that TMA does not store leaves the slot later than Q's is free.
  if (nest.segmentTile && schedule.store == Store::QSlot)
    schedule.store = Store::Registers;
  std::string why = schedule.order == Order::List ? "the schedule asks for it" : "";
  if (schedule.order == Order::Auto && (schedule.persistent || mayReorder(nest)))
    why = whyUnsorted(nest, schedule.persistent);
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
  std::optional<GridFormula> parts = getFormula(nest.parts.dim.extent);
  return std::array<GridFormula, 3>{nest.parts.dim.position ? *tiles * *parts : *tiles, *heads, *batches};
}

/// One CTA for every tile of queries, or as many as run at once.
static std::array<GridFormula, 3> getGrid(const std::array<GridFormula, 3> &extents, bool persistent) {
  auto &[tiles, heads, batches] = extents;
  if (!persistent)
    return extents;
  return {min(GridFormula::smCount(), tiles * heads * batches), 1, 1};
}

/// What the arguments that delta is computed of are to the nest.
static void addRoles(const flash::RowDots &dots, LaunchRoles &result) {
  using flash::StepDim;
  auto add = [&](StringRef name, Value value, SmallVector<StepDim, 4> dims) {
    int64_t depth = cast<ShapedType>(value.getType()).getShape().back();
    if (BlockArgument argument = flash::getRootArgument(value))
      result.roles.push_back({{name, 0, std::move(dims)}, {argument.getArgNumber()}, /*isOutput=*/false, depth});
  };
  add("o", dots.o, {StepDim::B, StepDim::H, StepDim::I, StepDim::Whole});
  if (dots.dlse)
    add("dlse", dots.dlse, {StepDim::B, StepDim::H, StepDim::I});
}

/// What the arguments are that the epilogue reads slices of.
static void addRoles(flash::EpilogueOpInterface epilogue, LaunchRoles &result) {
  for (const flash::StepOperand &info : epilogue.getEpilogueInputs()) {
    Value value = epilogue->getOperand(info.number);
    if (auto slice = value.getDefiningOp<tensor::ExtractSliceOp>())
      value = slice.getSource();
    if (BlockArgument argument = flash::getRootArgument(value))
      result.roles.push_back({info, {argument.getArgNumber()}, /*isOutput=*/false});
  }
}

/// What the argument is that dropout goes by.
static void addDropoutRole(Value philox, LaunchRoles &result) {
  if (BlockArgument argument = flash::getRootArgument(philox))
    result.roles.push_back({{"philox", 0, {flash::StepDim::Whole}}, {argument.getArgNumber()}, /*isOutput=*/false,
                            /*depth=*/2});
}

/// What the function's arguments and results are to the nest.
static LaunchRoles getRoles(LoopNest &nest) {
  LaunchRoles result;
  result.groupSize = nest.groupSize;
  for (const NestOperand &operand : nest.operands)
    if (flash::CacheTileOp cache = operand.cache)
      addCacheRoles(operand.info.name, cache.getCache(), cache.getLengths(), cache.getTable(), cache.getScales(), result);
    else if (std::optional<unsigned> argument = operand.getArgument())
      result.roles.push_back({operand.info, {*argument}, /*isOutput=*/false, operand.getCols()});
  if (Value delta = nest.getDelta())
    addRoles(*flash::matchRowDots(delta), result);
  auto epilogue = dyn_cast_or_null<flash::EpilogueOpInterface>(nest.epilogue);
  if (epilogue)
    addRoles(epilogue, result);
  if (std::optional<flash::Dropout> dropout = nest.getDropout())
    addDropoutRole(dropout->philox, result);
  for (auto [index, info] : llvm::enumerate(epilogue ? epilogue.getEpilogueResults() : nest.getStep().getStepState())) {
    int64_t depth = cast<ShapedType>(nest.results[index].getType()).getShape().back();
    LaunchRole &role = result.roles.emplace_back(LaunchRole{info, {}, /*isOutput=*/true, depth});
    if (nest.groupSums[index])
      llvm::replace(role.info.dims, flash::StepDim::H, flash::StepDim::KeyHead);
    for (const NestOutput &output : nest.outputs)
      if (output.result == index)
        role.arguments.push_back(output.argument);
  }
  if (nest.scatterSums) {
    result.roles.pop_back(); // of the state, which stays in the workspace
    if (BlockArgument captured = flash::getRootArgument(nest.scatterSums->op.getCaptured()))
      result.roles.push_back({{"captured", 0, {}}, {captured.getArgNumber()}, /*isOutput=*/false});
    result.roles.push_back({{"gradient", 0, {}}, nest.scatterSums->outputs, /*isOutput=*/true});
  }
  if (nest.sinkSums) {
    BlockArgument sinks = flash::getRootArgument(nest.sinkSums->of.sinks);
    using flash::StepDim;
    if (sinks)
      result.roles.push_back({{"sinks", 0, {StepDim::H}}, {sinks.getArgNumber()}, /*isOutput=*/false});
    result.roles.push_back({{"dsinks", 0, {StepDim::H}}, nest.sinkSums->outputs, /*isOutput=*/true});
  }
  return result;
}

/// Makes what completes the nest's results after its kernel: adds up the heads of groups, or rounds what CTAs have added
/// up. Fails after an error.
static LogicalResult emitLastKernels(const LoopNest &nest, bool isOnlyNest, gpu::GPUFuncOp main,
                                     const TileTables &tables, std::vector<ManifestKernel> &kernels) {
  SmallVector<flash::StepOperand> state = nest.getStep().getStepState();
  bool isOnly = isOnlyNest && state.size() == 1;
  for (unsigned result = 0; result < nest.results.size(); ++result) {
    std::optional<GroupSums> sums = nest.getGroupSums(result);
    std::optional<AddedSums> added = nest.getAddedSums(result);
    if (!sums && !added)
      continue;
    SmallVector<unsigned> outputs;
    for (const NestOutput &output : nest.outputs)
      if (output.result == result)
        outputs.push_back(output.argument);
    std::string name = (main.getName() + (isOnly ? "" : "_" + state[result].name)).str();
    if (nest.groupSums[result])
      name += "_groups";
    FailureOr<ManifestKernel> kernel = added ? emitRoundKernel(nest.func, main, name, tables, *added, outputs)
                                             : emitGroupKernel(nest.func, main, name, tables, *sums, outputs);
    if (failed(kernel))
      return failure();
    kernels.push_back(std::move(*kernel));
  }
  return success();
}

/// How the kernel of a nest is launched; a decoding kernel has one CTA for each part of a tile's keys.
static ManifestKernel describeKernel(const Schedule &schedule, KernelSignature &signature, gpu::GPUFuncOp kernel,
                                     const std::array<GridFormula, 3> &extents) {
  ManifestKernel info;
  info.kernel = kernel.getName();
  info.parameters = signature.getParameters();
  bool isDecoding = schedule.kind == KernelKind::Decode;
  info.grid = getGrid(extents, !isDecoding && schedule.persistent);
  info.block[0] = isDecoding ? 32 * schedule.warps
                             : GPUTarget::of(kernel).groupThreads * (schedule.consumers + 1 + tile::hasReducer(kernel));
  info.cluster[0] = schedule.getCluster();
  info.dynamicSharedMemory = tile::KernelLayout(kernel).bytes;
  return info;
}

//===--------------------------------------------------------------------------------------------------------------===//
// The pass
//===--------------------------------------------------------------------------------------------------------------===//

static tile::ScheduleAttr getAttr(const Schedule &schedule, MLIRContext *context) {
  return tile::ScheduleAttr::get(context, schedule.consumers, schedule.producerRegisters, schedule.consumerRegisters,
                                 schedule.overlap, schedule.pingPong, schedule.epilogue, schedule.waitAfter);
}

namespace {
/// A nest on its way to a kernel.
struct NestKernel {
  LoopNest &nest;
  Schedule schedule;
  std::array<GridFormula, 3> extents;
  gpu::GPUFuncOp func = {};
  ManifestKernel info = {};

  /// Whether a kernel of its own merges parts of the keys.
  bool storesParts() const { return nest.parts.merge && schedule.getCluster() == 1; }
};
} // namespace

/// The tables that kernels of the launch pass to each other.
static FailureOr<TileTables> getTables(MutableArrayRef<LoopNest> nests, ArrayRef<NestKernel> kernels) {
  FailureOr<TileTables> tables = TileTables::get(nests.front().func);
  if (failed(tables))
    return failure();
  auto add = [&](FailureOr<TileTables::Table> table) {
    if (succeeded(table) && !tables->getNumber(table->value))
      tables->add(*table);
    return succeeded(table);
  };
  for (const NestKernel &kernel : kernels) {
    if (!kernel.storesParts())
      continue;
    FailureOr<SmallVector<TileTables::Table, 2>> parts = getMergedStates(kernel.nest).getTables();
    if (failed(parts) || !llvm::all_of(*parts, [&](const TileTables::Table &table) { return add(table); }))
      return failure();
  }
  for (LoopNest &nest : nests) {
    for (unsigned result = 0; result < nest.results.size(); ++result)
      if (std::optional<GroupSums> sums = nest.getGroupSums(result); sums && !add(sums->getTable()))
        return failure();
      else if (std::optional<AddedSums> added = nest.getAddedSums(result); added && !add(added->getTable()))
        return failure();
    if (nest.pairs && nest.pairs->diagonal) {
      if (!add(nest.pairs->diagonal->getTilesTable()) || !add(nest.pairs->diagonal->getSumsTable()))
        return failure();
    } else if (nest.scatterSums && !nest.scatterSums->isDirect() &&
               !add(getArrayTable(nest.scatterSums->table, nest.scatterSums->extents, /*isNumbered=*/true))) {
      return failure();
    }
    if (Value delta = nest.getDelta(); delta && !add(getDeltaTable(delta, nests.front().streamedTile)))
      return failure();
  }
  return tables;
}

/// Fills the kernel of a nest. The first one of the module has the function's name.
static LogicalResult emitNest(NestKernel &kernel, gpu::GPUModuleOp gpuModule, const TileTables &tables) {
  auto [nest, schedule, extents, func, info] = std::tie(kernel.nest, kernel.schedule, kernel.extents, kernel.func, kernel.info);
  OpBuilder b = OpBuilder::atBlockEnd(gpuModule.getBody());
  std::string name = nest.func.getName().str();
  if (gpuModule.lookupSymbol(name))
    name += ("_" + nest.getStep().getStepState().front().name).str();
  for (int64_t number = 1; gpuModule.lookupSymbol(name); ++number) // of several reads of one captured tensor
    name = (nest.func.getName() + "_" + nest.getStep().getStepState().front().name + Twine(number)).str();
  func = gpu::GPUFuncOp::create(b, nest.func.getLoc(), name, b.getFunctionType({}, {}));
  func->setAttr(gpu::GPUDialect::getKernelFuncAttrName(), b.getUnitAttr());
  if (!nest.packed)
    func->setAttr(tile::kScheduleAttrName, getAttr(schedule, b.getContext()));
  KernelSignature signature(nest.func, func, tables);
  std::unique_ptr<KernelFrame> frame;
  if (nest.packed)
    frame = std::make_unique<WarpFrame>(nest, schedule, func, signature);
  else if (nest.pairs)
    frame = std::make_unique<PairFrame>(nest, schedule, func, signature);
  else if (readsCache(nest))
    frame = std::make_unique<CacheFrame>(nest, schedule, func, signature);
  else
    frame = std::make_unique<KernelFrame>(nest, schedule, func, signature);
  if (failed(frame->build(*getTileStep(nest).makeTileStep(*frame))))
    return failure();
  schedule.ownKeys = frame->hasOwnKeys(); // where extents are known, no loop may be left that has the mask
  signature.finish();
  info = describeKernel(schedule, signature, func, extents);
  return success();
}

/// Describes the launch of all kernels: the first nest's is the main one, and the others' come after it.
static LogicalResult emitLaunch(MutableArrayRef<NestKernel> kernels, StringRef whySorted, const TileTables &tables) {
  NestKernel &main = kernels.front();
  func::FuncOp host = main.nest.func;
  SmallVector<LaunchRoles> roles;
  for (NestKernel &kernel : kernels)
    roles.push_back(getRoles(kernel.nest));
  LaunchInterface interface = describeLaunch(host, roles);
  Launch launch;
  static_cast<ManifestKernel &>(launch) = main.info;
  launch.target = GPUTarget::of(main.func).name;
  launch.arguments = std::move(interface.arguments);
  launch.requirements = std::move(interface.requirements);
  launch.schedule = main.schedule.str();
  launch.sorted = whySorted.str();
  if (!whySorted.empty())
    launch.workTiles = main.extents;
  launch.mayOverlap = main.schedule.programmaticLaunch;
  launch.workspace = tables.getWorkspaceBytes();
  launch.maskMap = tables.getMaskMapBytes();
  FailureOr<std::vector<ManifestKernel>> before = emitTableKernels(host, main.func, tables);
  if (failed(before))
    return failure();
  launch.before = std::move(*before);
  if (Value delta = main.nest.getDelta()) {
    Value lse = main.nest.getOperand("lse").array;
    SmallVector<AddedSums> added;
    for (NestKernel &kernel : kernels)
      llvm::append_range(added, kernel.nest.getAllAddedSums());
    FailureOr<ManifestKernel> kernel = emitDeltaKernel(host, main.func, tables, delta, lse, added);
    if (failed(kernel))
      return failure();
    launch.before.push_back(std::move(*kernel));
  }
  for (NestKernel &kernel : kernels.drop_front())
    launch.after.push_back(kernel.info);
  for (NestKernel &kernel : kernels)
    if (failed(emitLastKernels(kernel.nest, kernels.size() == 1, main.func, tables, launch.after)))
      return failure();
  if (main.storesParts()) {
    FailureOr<ManifestKernel> merge = emitMergeKernel(host, main.func->getParentOfType<gpu::GPUModuleOp>(),
                                                      (main.func.getName() + "_merge").str(), tables, getMergedStates(main.nest));
    if (failed(merge))
      return failure();
    launch.after.push_back(std::move(*merge));
  }
  for (auto [number, kernel] : llvm::enumerate(kernels)) {
    const std::optional<ScatterSums> &sums = kernel.nest.scatterSums;
    if (!sums)
      continue;
    std::string suffix = number ? std::to_string(number) : "";
    if (kernel.nest.pairs && kernel.nest.pairs->diagonal) {
      std::string name = (main.func.getName() + "_along" + suffix).str();
      FailureOr<ManifestKernel> along = emitDiagonalKernel(host, main.func, name, tables, *kernel.nest.pairs->diagonal);
      if (failed(along))
        return failure();
      launch.after.push_back(std::move(*along));
    }
    std::string name = (main.func.getName() + (sums->isDirect() ? "_rest" : "_scatter") + suffix).str();
    FailureOr<ManifestKernel> scatter = sums->isDirect() ? emitRestKernel(host, main.func, name, tables, *sums)
                                                         : emitScatterKernel(host, main.func, name, tables, *sums);
    if (failed(scatter))
      return failure();
    launch.after.push_back(std::move(*scatter));
  }
  if (const std::optional<SinkSums> &sums = main.nest.sinkSums) {
    FailureOr<ManifestKernel> kernel = emitSinkKernel(host, main.func, tables, *sums);
    if (failed(kernel))
      return failure();
    launch.after.push_back(std::move(*kernel));
  }
  launch.set(main.func);
  return success();
}

/// Adds the nests to `kernels` with their schedules, as far as they do not hang on each other.
static LogicalResult schedule(MutableArrayRef<LoopNest> nests, StringRef target, StringRef overrides,
                              SmallVectorImpl<NestKernel> &kernels) {
  for (LoopNest &nest : nests) {
    if (nest.packed) {
      FailureOr<std::optional<Schedule>> carried = getCarried(nest);
      if (failed(carried))
        return failure();
      FailureOr<Schedule> schedule = completeDecodeSchedule(nest, *carried, target, overrides);
      FailureOr<std::array<GridFormula, 3>> extents = getPackedExtents(nest);
      if (failed(schedule) || failed(extents))
        return failure();
      schedule->order = Order::Closed;
      schedule->programmaticLaunch = GPUTarget::lookup(target)->hasClusters; // they came together; it is the merge that overlaps
      kernels.push_back({nest, *schedule, *extents});
      continue;
    }
    FailureOr<Schedule> schedule = chooseFor(nest, target, overrides);
    if (failed(schedule))
      return failure();
    FailureOr<std::array<GridFormula, 3>> extents = nest.pairs ? getPairExtents(nest) : getExtents(nest);
    if (failed(extents))
      return failure();
    if (nests.size() > 1 && schedule->order == Order::List)
      return nest.end->emitError() << "schedule: expected order=closed where a launch has several nests, got order=list, "
                                      "which sorts the work of one kernel";
    if (nests.size() > 1)
      schedule->order = Order::Closed;
    kernels.push_back({nest, *schedule, *extents});
  }
  return success();
}

/// Makes the gpu.module beside the host function; erases the one or, on failure, the other.
static LogicalResult convert(ModuleOp module, MutableArrayRef<LoopNest> nests, StringRef target, StringRef overrides) {
  func::FuncOp host = nests.front().func;
  for (LoopNest &nest : nests)
    if (!isa<TileStepOpInterface>(nest.getStep().getOperation()))
      return nest.getStep()->emitError("expected a step with code for tiles (TileStepOpInterface)");
  SmallVector<NestKernel, 1> kernels;
  if (failed(schedule(nests, target, overrides, kernels)))
    return failure();
  FailureOr<TileTables> tables = getTables(nests, kernels);
  if (failed(tables))
    return failure();
  std::string whySorted;
  for (NestKernel &kernel : kernels) {
    if (kernel.nest.packed)
      continue;
    whySorted = settle(kernel.nest, !tables->empty(), kernel.schedule);
    StepShape shape = getStepShape(kernel.nest);
    llvm::Error error = kernel.nest.pairs ? llvm::Error::success() // what a list needs
                                          : checkSchedule(kernel.schedule, *GPUTarget::lookup(target), shape.depth,
                                                          shape.valueDepth);
    if (error)
      return kernel.nest.end->emitError() << "schedule: " << llvm::toString(std::move(error));
  }
  OpBuilder b = OpBuilder::atBlockEnd(module.getBody());
  auto gpuModule =
      gpu::GPUModuleOp::create(b, host.getLoc(), "flashc_kernels", GPUTarget::lookup(target)->getAttr(module.getContext()));
  bool isEmitted = llvm::all_of(kernels, [&](NestKernel &kernel) { return succeeded(emitNest(kernel, gpuModule, *tables)); });
  if (!isEmitted || failed(emitLaunch(kernels, whySorted, *tables))) {
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
