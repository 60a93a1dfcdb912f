//===- SwapLoopsPlan.cpp - the proof behind flash-swap-loops ------------------------------------------------------===//

#include "LoopUtils.h"
#include "flashc/Analysis/TilePartition.h"
#include "flashc/Dialect/Flash/Transforms/SwapLoops.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Utils/StaticValueUtils.h"
#include "mlir/IR/Matchers.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

using namespace mlir;
using namespace mlir::flash;

static constexpr Refusal refuse{"swap loops"};

static Operation *getOnlyUser(Value value) { return value.hasOneUse() ? *value.user_begin() : nullptr; }

/// Returns the loop that carries `value` as an iteration argument. Null if there is none.
static scf::ForOp getCarryingLoop(Value value) {
  auto argument = dyn_cast<BlockArgument>(value);
  auto loop = argument ? dyn_cast<scf::ForOp>(argument.getOwner()->getParentOp()) : scf::ForOp();
  return loop && value != loop.getInductionVar() ? loop : scf::ForOp();
}

/// Returns the innermost loop, or the op itself if there is no loop.
static Operation *getInnermost(SwapPlan &plan) {
  return plan.loops.empty() ? plan.op.getOperation() : plan.loops.back().getOperation();
}

/// Finds the ops by which `op` reads state `k` from the tensor that the innermost loop carries, and the ops that write
/// the new state back. Returns the tensor that is read and the tensor after the write.
static std::pair<Value, Value> traceAccess(StepOpInterface op, unsigned k, StateAccess &access) {
  Value in = op->getOperand(op.getStepState()[k].number), out = op->getResult(k);
  if ((access.pad = in.getDefiningOp<tensor::PadOp>()))
    in = access.pad.getSource();
  if ((access.read = in.getDefiningOp<tensor::ExtractSliceOp>()))
    in = access.read.getSource();
  if ((access.cut = dyn_cast_or_null<tensor::ExtractSliceOp>(getOnlyUser(out))))
    out = access.cut.getResult();
  access.write = dyn_cast_or_null<tensor::InsertSliceOp>(getOnlyUser(out));
  if (access.write && access.write.getSource() == out)
    out = access.write.getResult();
  return {in, out};
}

/// Verifies that only the access of state `k` uses `in`, the argument of the innermost loop for this state, and that
/// the access reads, folds and writes back one slice.
static LogicalResult verifyAccess(SwapPlan &plan, unsigned k, Value in, Operation *loop) {
  StateAccess &access = plan.state[k];
  if (!access.read != !access.write || (access.write && access.write.getDest() != in))
    return refuse(loop, "expected " + plan.getName(k) + " to be read by a slice and written back by a slice", plan.op);
  SmallVector<Value> reads;
  if (getCarryingLoop(in)) // else it is an init, which several states may share
    reads.push_back(in);
  for (Operation *slice : {access.read.getOperation(), access.pad.getOperation()})
    if (slice)
      reads.push_back(slice->getResult(0));
  Operation *expected[] = {access.read, access.pad, access.write, plan.op};
  for (Value value : reads)
    for (Operation *user : value.getUsers())
      if (!llvm::is_contained(expected, user))
        return refuse(loop, plan.getName(k) + " is used by more than this " + plan.op->getName().getStringRef(), user);
  auto isNotZero = [](OpFoldResult value) { return !isConstantIntValue(value, 0); };
  if (access.pad && llvm::any_of(access.pad.getMixedLowPad(), isNotZero))
    return refuse(loop, "expected " + plan.getName(k) + " to be padded at its end only", access.pad);
  if (access.cut && (llvm::any_of(access.cut.getMixedOffsets(), isNotZero) || !access.cut.hasUnitStride()))
    return refuse(loop, "expected the padding of " + plan.getName(k) + " to be cut from its end only", access.cut);
  return success();
}

/// Follows state `k` outwards through the loops that carry it: to the tensor before the outermost loop and, if the step
/// needs a flash.finalize, to the flash.finalize after this loop.
static LogicalResult traceState(SwapPlan &plan, unsigned k) {
  auto [in, out] = traceAccess(plan.op, k, plan.state[k]);
  SmallVector<scf::ForOp> loops;
  scf::ForOp loop = getCarryingLoop(in);
  Operation *inner = loop ? loop.getOperation() : plan.op.getOperation();
  if (failed(verifyAccess(plan, k, in, inner)))
    return failure();
  for (; loop; loop = getCarryingLoop(in)) {
    if (!loops.empty() && (!in.hasOneUse() || loops.back()->getParentOp() != loop))
      return refuse(loop, "expected " + plan.getName(k) + " to pass only through the loop inside", loops.back());
    OpResult result = loop.getTiedLoopResult(cast<BlockArgument>(in));
    if (loop.getTiedLoopYieldedValue(cast<BlockArgument>(in))->get() != out)
      return refuse(loop, "expected the loop to yield " + plan.getName(k) + " as the step inside leaves it",
                    loop.getBody()->getTerminator());
    if (!out.hasOneUse())
      return refuse(loop, plan.getName(k) + " is used by more than this " + plan.op->getName().getStringRef(),
                    *out.user_begin());
    loops.push_back(loop);
    in = loop.getTiedLoopInit(cast<BlockArgument>(in))->get();
    out = result;
  }
  std::reverse(loops.begin(), loops.end());
  if (k != 0 && loops != plan.loops)
    return refuse(inner, "expected " + plan.op.getStateNames() + " to be carried by the same loops", plan.op);
  plan.loops = loops;
  plan.state[k].init = in;
  plan.state[k].result = out;
  if (!plan.op.needsFinalize())
    return success();
  auto finalize = dyn_cast_or_null<FinalizeOp>(getOnlyUser(out));
  auto otherUser = llvm::find_if(out.getUsers(), [](Operation *user) { return !isa<FinalizeOp>(user); });
  if (!finalize || finalize->getOperand(k) != out || (k != 0 && finalize != plan.finalize))
    return refuse(plan.getNest(), "expected " + plan.getName(k) + " to be used by one flash.finalize only",
                  otherUser == out.user_end() ? nullptr : *otherUser);
  plan.finalize = finalize;
  return success();
}

/// Whether `access.cut` has the size of the slice that `access.write` writes. Without `access.write`, whether it has
/// the size of the whole state.
static bool cutsToSlice(StateAccess &access, ArrayRef<OpFoldResult> extents) {
  SmallVector<OpFoldResult> sizes = access.cut.getMixedSizes(), expected(extents);
  if (access.write)
    expected = access.write.getMixedSizes();
  return llvm::equal(sizes, expected, isEqualSize);
}

/// Returns a divisor of the number of query heads: the group of a tile whose key head is `h floordiv group`. 1 if the
/// tile does not say it.
static int64_t getHeadDivisor(StepOpInterface op) {
  Value tile = op.getMoving(StepDim::KeyHead).first;
  if (auto pad = tile ? tile.getDefiningOp<tensor::PadOp>() : tensor::PadOp())
    tile = pad.getSource();
  OpFoldResult head;
  if (auto cache = tile ? tile.getDefiningOp<CacheTileOp>() : CacheTileOp())
    head = getAsOpFoldResult(cache.getH());
  else if (auto slice = tile ? tile.getDefiningOp<tensor::ExtractSliceOp>() : tensor::ExtractSliceOp())
    head = slice.getMixedOffsets()[op.getMoving(StepDim::KeyHead).second];
  return head ? std::max<int64_t>(getGroupOfKeyHead(head, op.getPositionIn(StepDim::H)), 1) : 1;
}

/// Finds the streamed loop, which is the one that moves no slice of the state. Proves that the iterations of the other
/// loops own their slices.
static LogicalResult classifyLoops(SwapPlan &plan) {
  // The loops that move the first state in dimensions b, h and i. They have to move the other states, too.
  SmallVector<std::optional<unsigned>> loopOfRow(3);
  for (unsigned k = 0; k < plan.state.size(); ++k) {
    StateAccess &access = plan.state[k];
    SmallVector<OpFoldResult> extents = getKnownExtents(access.init);
    if (access.cut && !plan.loops.empty() && !cutsToSlice(access, extents)) // without a loop any cut is right
      return refuse(plan.getNest(), "expected the cut of " + plan.getName(k) + " to be as large as its slice",
                    access.cut);
    SmallVector<std::optional<unsigned>> loopOfDim(extents.size());
    if (access.read) {
      auto prove = [&](Operation *slice) {
        return proveTilePartition(cast<OffsetSizeAndStrideOpInterface>(slice), plan.loops, ArrayRef(extents),
                                  getHeadDivisor(plan.op));
      };
      TilePartition read = prove(access.read), write = prove(access.write);
      if (!read || !write)
        return refuse(getInnermost(plan),
                      "the iterations do not own their slices of " + plan.getName(k) + ": " +
                          (read ? write.failure : read.failure),
                      read ? access.write.getOperation() : access.read.getOperation());
      if (read.loopOfDim != write.loopOfDim)
        return refuse(getInnermost(plan), "expected " + plan.getName(k) + " to be written back where it was read",
                      access.write);
      loopOfDim = read.loopOfDim;
    }
    if (k == 0)
      loopOfRow.assign(loopOfDim.begin(), loopOfDim.begin() + 3);
    loopOfDim.resize(std::max<size_t>(loopOfDim.size(), 4)); // no loop may move dimension 3, which m and l lack
    if (ArrayRef(loopOfDim).take_front(3) != ArrayRef(loopOfRow) || loopOfDim[3])
      return refuse(plan.getNest(), "expected " + plan.op.getStateNames() + " to move with the same loops",
                    access.read ? access.read.getOperation() : plan.op.getOperation());
  }
  for (unsigned loop = 0; loop < plan.loops.size(); ++loop) {
    if (llvm::is_contained(loopOfRow, std::optional<unsigned>(loop)))
      continue;
    if (plan.streamedLoop)
      return refuse(plan.loops[loop], "expected one loop that carries a state tile from step to step, got two",
                    plan.loops[*plan.streamedLoop]);
    plan.streamedLoop = loop;
  }
  return success();
}

/// Collects the ops that have to run in the streamed loop: ops that depend on the loop's position or on the state, and
/// reads, since reads must not run if the loop has no iteration. Checks that the iterations depend on each other only
/// through the state. Bounds of loops and slices of the state have to leave the streamed loop. So checks that they
/// depend neither on its position nor on an op that runs in it.
static LogicalResult checkBodies(SwapPlan &plan) {
  DenseSet<Value> onStream;
  if (plan.streamedLoop)
    onStream.insert(plan.loops[*plan.streamedLoop].getInductionVar());
  for (scf::ForOp loop : plan.loops) {
    if (loop.getNumRegionIterArgs() != plan.state.size())
      return refuse(loop, "expected the loop to carry " + plan.op.getStateNames() + " only, got " +
                              Twine(loop.getNumRegionIterArgs()) + " values");
    for (Value carried : loop.getRegionIterArgs())
      onStream.insert(carried);
  }
  auto dependsOnStream = [&](Operation *op) {
    return op
        ->walk([&](Operation *nested) {
          return llvm::any_of(nested->getOperands(), [&](Value v) { return onStream.contains(v); })
                     ? WalkResult::interrupt()
                     : WalkResult::advance();
        })
        .wasInterrupted();
  };
  for (auto [position, loop] : llvm::enumerate(plan.loops)) {
    for (Operation &op : loop.getBody()->without_terminator()) {
      if (position + 1 < plan.loops.size() && &op == plan.loops[position + 1])
        continue;
      if (&op != plan.op && !isMemoryEffectFree(&op) && !hasSingleEffect<MemoryEffects::Read>(&op))
        return refuse(loop, "expected a loop body without side effects", &op);
      bool leavesStream = plan.streamedLoop && position >= *plan.streamedLoop;
      if (&op == plan.op || dependsOnStream(&op) || (leavesStream && !isPure(&op))) {
        plan.onStream.insert(&op);
        onStream.insert(op.result_begin(), op.result_end());
      }
    }
  }
  for (scf::ForOp loop : plan.loops)
    for (Value bound : {loop.getLowerBound(), loop.getUpperBound(), loop.getStep()})
      if (onStream.contains(bound))
        return refuse(loop, "the loop's bounds depend on the loops around it", bound.getDefiningOp());
  for (StateAccess &access : plan.state)
    for (Operation *slice : {access.read.getOperation(), access.write.getOperation(), access.pad.getOperation()})
      for (Value operand : slice ? slice->getOperands() : ValueRange())
        if (onStream.contains(operand) && !isa<RankedTensorType>(operand.getType()))
          return refuse(getInnermost(plan), "the slice of the state depends on the kv loop", slice);
  return success();
}

/// Checks that the nest can be rebuilt before `flash.finalize`.
static LogicalResult checkRebuild(SwapPlan &plan) {
  Operation *nest = plan.getNest(), *finalize = plan.finalize;
  for (Type tile : plan.op->getResultTypes())
    if (!cast<RankedTensorType>(tile).hasStaticShape())
      return refuse(nest, "expected tiles of static shape", plan.op);
  if (!finalize) // the new nest takes the place of the old one
    return success();
  if (nest->getBlock() != finalize->getBlock())
    return refuse(nest, "expected flash.finalize in the same block", finalize);
  if (isMemoryEffectFree(nest))
    return success();
  for (Operation *op = nest->getNextNode(); op != finalize; op = op->getNextNode())
    if (!isMemoryEffectFree(op) && !onlyReads(op))
      return refuse(nest, "what the nest reads may be written before flash.finalize", op);
  return success();
}

/// Whether a tensor is filled with `identity`.
static bool isFilled(Value tensor, float identity) {
  auto fill = tensor.getDefiningOp<linalg::FillOp>();
  FloatAttr value;
  return fill && matchPattern(fill.getInputs()[0], m_Constant(&value)) && value.getValueAsDouble() == identity;
}

FailureOr<SwapPlan> mlir::flash::planSwapLoops(StepOpInterface op) {
  SwapPlan plan;
  plan.op = op;
  plan.state.resize(op->getNumResults());
  for (unsigned k = 0; k < plan.state.size(); ++k)
    if (failed(traceState(plan, k)))
      return failure();
  auto online = dyn_cast<OnlineAttentionOp>(op.getOperation());
  if (online && online.getNormalize() != plan.finalize.getNormalize())
    return refuse(plan.getNest(), "expected flash.finalize to normalize as flash.online_attention does", plan.finalize);
  if (failed(classifyLoops(plan)) || failed(checkBodies(plan)) || (!plan.isTilewise() && failed(checkRebuild(plan))))
    return failure();
  plan.startsEmpty = llvm::all_of(llvm::zip_equal(plan.state, op.getStepState()), [](auto state) {
    return isFilled(std::get<0>(state).init, std::get<1>(state).padding);
  });
  return plan;
}
