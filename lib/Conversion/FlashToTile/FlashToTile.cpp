//===- FlashToTile.cpp - convert-flash-to-tile --------------------------------------------------------------------===//

#include "KernelFrame.h"
#include "Steps/TileStep.h"
#include "WorkOrder.h"
#include "flashc/Conversion/HostToKernel/TableKernel.h"
#include "flashc/Conversion/Passes.h"
#include "flashc/Conversion/ScheduleChoice.h"
#include "flashc/Launch/LaunchInterface.h"
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

/// The schedule, if it is the one that L1 was tiled for.
static FailureOr<Schedule> chooseFor(const LoopNest &nest, StringRef target, StringRef overrides) {
  flash::StepOpInterface op = nest.getStep();
  StepShape shape = getStepShape(nest);
  FailureOr<Schedule> schedule =
      resolveSchedule(op, target, shape.depth, shape.valueDepth, nest.elementType, shape.outputs, overrides);
  if (failed(schedule))
    return failure();
  if (nest.residentTile != schedule->getQTile() || nest.streamedTile != schedule->kvTile)
    return op.emitError() << "expected tiles of " << schedule->getQTile() << " queries and " << schedule->kvTile
                          << " keys (schedule " << schedule->str() << "), got " << nest.residentTile << " and "
                          << nest.streamedTile;
  return schedule;
}

/// Decides what the schedule leaves open. Returns why points are sorted, or an empty text.
static std::string decideOrder(const LoopNest &nest, Schedule &schedule) {
  std::string why = schedule.order == Order::List ? "the schedule asks for it" : "";
  if (schedule.order == Order::Auto && schedule.persistent)
    why = whyUnsorted(nest);
  schedule.order = why.empty() ? Order::Closed : Order::List;
  return why;
}

//===--------------------------------------------------------------------------------------------------------------===//
// The manifest
//===--------------------------------------------------------------------------------------------------------------===//

/// The number of tiles of queries as a formula, or an empty text.
static std::string countQueryTiles(LoopNest &nest) {
  flash::SegmentTileOp segments = nest.segmentTile;
  std::string queries = getFormula(segments ? OpFoldResult(segments.getLength()) : nest.resident.extent);
  std::string tile = std::to_string(nest.residentTile);
  if (queries.empty())
    return "";
  if (!segments)
    return "ceildiv(" + queries + ", " + tile + ")";
  std::string offsets = getFormula(segments.getSorted(), segments.getIndices().size());
  if (offsets.empty())
    return "";
  // Without a query there is nothing to launch: 0.
  return "mul(min(" + queries + ", 1), add(ceildiv(add(" + queries + ", 1), " + tile + "), " + offsets + "))";
}

/// The tiles of queries, heads and batches, as formulas.
static FailureOr<std::array<std::string, 3>> getExtents(LoopNest &nest) {
  std::string tiles = countQueryTiles(nest), heads = getFormula(nest.head.extent);
  std::string batches = getFormula(nest.batch.extent);
  if (tiles.empty() || heads.empty() || batches.empty())
    return nest.end->emitError() << "expected the extents of the parallel loop to be constants or extents of "
                                        "arguments";
  return std::array<std::string, 3>{tiles, heads, batches};
}

/// One CTA for every tile of queries, or as many as run at once.
static ArrayAttr getGrid(Builder b, const std::array<std::string, 3> &extents, bool persistent) {
  auto &[tiles, heads, batches] = extents;
  if (!persistent)
    return b.getStrArrayAttr({tiles, heads, batches});
  return b.getStrArrayAttr({"min(sm_count, mul(mul(" + tiles + ", " + heads + "), " + batches + "))", "1", "1"});
}

static ArrayAttr getArguments(Builder &b, const LaunchInterface &interface) {
  SmallVector<Attribute> arguments;
  for (const ManifestArgument &info : interface.arguments)
    arguments.push_back(b.getDictionaryAttr({
        b.getNamedAttr("name", b.getStringAttr(info.name)),
        b.getNamedAttr("role", b.getStringAttr(info.isOutput ? "output" : "input")),
        b.getNamedAttr("shape", b.getI64ArrayAttr(info.shape)),
        b.getNamedAttr("dtype", b.getStringAttr(info.dtype)),
    }));
  return b.getArrayAttr(arguments);
}

static ArrayAttr getRequirements(Builder &b, const LaunchInterface &interface) {
  SmallVector<Attribute> requirements;
  for (const auto &[first, second] : interface.requirements)
    requirements.push_back(b.getStrArrayAttr({first, second}));
  return b.getArrayAttr(requirements);
}

static DictionaryAttr getManifest(LoopNest &nest, const Schedule &schedule, KernelSignature &signature,
                                  gpu::GPUFuncOp kernel, ArrayAttr grid, StringRef whySorted) {
  Builder b(kernel.getContext());
  LaunchInterface interface = flashc::describeLaunch(nest.func, getLaunchArguments(nest));
  int64_t threads = GPUTarget::of(kernel).groupThreads * (schedule.consumers + 1);
  NamedAttrList manifest({
      b.getNamedAttr("schema", b.getStringAttr(Manifest::kSchema)),
      b.getNamedAttr("version", b.getI64IntegerAttr(Manifest::kVersion)),
      b.getNamedAttr("kernel", b.getStringAttr(kernel.getName())),
      b.getNamedAttr("target", b.getStringAttr(GPUTarget::of(kernel).name)),
      b.getNamedAttr("arguments", getArguments(b, interface)),
      b.getNamedAttr("requires", getRequirements(b, interface)),
      b.getNamedAttr("parameters", signature.getParameters()),
      b.getNamedAttr("grid", grid),
      b.getNamedAttr("block", b.getI64ArrayAttr({threads, 1, 1})),
      b.getNamedAttr("cluster", b.getI64ArrayAttr({1, 1, 1})),
      b.getNamedAttr("dynamic_shared_memory", b.getI64IntegerAttr(tile::getSharedMemoryBytes(kernel))),
      b.getNamedAttr("workspace", b.getI64IntegerAttr(0)),
      b.getNamedAttr("schedule", b.getStringAttr(schedule.str())),
  });
  if (!whySorted.empty())
    manifest.set("sorted", b.getStringAttr(whySorted));
  return manifest.getDictionary(b.getContext());
}

//===--------------------------------------------------------------------------------------------------------------===//
// The pass
//===--------------------------------------------------------------------------------------------------------------===//

static tile::ScheduleAttr getAttr(const Schedule &schedule, MLIRContext *context) {
  return tile::ScheduleAttr::get(context, schedule.consumers, schedule.kvTile, schedule.stages,
                                 schedule.producerRegisters, schedule.consumerRegisters, schedule.overlap,
                                 schedule.pingPong, schedule.overlapEpilogue, schedule.earlySoftmax,
                                 schedule.waitAfter);
}

/// Makes the kernels that compute tables before the entry's.
static LogicalResult addTables(func::FuncOp host, gpu::GPUFuncOp kernel, const TileTables &tables) {
  FailureOr<ArrayAttr> before = emitTableKernels(host, kernel, tables);
  if (failed(before))
    return failure();
  NamedAttrList manifest(kernel->getAttrOfType<DictionaryAttr>(kManifestAttrName));
  manifest.set("workspace", StringAttr::get(kernel.getContext(), tables.getTotalBytes()));
  manifest.set("before", *before);
  kernel->setAttr(kManifestAttrName, manifest.getDictionary(kernel.getContext()));
  return success();
}

/// Makes the gpu.module beside the host function; erases the one or, on failure, the other.
static LogicalResult convert(ModuleOp module, LoopNest &nest, Schedule schedule, const GPUTarget &target) {
  FailureOr<std::array<std::string, 3>> extents = getExtents(nest);
  FailureOr<TileTables> tables = TileTables::get(nest.func);
  if (failed(extents) || failed(tables))
    return failure();
  if (nest.segmentTile) // a tile that TMA does not store leaves the slot later than Q's is free
    schedule.tmaStore &= schedule.outputSlot;
  std::string whySorted = decideOrder(nest, schedule);
  StepShape shape = getStepShape(nest);
  if (llvm::Error error = checkSchedule(schedule, target, shape.depth, shape.valueDepth)) // what a list needs
    return nest.end->emitError() << "schedule: " << llvm::toString(std::move(error));
  schedule.programmaticLaunch &= !whySorted.empty() || !tables->empty();
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
  kernel->setAttr(kManifestAttrName, getManifest(nest, schedule, signature, kernel,
                                                 getGrid(b, *extents, schedule.persistent), whySorted));
  if (schedule.programmaticLaunch)
    kernel->setAttr(kProgrammaticLaunchAttrName, b.getUnitAttr());
  if (!whySorted.empty())
    kernel->setAttr(kGridFormulasAttrName, b.getStrArrayAttr({(*extents)[0], (*extents)[1], (*extents)[2]}));
  if (!tables->empty() && failed(addTables(nest.func, kernel, *tables))) {
    gpuModule.erase();
    return failure();
  }
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
