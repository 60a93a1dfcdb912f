//===- LaunchCost.cpp - what a call computes and moves ------------------------------------------------------------===//

#include "LaunchTiles.h"
#include "Lowering.h"
#include "flashc/Dialect/Flash/Transforms/Passes.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Pass/PassManager.h"

using namespace mlir;
using namespace flashc;

/// Decomposes the flash ops of a module, so that their arithmetic is visible.
static FailureOr<OwningOpRef<ModuleOp>> decompose(ModuleOp module, const CompileOptions &options) {
  OwningOpRef<ModuleOp> decomposed = module.clone();
  auto build = [](OpPassManager &pm) { return pm.addPass(flash::createDecompose()), success(); };
  if (failed(runPasses(*decomposed, build, "decompose", options)))
    return failure();
  return decomposed;
}

/// Whether `module` has an op with scores outside of all loops. Such an op works on whole sequences.
static bool hasWholeScores(ModuleOp module) {
  return module
      .walk([](flash::ScoresOpInterface op) {
        bool isTiled = op->getParentOfType<scf::ForOp>() || op->getParentOfType<scf::ForallOp>();
        return isTiled ? WalkResult::advance() : WalkResult::interrupt();
      })
      .wasInterrupted();
}

/// Returns the tile sizes of the kernel that a call runs.
static FailureOr<LaunchTiles> chooseTiles(ModuleOp module, LaunchShapes shapes, const CompileOptions &options) {
  auto attention = findFirst<flash::ScoresOpInterface>(module);
  const PipelineOptions &pipeline = options.pipeline;
  bool mayHaveKernel = attention && !attention.getQType().getElementType().isF32() && !options.addAlgorithm &&
                       (pipeline.algorithm == "fa2" || pipeline.algorithm == "split-kv");
  if (!mayHaveKernel || pipeline.target == kCPUTarget)
    return LaunchTiles{options, options, ""};
  if (failed(checkTarget(module, pipeline.target)))
    return failure();
  FailureOr<KernelPlan> plan = chooseKernel(module, makeRequest(options));
  if (failed(plan))
    return failure();
  if (plan->kind != KernelKind::Decode)
    return chooseLaunchTiles(attention, shapes, options);
  CompileOptions tiled = withSchedule(options, *plan->schedule);
  return LaunchTiles{tiled, tiled, ""};
}

/// Lowers a module for counting traffic. The ops in loops stay as they are, since they work on tiles that are on the
/// chip. With passes of the caller (addAlgorithm), an op outside of all loops may remain. The scores of this op are in
/// device memory, so then all flash ops are decomposed.
static FailureOr<OwningOpRef<ModuleOp>> lowerForTraffic(ModuleOp module, const CompileOptions &options) {
  auto loops = lowerToLoops(module, options);
  if (failed(loops) || !options.addAlgorithm || !hasWholeScores(**loops))
    return loops;
  return decompose(**loops, options);
}

static FailureOr<OwningOpRef<ModuleOp>> lowerForArithmetic(ModuleOp module, const CompileOptions &options) {
  auto loops = lowerToLoops(module, options);
  if (failed(loops))
    return failure();
  return decompose(**loops, options);
}

FailureOr<Cost> flashc::countAlgorithmCost(func::FuncOp source, ArrayRef<SmallVector<int64_t, 4>> shapes,
                                           const CompileOptions &options) {
  WalkResult plain = source.walk([](flash::PlainOpInterface op) {
    op->emitOpError() << "expected an op with scores; the cost of other ops is not counted";
    return WalkResult::interrupt();
  });
  if (plain.wasInterrupted())
    return failure();
  OwningOpRef<ModuleOp> module = source->getParentOfType<ModuleOp>().clone();
  if (failed(keepFunction(*module, source.getName(), options)))
    return failure();
  FailureOr<LaunchTiles> tiles = chooseTiles(*module, SmallVector<ArrayRef<int64_t>>(shapes), options);
  if (failed(tiles))
    return failure();
  auto moved = lowerForTraffic(*module, tiles->loaded), computed = lowerForArithmetic(*module, tiles->computed);
  if (failed(moved) || failed(computed))
    return failure();
  auto count = [&](ModuleOp module) { return countCost(module.lookupSymbol<func::FuncOp>(source.getName()), shapes); };
  FailureOr<Cost> traffic = count(**moved);
  if (failed(traffic))
    return failure();
  FailureOr<Cost> arithmetic = count(**computed);
  if (failed(arithmetic))
    return failure();
  return Cost{arithmetic->matmulFlops, arithmetic->otherFlops, traffic->bytesRead, traffic->bytesWritten};
}
