//===- AlgorithmPipelines.cpp - the algorithms as lists of passes -------------------------------------------------===//

#include "flashc/Dialect/Flash/IR/Flash.h"
#include "flashc/Dialect/Flash/Transforms/IndexPasses.h"
#include "flashc/Dialect/Flash/Transforms/Passes.h"
#include "flashc/Pipelines/Pipelines.h"
#include "flashc/Schedule/Schedule.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Pass/PassRegistry.h"
#include "mlir/Transforms/Passes.h"

using namespace mlir;

llvm::ArrayRef<llvm::StringRef> flashc::getAlgorithms() {
  static const llvm::StringRef names[] = {"standard", "fa1", "fa2", "split-kv"};
  return names;
}

/// Adds the passes for the tiled loops of FlashAttention: the loop over keys is outermost, the state is in tensors, and
/// it is normalised in each step.
static void addTiledLoops(OpPassManager &pm, const flashc::PipelineOptions &options) {
  flash::OnlineSoftmaxOptions softmax;
  softmax.normalize = flash::Normalize::EachStep;
  pm.addPass(flash::createOnlineSoftmax(softmax));
  using flashc::SplitGradients;
  if (options.splitGradients != SplitGradients::None)
    pm.addPass(flash::createSplitGradients({/*each=*/options.splitGradients == SplitGradients::Each}));
  flash::TileOptions tile;
  bool isScheduled = options.residentTile && options.streamedTile;
  tile.qTile = options.qTile || isScheduled ? options.qTile : flashc::kDefaultTile;
  tile.kvTile = options.kvTile || isScheduled ? options.kvTile : flashc::kDefaultTile;
  tile.residentTile = options.residentTile;
  tile.streamedTile = options.streamedTile;
  tile.gradientTile = options.gradientTile;
  tile.headTile = options.headTile;
  pm.addPass(flash::createTile(tile));
  pm.addPass(flash::createPageKV());
  pm.addPass(createCanonicalizerPass());
  pm.addPass(createCSEPass());
}

/// Adds the passes for the tiled loops of Flash-Decoding, which read keys and values where the cache stores them.
static void addSplitLoops(OpPassManager &pm, const flashc::PipelineOptions &options) {
  pm.addPass(flash::createOnlineSoftmax());
  flash::SplitKVOptions split;
  split.splits = options.chunk ? 0 : options.splits;
  split.chunk = options.chunk;
  if (options.kvTile)
    split.kvTile = options.kvTile;
  pm.addPass(flash::createSplitKV(split));
  pm.addPass(createCanonicalizerPass());
  pm.addPass(createCSEPass());
  pm.addPass(flash::createPageKV());
  pm.addPass(createLoopInvariantCodeMotionPass());
  pm.addPass(createCanonicalizerPass());
  pm.addPass(createCSEPass());
}

void flashc::buildAlgorithmPipeline(OpPassManager &pm, const PipelineOptions &options) {
  pm.addPass(flash::createToTensors());
  if (options.algorithm == "standard") {
    pm.addPass(flash::createDecompose());
    return;
  }
  pm.addPass(flash::createWrapIndices());
  pm.addPass(flash::createFuse());
  pm.addPass(flash::createTabulateRows());
  pm.addPass(flash::createDifferentiateCaptures());
  pm.addPass(flash::createDifferentiateScores());
  if (options.algorithm == "split-kv") {
    addSplitLoops(pm, options);
    return;
  }
  addTiledLoops(pm, options);
  if (options.algorithm == "fa1") {
    pm.addPass(flash::createRecomputeDelta());
    return;
  }
  pm.addPass(flash::createSwapLoops());
  pm.addPass(flash::createPackRows());
  if (options.alignQueries)
    pm.addPass(flash::createAlignQueries());
  pm.addPass(flash::createBoundLoops({/*maps=*/options.splits == 1})); // runs of tiles cannot be cut into parts
  pm.addPass(flash::createTabulateColumns());
  pm.addPass(flash::createParallelize());
  pm.addPass(createCanonicalizerPass());
  pm.addPass(createCSEPass());
  if (options.splits == 1)
    return;
  pm.addPass(flash::createSplitKeyLoops({options.splits, options.partsByWork}));
  pm.addPass(createCanonicalizerPass());
  pm.addPass(createCSEPass());
}

void flashc::registerPipelines() {
  for (StringRef name : getAlgorithms()) // a pass has the name flash-split-kv already
    PassPipelineRegistration<>(name == "split-kv" ? "flash-decoding" : "flash-" + name.str(),
                               "L0 to L1 by the algorithm " + name.str(), [name](OpPassManager &pm) {
                                 PipelineOptions options;
                                 options.algorithm = name.str();
                                 buildAlgorithmPipeline(pm, options);
                               });
  PassPipelineRegistration<>("flash-lower-to-cpu", "L0 or L1 to the LLVM dialect, for the CPU",
                             buildCPULoweringPipeline);
}
