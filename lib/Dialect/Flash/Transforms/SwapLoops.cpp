//===- SwapLoops.cpp - from FlashAttention to FlashAttention-2 ----------------------------------------------------===//

#include "flashc/Dialect/Flash/Transforms/SwapLoops.h"
#include "LoopUtils.h"
#include "flashc/Dialect/Flash/Transforms/Passes.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

namespace mlir::flash {
#define GEN_PASS_DEF_SWAPLOOPS
#include "flashc/Dialect/Flash/Transforms/Passes.h.inc"
} // namespace mlir::flash

using namespace mlir;
using namespace mlir::flash;

namespace {
/// Builds the swapped nest in front of `flash.finalize`, from the outside in.
class Swapper {
public:
  explicit Swapper(SwapPlan thePlan) : plan(std::move(thePlan)), op(plan.op), finalize(plan.finalize), b(finalize) {}

  void run() {
    SmallVector<Value> outputs(finalize.getDpsInits());
    SmallVector<scf::ForOp> newLoops = cloneQueryLoops(outputs);
    SmallVector<Value> stored = storeOutputs(outputs, cloneKvLoop(makeInitialTiles()));
    for (scf::ForOp loop : llvm::reverse(newLoops)) {
      scf::YieldOp::create(b, loop.getLoc(), stored);
      stored.assign(loop.result_begin(), loop.result_end());
      b.setInsertionPointAfter(loop);
    }
    finalize->replaceAllUsesWith(stored);
    eraseOldNest();
  }

private:
  bool isStateOp(Operation *candidate) const {
    return llvm::any_of(plan.state, [&](const StateAccess &access) {
      return candidate == access.read || candidate == access.pad || candidate == access.cut ||
             candidate == access.write;
    });
  }

  /// Clones every loop but the kv loop, with the ops that may run outside the kv loop, and collects the others. Leaves
  /// the insertion point in the innermost new loop and its arguments in `outputs`.
  SmallVector<scf::ForOp> cloneQueryLoops(SmallVectorImpl<Value> &outputs) {
    SmallVector<scf::ForOp> newLoops;
    if (plan.loops.empty())
      kvBody.push_back(op);
    for (auto [position, loop] : llvm::enumerate(plan.loops)) {
      if (position != plan.kvLoop) {
        auto newLoop = scf::ForOp::create(b, loop.getLoc(), mapping.lookupOrDefault(loop.getLowerBound()),
                                          mapping.lookupOrDefault(loop.getUpperBound()),
                                          mapping.lookupOrDefault(loop.getStep()), outputs);
        newLoop->setDiscardableAttrs(loop->getDiscardableAttrDictionary());
        mapping.map(loop.getInductionVar(), newLoop.getInductionVar());
        outputs.assign(newLoop.getRegionIterArgs().begin(), newLoop.getRegionIterArgs().end());
        b.setInsertionPointToStart(newLoop.getBody());
        newLoops.push_back(newLoop);
      }
      for (Operation &nested : loop.getBody()->without_terminator()) {
        bool isNextLoop = position + 1 < plan.loops.size() && &nested == plan.loops[position + 1];
        if (isNextLoop || isStateOp(&nested))
          continue;
        if (plan.onKv.contains(&nested))
          kvBody.push_back(&nested);
        else
          b.clone(nested, mapping);
      }
    }
    return newLoops;
  }

  /// The state tiles before the first key.
  SmallVector<Value> makeInitialTiles() {
    SmallVector<Value> tiles;
    for (auto [access, init] : llvm::zip(plan.state, op.getDpsInits())) {
      auto tileType = cast<RankedTensorType>(init.getType());
      auto fill = access.init.getDefiningOp<linalg::FillOp>();
      if (fill) {
        Value empty = tensor::EmptyOp::create(b, fill.getLoc(), tileType.getShape(), tileType.getElementType());
        tiles.push_back(linalg::FillOp::create(b, fill.getLoc(), fill.getInputs(), ValueRange{empty}).getResult(0));
        continue;
      }
      IRMapping readMapping(mapping);
      Value tile = access.init;
      for (Operation *step : {access.read.getOperation(), access.pad.getOperation()})
        if (step) {
          readMapping.map(step->getOperand(0), tile);
          tile = b.clone(*step, readMapping)->getResult(0);
        }
      tiles.push_back(tile);
    }
    return tiles;
  }

  /// Clones the kv loop (or its only iteration) around the ops that belong in it; returns the final state tiles.
  SmallVector<Value> cloneKvLoop(ArrayRef<Value> initialTiles) {
    OpBuilder::InsertionGuard guard(b);
    scf::ForOp newLoop;
    SmallVector<Value> tiles(initialTiles);
    if (plan.kvLoop) {
      scf::ForOp loop = plan.loops[*plan.kvLoop];
      newLoop = scf::ForOp::create(b, loop.getLoc(), mapping.lookupOrDefault(loop.getLowerBound()),
                                   mapping.lookupOrDefault(loop.getUpperBound()),
                                   mapping.lookupOrDefault(loop.getStep()), tiles);
      newLoop->setDiscardableAttrs(loop->getDiscardableAttrDictionary());
      mapping.map(loop.getInductionVar(), newLoop.getInductionVar());
      tiles.assign(newLoop.getRegionIterArgs().begin(), newLoop.getRegionIterArgs().end());
      b.setInsertionPointToStart(newLoop.getBody());
    }
    mapping.map(op.getDpsInits(), tiles);
    for (Operation *nested : kvBody)
      b.clone(*nested, mapping);
    auto newOp = mapping.lookup(op.getAccOut()).getDefiningOp<OnlineAttentionOp>();
    if (plan.startsEmpty)
      newOp.setNormalize(Normalize::Deferred);
    if (!newLoop)
      return llvm::to_vector_of<Value>(newOp->getResults());
    scf::YieldOp::create(b, newLoop.getLoc(), newOp->getResults());
    return llvm::to_vector_of<Value>(newLoop.getResults());
  }

  /// Finalizes the tiles and inserts o and lse where acc and m used to be written.
  SmallVector<Value> storeOutputs(ArrayRef<Value> outputs, ArrayRef<Value> tiles) {
    Location loc = finalize.getLoc();
    SmallVector<Value> empties;
    for (auto [output, tile] : llvm::zip(outputs, tiles))
      empties.push_back(tensor::EmptyOp::create(b, loc, cast<RankedTensorType>(tile.getType()).getShape(),
                                                cast<RankedTensorType>(output.getType()).getElementType()));
    auto tiled = FinalizeOp::create(b, loc, TypeRange(ValueRange(empties)), tiles[0], tiles[1], tiles[2], empties[0],
                                    empties[1], plan.startsEmpty ? Normalize::Deferred : finalize.getNormalize(),
                                    finalize.getNoEmptyRows());
    SmallVector<Value> stored;
    for (auto [access, output, tile] : llvm::zip(plan.state, outputs, tiled->getResults())) {
      Value valid = tile;
      if (access.cut) {
        tensor::ExtractSliceOp cut = access.cut;
        valid = tensor::ExtractSliceOp::create(b, loc, tile, cut.getMixedOffsets(), remap(mapping, cut.getMixedSizes()),
                                               cut.getMixedStrides());
      }
      if (tensor::InsertSliceOp write = access.write)
        valid = tensor::InsertSliceOp::create(b, loc, valid, output, remap(mapping, write.getMixedOffsets()),
                                              remap(mapping, write.getMixedSizes()), write.getMixedStrides());
      stored.push_back(valid);
    }
    return stored;
  }

  void eraseOldNest() {
    finalize->erase();
    if (!plan.loops.empty()) {
      plan.loops.front()->erase();
    } else {
      for (StateAccess &access : plan.state)
        for (Operation *step : {access.write.getOperation(), access.cut.getOperation()})
          if (step)
            step->erase();
      op->erase();
    }
    llvm::SmallSetVector<Operation *, 4> inits; // row_max and row_sum may begin with one value
    for (StateAccess &access : plan.state)
      if (Operation *init = access.init.getDefiningOp())
        inits.insert(init);
    for (Operation *init : inits)
      if (isOpTriviallyDead(init))
        init->erase();
  }

  SwapPlan plan;
  OnlineAttentionOp op;
  FinalizeOp finalize;
  OpBuilder b;
  IRMapping mapping;
  SmallVector<Operation *> kvBody; // in execution order
};

/// Whether a result goes to flash.finalize only, cut or not.
bool isFinalized(Value acc) {
  if (!acc.hasOneUse())
    return false;
  Operation *user = *acc.user_begin();
  auto cut = dyn_cast<tensor::ExtractSliceOp>(user);
  return cut ? isFinalized(cut.getResult()) : isa<FinalizeOp>(user);
}

struct SwapLoops : flash::impl::SwapLoopsBase<SwapLoops> {
  using SwapLoopsBase::SwapLoopsBase;

  void runOnOperation() override {
    SmallVector<OnlineAttentionOp> ops;
    getOperation()->walk([&](OnlineAttentionOp op) { ops.push_back(op); });
    for (OnlineAttentionOp op : ops) {
      if (!op->getParentOfType<scf::ForOp>() && !isFinalized(op.getAccOut()))
        continue; // Neither tiled nor a complete attention.
      FailureOr<SwapPlan> plan = planSwapLoops(op);
      if (failed(plan))
        return signalPassFailure();
      numInterchanged += !plan->isKvInnermost();
      numPromoted += !plan->isTilewise();
      applySwapLoops(*plan);
    }
  }
};
} // namespace

void mlir::flash::applySwapLoops(SwapPlan plan) {
  if (!plan.isTilewise())
    return Swapper(std::move(plan)).run();
  // The tiles are carried already: only the normalisation is left to defer.
  if (!plan.startsEmpty)
    return;
  plan.op.setNormalize(Normalize::Deferred);
  plan.finalize.setNormalize(Normalize::Deferred);
}
