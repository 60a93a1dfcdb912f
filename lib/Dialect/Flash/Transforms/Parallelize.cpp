//===- Parallelize.cpp - the parallel loops become one scf.forall -------------------------------------------------===//

#include "LoopUtils.h"
#include "flashc/Analysis/TilePartition.h"
#include "flashc/Dialect/Flash/Transforms/Passes.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/Dialect/Utils/StaticValueUtils.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "llvm/ADT/SetVector.h"

namespace mlir::flash {
#define GEN_PASS_DEF_PARALLELIZE
#include "flashc/Dialect/Flash/Transforms/Passes.h.inc"
} // namespace mlir::flash

using namespace mlir;
using namespace mlir::flash;

namespace {
/// A nest of loops that can run in parallel. For each tensor that the nest carries, the iterations of the nest write
/// disjoint slices, or only add to slices.
struct ParallelNest {
  SmallVector<scf::ForOp> loops; // outermost first
  SmallVector<OpFoldResult> lowerBounds, upperBounds, steps;
  /// For each tensor that the nest carries, the op of the innermost body that writes a slice of the tensor. Null if the
  /// body adds to the whole tensor.
  SmallVector<tensor::InsertSliceOp> writes;
  /// For each tensor that the nest carries, the slice that the body adds to, or the whole tensor if the body adds to
  /// all of it. Null if the body overwrites its slice.
  SmallVector<Value> addedTo;
};
} // namespace

static constexpr Refusal refuse{"parallelize"};

/// Returns the loop directly inside of `loop` whose init values are the values that `loop` carries, and whose results
/// are the values that `loop` yields. Null if there is none.
static scf::ForOp getPerfectlyCarriedLoop(scf::ForOp loop) {
  ValueRange yielded = loop.getYieldedValues();
  auto inner = yielded.empty() ? scf::ForOp() : yielded[0].getDefiningOp<scf::ForOp>();
  if (!inner || inner->getParentOp() != loop || yielded != ValueRange(inner.getResults()) ||
      ValueRange(inner.getInitArgs()) != ValueRange(loop.getRegionIterArgs()))
    return {};
  return inner;
}

/// Returns `bound` as a value outside of the nest. Null if the bound is not known there.
static OpFoldResult getBoundOutside(scf::ForOp outermost, Value bound) {
  if (std::optional<int64_t> constant = getConstantIntValue(bound))
    return Builder(bound.getContext()).getIndexAttr(*constant);
  return outermost.isDefinedOutsideOfLoop(bound) ? OpFoldResult(bound) : OpFoldResult();
}

static LogicalResult collectBounds(ParallelNest &nest) {
  for (scf::ForOp loop : nest.loops) {
    OpFoldResult bounds[3];
    Value values[] = {loop.getLowerBound(), loop.getUpperBound(), loop.getStep()};
    for (auto [slot, bound] : llvm::zip(bounds, values))
      if (!(slot = getBoundOutside(nest.loops.front(), bound)))
        return refuse(loop, "the loop's bounds change inside the nest", bound.getDefiningOp());
    nest.lowerBounds.push_back(bounds[0]);
    nest.upperBounds.push_back(bounds[1]);
    nest.steps.push_back(bounds[2]);
  }
  return success();
}

/// Returns the tile that a step adds to, if `value` is the step's result for a state that moves with the streamed
/// dimension, or a slice of such a result. Null for other values.
static Value getStreamedBefore(Value value) {
  if (auto cut = value.getDefiningOp<tensor::ExtractSliceOp>())
    value = cut.getSource();
  auto step = value.getDefiningOp<StepOpInterface>();
  if (!step)
    return {};
  StepOperand carried = step.getStepState()[cast<OpResult>(value).getResultNumber()];
  if (!carried.movesWith(step.getStreamedDim()))
    return {};
  Value before = step->getOperand(carried.number);
  auto pad = before.getDefiningOp<tensor::PadOp>();
  return pad ? pad.getSource() : before;
}

/// Whether `value` is `origin` plus terms that do not depend on `origin`. Each term is what a step adds to its streamed
/// tile. The steps are in loops over the tiles of `origin`, or `origin` is one tile.
static bool isSumOnto(Value origin, Value value) {
  if (value == origin)
    return true;
  if (Value before = getStreamedBefore(value))
    return isSumOnto(origin, before);
  if (auto loop = value.getDefiningOp<scf::ForOp>()) {
    BlockArgument carried = loop.getTiedLoopRegionIterArg(cast<OpResult>(value));
    return isSumOnto(carried, loop.getTiedLoopYieldedValue(carried)->get()) &&
           isSumOnto(origin, loop.getTiedLoopInit(carried)->get());
  }
  auto write = value.getDefiningOp<tensor::InsertSliceOp>();
  if (!write || !llvm::all_of(write.getDest().getUsers(), llvm::IsaPred<tensor::InsertSliceOp, tensor::ExtractSliceOp>))
    return false;
  Value before = getStreamedBefore(write.getSource());
  auto read = before ? before.getDefiningOp<tensor::ExtractSliceOp>() : tensor::ExtractSliceOp();
  return read && read.getSource() == write.getDest() && read.getMixedOffsets() == write.getMixedOffsets() &&
         read.getMixedSizes() == write.getMixedSizes() && isSumOnto(origin, write.getDest());
}

/// Returns the slice of `argument` that the body reads, adds to and writes back by `write`. Null if there is no such
/// slice, or if `argument` is read in another way.
static Value findRead(BlockArgument argument, tensor::InsertSliceOp write) {
  tensor::ExtractSliceOp read;
  for (Operation *user : argument.getUsers()) {
    if (user == write)
      continue;
    if (read || !(read = dyn_cast<tensor::ExtractSliceOp>(user)))
      return {};
  }
  bool isSum = read && read.getMixedOffsets() == write.getMixedOffsets() &&
               read.getMixedSizes() == write.getMixedSizes() && isSumOnto(read, write.getSource());
  return isSum ? read.getResult() : Value();
}

/// Finds the writes of the innermost loop. Proves that no two iterations of the nest write to the same slice, unless
/// both only add to it.
static LogicalResult collectWrites(ParallelNest &nest) {
  scf::ForOp innermost = nest.loops.back();
  for (auto [argument, yielded] : llvm::zip(innermost.getRegionIterArgs(), innermost.getYieldedValues())) {
    auto write = yielded.getDefiningOp<tensor::InsertSliceOp>();
    if (yielded != argument && argument.hasOneUse() && isSumOnto(argument, yielded)) {
      nest.writes.push_back({});
      nest.addedTo.push_back(argument);
      continue;
    }
    if (!write || write.getDest() != argument)
      return refuse(innermost, "expected every iteration to write one slice of each tensor that the loop carries",
                    write ? write.getOperation() : innermost.getBody()->getTerminator());
    nest.writes.push_back(write);
    nest.addedTo.push_back(findRead(argument, write));
    if (nest.addedTo.back())
      continue;
    for (Operation *user : argument.getUsers())
      if (user != write)
        return refuse(innermost, "an iteration reads what others have written", user);
    TilePartition partition =
        proveTilePartition(cast<OffsetSizeAndStrideOpInterface>(*write), nest.loops, /*extents=*/std::nullopt);
    if (!partition)
      return refuse(innermost, "the iterations do not own the slices they write: " + partition.failure, write);
    for (auto [position, loop] : llvm::enumerate(nest.loops))
      if (!partition.isMovedBy(position))
        return refuse(loop, "all iterations of the loop write the same slice", write);
  }
  return success();
}

static FailureOr<ParallelNest> planParallelize(scf::ForOp outermost) {
  ParallelNest nest;
  for (scf::ForOp loop = outermost; loop; loop = getPerfectlyCarriedLoop(loop))
    nest.loops.push_back(loop);
  if (!onlyReads(outermost))
    return refuse(outermost, "expected a loop body without side effects");
  if (failed(collectWrites(nest)) || failed(collectBounds(nest)))
    return failure();
  return nest;
}

/// Emits a tensor of zeros. An iteration adds to it in place of the shared tensor.
static Value emitZeros(OpBuilder &b, Location loc, Type element, ArrayRef<OpFoldResult> sizes) {
  Value empty = tensor::EmptyOp::create(b, loc, sizes, element);
  Value zero = arith::ConstantOp::create(b, loc, b.getFloatAttr(element, 0.0));
  return linalg::FillOp::create(b, loc, zero, empty).getResult(0);
}

static void applyParallelize(ParallelNest &nest) {
  scf::ForOp outermost = nest.loops.front();
  OpBuilder b(outermost);
  auto forall = scf::ForallOp::create(b, outermost.getLoc(), nest.lowerBounds, nest.upperBounds, nest.steps,
                                      outermost.getInitArgs(), /*mapping=*/std::nullopt);
  IRMapping mapping;
  for (auto [loop, position] : llvm::zip(nest.loops, forall.getInductionVars()))
    mapping.map(loop.getInductionVar(), position);
  auto getSizes = [&](Value init) {
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPoint(forall);
    return tensor::getMixedSizes(b, init.getLoc(), init);
  };
  b.setInsertionPoint(forall.getTerminator());
  for (auto [added, init] : llvm::zip(nest.addedTo, outermost.getInitArgs()))
    if (auto whole = dyn_cast_or_null<BlockArgument>(added))
      mapping.map(whole, emitZeros(b, whole.getLoc(), getElementTypeOrSelf(init.getType()), getSizes(init)));
  for (auto [position, loop] : llvm::enumerate(nest.loops))
    for (Operation &op : loop.getBody()->without_terminator()) {
      bool isNextLoop = position + 1 < nest.loops.size() && &op == nest.loops[position + 1];
      if (isNextLoop || llvm::is_contained(nest.writes, &op))
        continue;
      if (op.getNumResults() == 1 && llvm::is_contained(nest.addedTo, op.getResult(0))) {
        auto read = cast<tensor::ExtractSliceOp>(op);
        Type element = read.getType().getElementType();
        mapping.map(read.getResult(), emitZeros(b, read.getLoc(), element, remap(mapping, read.getMixedSizes())));
        continue;
      }
      b.clone(op, mapping);
    }
  b.setInsertionPointToEnd(forall.getTerminator().getBody());
  for (auto [write, added, yielded, init, output] :
       llvm::zip(nest.writes, nest.addedTo, nest.loops.back().getYieldedValues(), outermost.getInitArgs(),
                 forall.getRegionIterArgs())) {
    if (!write) {
      SmallVector<OpFoldResult> sizes = getSizes(init), offsets(sizes.size(), b.getIndexAttr(0));
      ParallelAddSliceOp::create(b, yielded.getLoc(), mapping.lookup(yielded), output, offsets, sizes);
      continue;
    }
    Value source = mapping.lookupOrDefault(write.getSource());
    SmallVector<OpFoldResult> offsets = remap(mapping, write.getMixedOffsets());
    SmallVector<OpFoldResult> sizes = remap(mapping, write.getMixedSizes());
    if (added)
      ParallelAddSliceOp::create(b, write.getLoc(), source, output, offsets, sizes);
    else
      tensor::ParallelInsertSliceOp::create(b, write.getLoc(), source, output, offsets, sizes,
                                            remap(mapping, write.getMixedStrides()));
  }
  outermost->replaceAllUsesWith(forall.getResults());
  outermost->erase();
}

/// Whether `value` is a result of `op`, or a tensor with such a result in one of its slices.
static bool isResultOf(Value value, Operation *op) {
  Operation *def = value.getDefiningOp();
  if (isa_and_nonnull<tensor::InsertSliceOp, tensor::ExtractSliceOp, tensor::CastOp>(def))
    return isResultOf(def->getOperand(0), op); // operand 0 is the inserted, sliced or cast tensor
  return def == op;
}

/// Returns the op that makes finished tiles: `op` itself if it is a flash.finalize. If `op` is a step whose state is
/// the result, returns the loop that carries the tile, or `op` if there is no such loop. Null for other ops, and if the
/// state is not a tile yet (before flash-swap-loops).
static Operation *getTileOp(Operation *op) {
  auto step = dyn_cast<StepOpInterface>(op);
  if (!step || step.needsFinalize())
    return isa<FinalizeOp>(op) ? op : nullptr;
  if (!step.isTiled())
    return nullptr;
  SmallVector<StepOperand> carried = step.getStepState();
  unsigned resident =
      llvm::find_if(carried, [&](const StepOperand &part) { return part.movesWith(step.getResidentDim()); }) -
      carried.begin();
  Value state = op->getOperand(carried[resident].number);
  if (scf::ForOp loop = getFoldingLoop(step)) {
    state = loop.getInitArgs()[resident];
    op = loop;
  }
  while (isa_and_nonnull<tensor::PadOp, tensor::ExtractSliceOp>(state.getDefiningOp()))
    state = state.getDefiningOp()->getOperand(0);
  return isa<BlockArgument>(state) ? nullptr : op;
}

/// Returns the outermost loop of the nest that stores the tiles of `op`. Null if there is no such nest, or if `op` is
/// in a parallel loop already. A loop around the nest is part of the program and may carry anything.
static scf::ForOp getOutermostLoop(Operation *op) {
  auto loop = dyn_cast<scf::ForOp>(op->getParentOp());
  auto isStored = [](Value yielded) { return isa_and_nonnull<tensor::InsertSliceOp>(yielded.getDefiningOp()); };
  if (!loop || !llvm::any_of(loop.getYieldedValues(), isStored) ||
      !llvm::all_of(loop.getYieldedValues(), [&](Value yielded) { return isResultOf(yielded, op); }) ||
      loop->getParentOfType<scf::ForallOp>() || loop->getParentOfType<scf::ParallelOp>())
    return {};
  while (auto outer = dyn_cast<scf::ForOp>(loop->getParentOp())) {
    if (getPerfectlyCarriedLoop(outer) != loop)
      break;
    loop = outer;
  }
  return loop;
}

namespace {
struct Parallelize : flash::impl::ParallelizeBase<Parallelize> {
  using ParallelizeBase::ParallelizeBase;

  void runOnOperation() override {
    llvm::SetVector<Operation *> nests;
    getOperation()->walk([&](Operation *op) {
      Operation *tile = getTileOp(op);
      if (scf::ForOp loop = tile ? getOutermostLoop(tile) : scf::ForOp())
        nests.insert(loop);
    });
    for (Operation *outermost : nests) {
      FailureOr<ParallelNest> nest = planParallelize(cast<scf::ForOp>(outermost));
      if (failed(nest))
        return signalPassFailure();
      numParallelized += nest->loops.size();
      applyParallelize(*nest);
    }
  }
};
} // namespace
