//===- Parallelize.cpp - the parallel loops become one scf.forall -------------------------------------------------===//

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
/// A nest of loops whose iterations write disjoint slices of the tensors that the nest carries.
struct ParallelNest {
  SmallVector<scf::ForOp> loops; // outermost first
  SmallVector<OpFoldResult> lowerBounds, upperBounds, steps;
  SmallVector<tensor::InsertSliceOp> writes; // in the innermost body, one per carried tensor
};
} // namespace

/// Emits `reason` as an error on `loop`, with a note at `culprit`.
static LogicalResult refuse(scf::ForOp loop, const Twine &reason, Operation *culprit = nullptr) {
  InFlightDiagnostic diag = loop.emitError() << "cannot parallelize: " << reason;
  if (culprit)
    diag.attachNote(culprit->getLoc()) << "see '" << culprit->getName() << "'";
  return diag;
}

/// The loop inside `loop` that takes and returns all that `loop` carries, if there is one.
static scf::ForOp getPerfectlyCarriedLoop(scf::ForOp loop) {
  ValueRange yielded = loop.getYieldedValues();
  auto inner = yielded.empty() ? scf::ForOp() : yielded[0].getDefiningOp<scf::ForOp>();
  if (!inner || inner->getParentOp() != loop || yielded != ValueRange(inner.getResults()) ||
      ValueRange(inner.getInitArgs()) != ValueRange(loop.getRegionIterArgs()))
    return {};
  return inner;
}

/// A bound as it is known outside the nest, or null.
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

/// Finds the writes of the innermost loop and proves that no two iterations of the nest share a slice.
static LogicalResult collectWrites(ParallelNest &nest) {
  scf::ForOp innermost = nest.loops.back();
  for (auto [argument, yielded] : llvm::zip(innermost.getRegionIterArgs(), innermost.getYieldedValues())) {
    auto write = yielded.getDefiningOp<tensor::InsertSliceOp>();
    if (!write || write.getDest() != argument)
      return refuse(innermost, "expected every iteration to write one slice of each tensor that the loop carries",
                    write ? write.getOperation() : innermost.getBody()->getTerminator());
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
    nest.writes.push_back(write);
  }
  return success();
}

static LogicalResult checkEffects(scf::ForOp outermost) {
  std::optional<SmallVector<MemoryEffects::EffectInstance>> effects = getEffectsRecursively(outermost);
  if (!effects || llvm::any_of(*effects, [](const auto &e) { return !isa<MemoryEffects::Read>(e.getEffect()); }))
    return refuse(outermost, "expected a loop body without side effects");
  return success();
}

static FailureOr<ParallelNest> planParallelize(scf::ForOp outermost) {
  ParallelNest nest;
  for (scf::ForOp loop = outermost; loop; loop = getPerfectlyCarriedLoop(loop))
    nest.loops.push_back(loop);
  if (outermost.getNumRegionIterArgs() == 0)
    return refuse(outermost, "expected the loop to carry the tensors that it writes");
  if (failed(checkEffects(outermost)) || failed(collectWrites(nest)) || failed(collectBounds(nest)))
    return failure();
  return nest;
}

static void applyParallelize(ParallelNest &nest) {
  scf::ForOp outermost = nest.loops.front();
  OpBuilder b(outermost);
  auto forall = scf::ForallOp::create(b, outermost.getLoc(), nest.lowerBounds, nest.upperBounds, nest.steps,
                                      outermost.getInitArgs(), /*mapping=*/std::nullopt);
  IRMapping mapping;
  for (auto [loop, position] : llvm::zip(nest.loops, forall.getInductionVars()))
    mapping.map(loop.getInductionVar(), position);
  b.setInsertionPoint(forall.getTerminator());
  for (auto [position, loop] : llvm::enumerate(nest.loops))
    for (Operation &op : loop.getBody()->without_terminator()) {
      bool isNextLoop = position + 1 < nest.loops.size() && &op == nest.loops[position + 1];
      if (!isNextLoop && !llvm::is_contained(nest.writes, &op))
        b.clone(op, mapping);
    }
  auto remap = [&](ArrayRef<OpFoldResult> values) {
    return llvm::map_to_vector(values, [&](OpFoldResult value) -> OpFoldResult {
      if (auto dynamic = dyn_cast<Value>(value))
        return mapping.lookupOrDefault(dynamic);
      return value;
    });
  };
  b.setInsertionPointToEnd(forall.getTerminator().getBody());
  for (auto [write, output] : llvm::zip(nest.writes, forall.getRegionIterArgs()))
    tensor::ParallelInsertSliceOp::create(b, write.getLoc(), mapping.lookupOrDefault(write.getSource()), output,
                                          remap(write.getMixedOffsets()), remap(write.getMixedSizes()),
                                          remap(write.getMixedStrides()));
  outermost->replaceAllUsesWith(forall.getResults());
  outermost->erase();
}

/// The outermost scf.for around `op`, unless the op is in a parallel loop already.
static scf::ForOp getOutermostLoop(Operation *op) {
  scf::ForOp outermost;
  for (Operation *parent = op->getParentOp(); parent; parent = parent->getParentOp()) {
    if (isa<scf::ForallOp, scf::ParallelOp>(parent))
      return {};
    if (auto loop = dyn_cast<scf::ForOp>(parent))
      outermost = loop;
  }
  return outermost;
}

namespace {
struct Parallelize : flash::impl::ParallelizeBase<Parallelize> {
  using ParallelizeBase::ParallelizeBase;

  void runOnOperation() override {
    llvm::SetVector<Operation *> nests;
    getOperation()->walk([&](FinalizeOp op) {
      if (scf::ForOp loop = getOutermostLoop(op))
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
