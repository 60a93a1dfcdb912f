//===- KernelPipeline.cpp - from an algorithm to a kernel ---------------------------------------------------------===//

#include "flashc/Conversion/Passes.h"
#include "flashc/Dialect/Tile/Transforms/Passes.h"
#include "flashc/Launch/Passes.h"
#include "flashc/Pipelines/Pipelines.h"
#include "mlir/Conversion/AffineToStandard/AffineToStandard.h"
#include "mlir/Conversion/ReconcileUnrealizedCasts/ReconcileUnrealizedCasts.h"
#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Transforms/Passes.h"

using namespace mlir;

/// Adds the passes from L1 to L2, which apply the schedule.
static void addSchedule(OpPassManager &pm, const flashc::PipelineOptions &options) {
  flashc::ConvertFlashToTileOptions convert;
  convert.overrides = options.schedule;
  convert.target = options.target;
  pm.addPass(flashc::createConvertFlashToTile(convert));
  pm.addPass(createCanonicalizerPass());
  pm.addPass(createCSEPass());
  pm.addPass(flashc::createOrder());
  pm.addPass(tile::createPrefetch());
  pm.addPass(tile::createPipeline());
  pm.addPass(tile::createPersist());
  pm.addPass(tile::createPingPong());
  pm.addPass(tile::createSpecialize());
  pm.addPass(tile::createPlaceWaits());
  pm.addPass(tile::createSplitLoops());
  pm.addPass(tile::createOverlapEpilogue());
  pm.addPass(tile::createDivideProducts());
  pm.addPass(flashc::createProgrammaticLaunch());
  pm.addPass(createCanonicalizerPass());
  pm.addPass(createCSEPass());
}

void flashc::buildCodePipeline(OpPassManager &pm, KernelLevel level) {
  pm.addPass(createConvertTileToNVVM());
  pm.addPass(createCSEPass());
  if (level == KernelLevel::NVVM)
    return;
  pm.addNestedPass<gpu::GPUModuleOp>(createConvertKernelToLLVM());
  pm.addPass(createReconcileUnrealizedCastsPass());
  pm.addPass(createCSEPass());
}

void flashc::buildKernelPipeline(OpPassManager &pm, const PipelineOptions &options, KernelLevel level) {
  addSchedule(pm, options);
  if (level == KernelLevel::Tile)
    return;
  pm.addPass(createLowerAffinePass());
  pm.addPass(createExpandMath());
  if (level != KernelLevel::Expanded)
    buildCodePipeline(pm, level);
}
