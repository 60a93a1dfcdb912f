//===- SwapLoops.cpp - from FlashAttention to FlashAttention-2 ----------------------------------------------------===//

#include "flashc/Dialect/Flash/Transforms/SwapLoops.h"
#include "LoopUtils.h"
#include "flashc/Analysis/TilePartition.h"
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
/// Builds the swapped nest, from the outermost loop to the innermost. The new nest is placed before the flash.finalize.
/// If there is no flash.finalize, the new nest is placed before the old one.
class Swapper {
public:
  explicit Swapper(SwapPlan thePlan)
      : plan(std::move(thePlan)), op(plan.op), finalize(plan.finalize),
        b(finalize ? finalize.getOperation() : plan.getNest()) {}

  void run() {
    SmallVector<Value> outputs = getOutputs();
    SmallVector<scf::ForOp> newLoops = cloneOuterLoops(outputs);
    SmallVector<Value> stored = storeOutputs(outputs, cloneStreamedLoop(makeInitialTiles()));
    for (scf::ForOp loop : llvm::reverse(newLoops)) {
      scf::YieldOp::create(b, loop.getLoc(), stored);
      stored.assign(loop.result_begin(), loop.result_end());
      b.setInsertionPointAfter(loop);
    }
    if (finalize)
      finalize->replaceAllUsesWith(stored);
    else
      for (auto [access, value] : llvm::zip_equal(plan.state, stored))
        access.result.replaceAllUsesWith(value);
    eraseOldNest();
  }

private:
  /// Returns the tensors into which tiles are stored. Every element is overwritten.
  SmallVector<Value> getOutputs() {
    if (finalize)
      return llvm::to_vector_of<Value>(finalize.getDpsInits());
    return llvm::map_to_vector(plan.state, [&](StateAccess &access) -> Value {
      SmallVector<OpFoldResult> sizes = tensor::getMixedSizes(b, op.getLoc(), access.init);
      return tensor::EmptyOp::create(b, op.getLoc(), sizes, getElementTypeOrSelf(access.init.getType()));
    });
  }

  bool isStateOp(Operation *candidate) const {
    return llvm::any_of(plan.state, [&](const StateAccess &access) {
      return candidate == access.read || candidate == access.pad || candidate == access.cut ||
             candidate == access.write;
    });
  }

  /// Creates an empty loop with the bounds of `loop` and the init values `carried`. Moves the insertion point to the
  /// begin of the new loop, and sets `carried` to the new loop's arguments.
  scf::ForOp cloneLoop(scf::ForOp loop, SmallVectorImpl<Value> &carried) {
    auto newLoop = scf::ForOp::create(b, loop.getLoc(), mapping.lookupOrDefault(loop.getLowerBound()),
                                      mapping.lookupOrDefault(loop.getUpperBound()),
                                      mapping.lookupOrDefault(loop.getStep()), carried);
    newLoop->setDiscardableAttrs(loop->getDiscardableAttrDictionary());
    mapping.map(loop.getInductionVar(), newLoop.getInductionVar());
    carried.assign(newLoop.getRegionIterArgs().begin(), newLoop.getRegionIterArgs().end());
    b.setInsertionPointToStart(newLoop.getBody());
    return newLoop;
  }

  /// Clones every loop but the streamed one, and the ops that may run outside of the streamed loop. Collects the other
  /// ops in `streamBody`. Leaves the insertion point in the innermost new loop, and the arguments of this loop in
  /// `outputs`.
  SmallVector<scf::ForOp> cloneOuterLoops(SmallVectorImpl<Value> &outputs) {
    SmallVector<scf::ForOp> newLoops;
    if (plan.loops.empty())
      streamBody.push_back(op);
    for (auto [position, loop] : llvm::enumerate(plan.loops)) {
      if (position != plan.streamedLoop)
        newLoops.push_back(cloneLoop(loop, outputs));
      for (Operation &nested : loop.getBody()->without_terminator()) {
        bool isNextLoop = position + 1 < plan.loops.size() && &nested == plan.loops[position + 1];
        if (isNextLoop || isStateOp(&nested))
          continue;
        if (plan.onStream.contains(&nested))
          streamBody.push_back(&nested);
        else
          b.clone(nested, mapping);
      }
    }
    return newLoops;
  }

  /// Emits the state tiles with which the streamed loop begins.
  SmallVector<Value> makeInitialTiles() {
    SmallVector<Value> tiles;
    for (auto [access, init] : llvm::zip_equal(plan.state, getInits())) {
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

  SmallVector<Value> getInits() {
    return llvm::map_to_vector(op.getStepState(),
                               [&](const StepOperand &state) { return op->getOperand(state.number); });
  }

  /// Clones the streamed loop and, into it, the ops of `streamBody`. If there is no streamed loop, clones these ops
  /// alone. Returns the final state tiles.
  SmallVector<Value> cloneStreamedLoop(ArrayRef<Value> initialTiles) {
    OpBuilder::InsertionGuard guard(b);
    scf::ForOp newLoop;
    SmallVector<Value> tiles(initialTiles);
    if (plan.streamedLoop)
      newLoop = cloneLoop(plan.loops[*plan.streamedLoop], tiles);
    mapping.map(getInits(), tiles);
    for (Operation *nested : streamBody)
      b.clone(*nested, mapping);
    Operation *newOp = mapping.lookup(op->getResult(0)).getDefiningOp();
    if (auto online = dyn_cast<OnlineAttentionOp>(newOp); online && plan.startsEmpty)
      online.setNormalize(Normalize::Deferred);
    if (!newLoop)
      return llvm::to_vector_of<Value>(newOp->getResults());
    scf::YieldOp::create(b, newLoop.getLoc(), newOp->getResults());
    return llvm::to_vector_of<Value>(newLoop.getResults());
  }

  /// Returns the slice of the sinks for the tile's heads. Null without sinks.
  Value sliceSinks() {
    Value sinks = finalize.getSinks();
    tensor::InsertSliceOp write = plan.state[0].write;
    if (!sinks || !write)
      return sinks;
    constexpr unsigned kHeads = 1;
    SmallVector<OpFoldResult> offsets = remap(mapping, write.getMixedOffsets()),
                              sizes = remap(mapping, write.getMixedSizes());
    return tensor::ExtractSliceOp::create(b, finalize.getLoc(), sinks, offsets[kHeads], sizes[kHeads],
                                          OpFoldResult(b.getIndexAttr(1)));
  }

  /// Returns the tiles of the outputs. A flash.finalize computes them from `tiles`, the final state. If the step needs
  /// no flash.finalize, returns `tiles`.
  SmallVector<Value> finalizeTiles(ArrayRef<Value> outputs, ArrayRef<Value> tiles) {
    if (!finalize)
      return llvm::to_vector(tiles);
    Location loc = finalize.getLoc();
    SmallVector<Value> empties;
    for (auto [output, tile] : llvm::zip(outputs, tiles))
      empties.push_back(tensor::EmptyOp::create(b, loc, cast<RankedTensorType>(tile.getType()).getShape(),
                                                cast<RankedTensorType>(output.getType()).getElementType()));
    auto tiled = FinalizeOp::create(
        b, loc, TypeRange(ValueRange(empties)), tiles[0], tiles[1], tiles[2], empties[0], empties[1], sliceSinks(),
        plan.startsEmpty ? Normalize::Deferred : finalize.getNormalize(), finalize.getNoEmptyRows());
    return llvm::to_vector_of<Value>(tiled->getResults());
  }

  /// Inserts the tiles of the outputs where the tiles of the state were written. In attention, o replaces acc, and lse
  /// replaces m.
  SmallVector<Value> storeOutputs(ArrayRef<Value> outputs, ArrayRef<Value> tiles) {
    Location loc = finalize ? finalize.getLoc() : op.getLoc();
    SmallVector<Value> stored;
    for (auto [access, output, tile] : llvm::zip(plan.state, outputs, finalizeTiles(outputs, tiles))) {
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
    if (finalize)
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
    llvm::SmallSetVector<Operation *, 4> inits; // a set, since several states may share an init
    for (StateAccess &access : plan.state)
      if (Operation *init = access.init.getDefiningOp())
        inits.insert(init);
    for (Operation *init : inits)
      if (isOpTriviallyDead(init))
        init->erase();
  }

  SwapPlan plan;
  StepOpInterface op;
  FinalizeOp finalize;
  OpBuilder b;
  IRMapping mapping;
  SmallVector<Operation *> streamBody; // in execution order
};

/// Whether the only user of `acc` is a flash.finalize, or a slice whose only user is a flash.finalize.
bool isFinalized(Value acc) {
  if (!acc.hasOneUse())
    return false;
  Operation *user = *acc.user_begin();
  auto cut = dyn_cast<tensor::ExtractSliceOp>(user);
  return cut ? isFinalized(cut.getResult()) : isa<FinalizeOp>(user);
}

/// Whether the pass skips `op`, a step outside of loops. The pass skips a step that needs a flash.finalize if no
/// flash.finalize uses its state. It skips any other step whose results do not have static shapes.
bool isPartial(StepOpInterface op) {
  if (op->getParentOfType<scf::ForOp>())
    return false;
  return op.needsFinalize() ? !isFinalized(op->getResult(0))
                            : !cast<RankedTensorType>(op->getResult(0).getType()).hasStaticShape();
}

/// Returns the value that fills the init of `carried`, an argument of a loop. None if the init is not the result of a
/// linalg.fill, if an op other than `write` changes the carried tensor in the loops around `write`, or if two
/// iterations may write to the same slice.
std::optional<Value> getInitialFill(BlockArgument carried, tensor::InsertSliceOp write) {
  SmallVector<scf::ForOp> loops;
  Value init = carried, result = write.getResult();
  while (auto argument = dyn_cast<BlockArgument>(init)) {
    auto loop = dyn_cast<scf::ForOp>(argument.getOwner()->getParentOp());
    if (!loop || loop.getTiedLoopYieldedValue(argument)->get() != result)
      return std::nullopt;
    loops.insert(loops.begin(), loop);
    init = loop.getTiedLoopInit(argument)->get();
    result = loop.getTiedLoopResult(argument);
  }
  auto fill = init.getDefiningOp<linalg::FillOp>();
  TilePartition partition =
      proveTilePartition(cast<OffsetSizeAndStrideOpInterface>(*write), loops, /*extents=*/std::nullopt);
  if (!fill || !partition)
    return std::nullopt;
  for (unsigned position = 0; position < loops.size(); ++position)
    if (!partition.isMovedBy(position))
      return std::nullopt;
  return fill.getInputs()[0];
}

/// Changes the init values of resident states, for a step that adds to streamed tiles. Before the pass, such a state
/// begins with a slice of a tensor that is filled with the identity. The slice is read before the streamed loop, or
/// before the step if there is only one streamed tile. After the pass the state begins with a tile of the identity.
/// Returns whether there was such a slice.
bool promoteResident(StepOpInterface op) {
  scf::ForOp loop = getFoldingLoop(op);
  bool isPromoted = false;
  for (auto [number, part] : llvm::enumerate(op.getStepState())) {
    if (part.movesWith(op.getStreamedDim()))
      continue;
    OpOperand &init = loop ? loop.getInitArgsMutable()[number] : op->getOpOperand(part.number);
    Value tile = init.get();
    if (auto pad = tile.getDefiningOp<tensor::PadOp>())
      tile = pad.getSource();
    auto read = tile.getDefiningOp<tensor::ExtractSliceOp>();
    auto carried = read ? dyn_cast<BlockArgument>(read.getSource()) : BlockArgument();
    if (!carried)
      continue;
    tensor::InsertSliceOp write;
    for (Operation *user : carried.getUsers())
      if (user != read)
        write = dyn_cast<tensor::InsertSliceOp>(user);
    if (!write || write.getMixedOffsets() != read.getMixedOffsets() || !llvm::hasNItems(carried.getUsers(), 2))
      continue;
    std::optional<Value> identity = getInitialFill(carried, write);
    if (!identity)
      continue;
    OpBuilder b(loop ? loop.getOperation() : op.getOperation());
    auto type = cast<RankedTensorType>(init.get().getType());
    Value empty = tensor::EmptyOp::create(b, op.getLoc(), type.getShape(), type.getElementType());
    Operation *pad = init.get().getDefiningOp();
    init.set(linalg::FillOp::create(b, op.getLoc(), *identity, empty).getResult(0));
    if (pad != read && isOpTriviallyDead(pad))
      pad->erase();
    if (isOpTriviallyDead(read))
      read->erase();
    isPromoted = true;
  }
  return isPromoted;
}

struct SwapLoops : flash::impl::SwapLoopsBase<SwapLoops> {
  using SwapLoopsBase::SwapLoopsBase;

  void runOnOperation() override {
    SmallVector<StepOpInterface> ops;
    getOperation()->walk([&](StepOpInterface op) { ops.push_back(op); });
    for (StepOpInterface op : ops) {
      if (op.addsToStreamed()) { // flash-tile has made the streamed loop the innermost one
        numPromoted += promoteResident(op);
        continue;
      }
      if (isPartial(op))
        continue;
      FailureOr<SwapPlan> plan = planSwapLoops(op);
      if (failed(plan))
        return signalPassFailure();
      numInterchanged += !plan->isStreamInnermost();
      numPromoted += !plan->isTilewise();
      applySwapLoops(*plan);
    }
  }
};
} // namespace

void mlir::flash::applySwapLoops(SwapPlan plan) {
  if (!plan.isTilewise())
    return Swapper(std::move(plan)).run();
  // If the loop carries tiles already, only the normalisation becomes deferred.
  if (!plan.startsEmpty || !plan.finalize)
    return;
  cast<OnlineAttentionOp>(plan.op.getOperation()).setNormalize(Normalize::Deferred);
  plan.finalize.setNormalize(Normalize::Deferred);
}
