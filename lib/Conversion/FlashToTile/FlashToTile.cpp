//===- FlashToTile.cpp - convert-flash-to-tile --------------------------------------------------------------------===//

#include "KernelBuilder.h"
#include "TileTables.h"
#include "WorkOrder.h"
#include "flashc/Conversion/Passes.h"
#include "flashc/Conversion/ScheduleChoice.h"
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
static FailureOr<Schedule> chooseFor(const AttentionPlan &plan, StringRef target, StringRef overrides) {
  flash::OnlineAttentionOp op = plan.getOp();
  auto hasInputType = [&](const Output &output) { return output.isLse || output.elementType == plan.elementType; };
  KernelOutputs outputs{llvm::any_of(plan.outputs, [](const Output &output) { return output.isLse; }),
                        llvm::all_of(plan.outputs, hasInputType)};
  FailureOr<Schedule> schedule =
      resolveSchedule(op, target, plan.headDim, plan.valueDim, plan.elementType, outputs, overrides);
  if (failed(schedule))
    return failure();
  if (plan.qTile != schedule->getQTile() || plan.kvTile != schedule->kvTile)
    return op.emitError() << "expected tiles of " << schedule->getQTile() << " queries and " << schedule->kvTile
                          << " keys (schedule " << schedule->str() << "), got " << plan.qTile << " and " << plan.kvTile;
  return schedule;
}

/// Decides what the schedule leaves open. Returns why points are sorted, or an empty text.
static std::string decideOrder(const AttentionPlan &plan, Schedule &schedule) {
  std::string why = schedule.order == Order::List ? "the schedule asks for it" : "";
  if (schedule.order == Order::Auto && schedule.persistent)
    why = whyUnsorted(plan);
  schedule.order = why.empty() ? Order::Closed : Order::List;
  return why;
}

//===--------------------------------------------------------------------------------------------------------------===//
// The manifest
//===--------------------------------------------------------------------------------------------------------------===//

/// The number of tiles of queries as a formula, or an empty text.
static std::string countQueryTiles(AttentionPlan &plan) {
  flash::SegmentTileOp segments = plan.segmentTile;
  std::string queries = getFormula(segments ? OpFoldResult(segments.getLength()) : plan.query.extent);
  std::string tile = std::to_string(plan.qTile);
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
static FailureOr<std::array<std::string, 3>> getExtents(AttentionPlan &plan) {
  std::string tiles = countQueryTiles(plan), heads = getFormula(plan.head.extent);
  std::string batches = getFormula(plan.batch.extent);
  if (tiles.empty() || heads.empty() || batches.empty())
    return plan.finalize.emitError() << "expected the extents of the parallel loop to be constants or extents of "
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

static LaunchInterface describeLaunch(const AttentionPlan &plan) {
  AttentionArguments attention;
  attention.q = plan.q.argument;
  attention.k = plan.k.argument;
  attention.v = plan.v.argument;
  for (const Output &output : plan.outputs)
    (output.isLse ? attention.lse : attention.o).push_back(output.argument);
  attention.groupSize = plan.groupSize;
  attention.headDim = plan.headDim;
  attention.valueDim = plan.valueDim;
  return flashc::describeLaunch(plan.func, attention);
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

static DictionaryAttr getManifest(AttentionPlan &plan, const Schedule &schedule, KernelSignature &signature,
                                  gpu::GPUFuncOp kernel, ArrayAttr grid, StringRef whySorted) {
  Builder b(kernel.getContext());
  LaunchInterface interface = describeLaunch(plan);
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
  FailureOr<ArrayAttr> before = tables.emitKernels(host, kernel);
  if (failed(before))
    return failure();
  NamedAttrList manifest(kernel->getAttrOfType<DictionaryAttr>(kManifestAttrName));
  manifest.set("workspace", StringAttr::get(kernel.getContext(), tables.getTotalBytes()));
  manifest.set("before", *before);
  kernel->setAttr(kManifestAttrName, manifest.getDictionary(kernel.getContext()));
  return success();
}

/// Makes the gpu.module beside the host function; erases the one or, on failure, the other.
static LogicalResult convert(ModuleOp module, AttentionPlan &plan, Schedule schedule, const GPUTarget &target) {
  FailureOr<std::array<std::string, 3>> extents = getExtents(plan);
  FailureOr<TileTables> tables = TileTables::get(plan.func);
  if (failed(extents) || failed(tables))
    return failure();
  if (plan.segmentTile) // a tile that TMA does not store leaves the slot later than Q's is free
    schedule.tmaStore &= schedule.outputSlot;
  std::string whySorted = decideOrder(plan, schedule);
  if (llvm::Error error = checkSchedule(schedule, target, plan.headDim, plan.valueDim)) // what a list needs
    return plan.finalize.emitError() << "schedule: " << llvm::toString(std::move(error));
  schedule.programmaticLaunch &= !whySorted.empty() || !tables->empty();
  MLIRContext *context = module.getContext();
  OpBuilder b = OpBuilder::atBlockEnd(module.getBody());
  auto gpuModule = gpu::GPUModuleOp::create(b, plan.func.getLoc(), "flashc_kernels", target.getAttr(context));
  b.setInsertionPointToStart(gpuModule.getBody());
  auto kernel = gpu::GPUFuncOp::create(b, plan.func.getLoc(), plan.func.getName(), b.getFunctionType({}, {}));
  kernel->setAttr(gpu::GPUDialect::getKernelFuncAttrName(), b.getUnitAttr());
  kernel->setAttr(tile::kScheduleAttrName, getAttr(schedule, context));

  KernelSignature signature(plan.func, kernel, *tables);
  KernelBuilder builder(plan, schedule, kernel, signature);
  if (failed(builder.build())) {
    gpuModule.erase();
    return failure();
  }
  schedule.ownKeys = builder.hasOwnKeys(); // where extents are known, no loop may be left that has the mask
  signature.finish();
  kernel->setAttr(kManifestAttrName, getManifest(plan, schedule, signature, kernel,
                                                 getGrid(b, *extents, schedule.persistent), whySorted));
  if (schedule.programmaticLaunch)
    kernel->setAttr(kProgrammaticLaunchAttrName, b.getUnitAttr());
  if (!whySorted.empty())
    kernel->setAttr(kGridFormulasAttrName, b.getStrArrayAttr({(*extents)[0], (*extents)[1], (*extents)[2]}));
  if (!tables->empty() && failed(addTables(plan.func, kernel, *tables))) {
    gpuModule.erase();
    return failure();
  }
  plan.func.erase();
  return success();
}

namespace {
struct ConvertFlashToTile : flashc::impl::ConvertFlashToTileBase<ConvertFlashToTile> {
  using ConvertFlashToTileBase::ConvertFlashToTileBase;

  void runOnOperation() override {
    ModuleOp module = getOperation();
    FailureOr<AttentionPlan> plan = matchAttention(module);
    if (failed(plan))
      return signalPassFailure();
    FailureOr<Schedule> schedule = chooseFor(*plan, target, overrides);
    if (failed(schedule) || failed(convert(module, *plan, *schedule, *GPUTarget::lookup(target))))
      return signalPassFailure();
  }
};
} // namespace
