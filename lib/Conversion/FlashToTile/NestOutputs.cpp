//===- NestOutputs.cpp - where the results of a nest go -----------------------------------------------------------===//

#include "NestOutputs.h"
#include "flashc/Dialect/Flash/IR/Arguments.h"
#include "flashc/Dialect/Flash/IR/GroupSums.h"
#include "mlir/Dialect/Affine/IR/AffineOps.h"
#include "mlir/Dialect/Bufferization/IR/Bufferization.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/Dialect/Utils/StaticValueUtils.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

using namespace mlir;
using namespace flashc;

namespace {
class OutputMatcher {
public:
  explicit OutputMatcher(LoopNest &nest) : nest(nest) {}

  LogicalResult match();

private:
  bool isWholeSlice(Operation *slice, Value result);
  bool isGroupSums(linalg::GenericOp op, unsigned result);
  LogicalResult traceOutput(Value value, unsigned result);

  LoopNest &nest;
};
} // namespace

/// Whether a slice comes from flash-tile, so that the output is whole in the end, and not from the user's program,
/// which may return only a part of the output, or the output as a part of something else.
bool OutputMatcher::isWholeSlice(Operation *slice, Value result) {
  Operation *loop = nest.end->getParentOp();
  if (loop != nest.func)
    return slice->getParentOp() == loop;
  // One tile, without a loop: the slice cuts its padding off.
  SmallVector<int64_t> whole(cast<ShapedType>(result.getType()).getShape());
  whole[2] = *getConstantIntValue(nest.resident.extent);
  return cast<ShapedType>(slice->getResult(0).getType()).getShape() == ArrayRef(whole);
}

/// Whether it adds up the heads of a group in a result of the nest, which is used for nothing else.
bool OutputMatcher::isGroupSums(linalg::GenericOp op, unsigned result) {
  if (nest.groupSums[result] || op.getNumDpsInputs() != 1 || !op.getInputs().front().hasOneUse() ||
      op.getNumReductionLoops() != 1)
    return false;
  SmallVector<AffineMap> maps = op.getIndexingMapsArray();
  auto heads = dyn_cast<AffineBinaryOpExpr>(maps.back().getResult(1));
  auto divisor = dyn_cast_or_null<AffineConstantExpr>(heads ? heads.getRHS() : AffineExpr());
  return maps.size() == 2 && maps.front().isIdentity() && divisor && divisor.getValue() == nest.groupSize &&
         op.getOutputs().front().getDefiningOp<linalg::FillOp>();
}

/// Whether `op` shows the array of an operand and reads none of its elements.
static bool isView(Operation *op) { return isa<bufferization::ToTensorOp, memref::CastOp, tensor::CastOp>(op); }

/// Diagnoses anything but `write` that reads or writes the array: kernels write while others still read. Its extents
/// may be asked for.
static LogicalResult checkDestination(bufferization::MaterializeInDestinationOp write, Value array) {
  for (Operation *user : array.getUsers()) {
    if (user == write || isa<memref::DimOp, tensor::DimOp>(user))
      continue;
    if (isView(user)) {
      if (failed(checkDestination(write, user->getResult(0))))
        return failure();
      continue;
    }
    InFlightDiagnostic diag = write.emitError() << "expected the output to be written to an argument that is used for "
                                                   "nothing else, got one that shares memory with another array";
    diag.attachNote(user->getLoc()) << "'" << user->getName() << "' reads or writes it";
    return failure();
  }
  return success();
}

/// Follows a tile to where it is returned or written.
LogicalResult OutputMatcher::traceOutput(Value value, unsigned result) {
  Value whole = nest.results[result];
  for (OpOperand &use : value.getUses()) {
    Operation *user = use.getOwner();
    if (isa<func::ReturnOp>(user)) {
      unsigned number = nest.func.getNumArguments() + use.getOperandNumber();
      nest.outputs.push_back({result, number, getElementTypeOrSelf(value)});
      continue;
    }
    if (auto write = dyn_cast<bufferization::MaterializeInDestinationOp>(user)) {
      auto dest = dyn_cast<BlockArgument>(write.getDest());
      if (!dest || !isa<func::FuncOp>(dest.getOwner()->getParentOp()))
        return write.emitError() << "expected the output to be written to a function argument";
      if (failed(checkDestination(write, dest)))
        return failure();
      nest.outputs.push_back({result, dest.getArgNumber(), getElementTypeOrSelf(dest)});
      continue;
    }
    if (auto scatter = dyn_cast<flash::ScatterSumOp>(user); scatter && use.get() == scatter.getSums()) {
      nest.scatterSums = ScatterSums{scatter, scatter.getSums(), {nest.batch.extent, nest.head.extent, nest.resident.extent}};
      continue;
    }
    Value next;
    if (auto merge = dyn_cast<flash::MergeStatesOp>(user); merge && use.getOperandNumber() == result && nest.epilogue) {
      nest.parts.merge = merge;
      next = merge->getResult(result);
    }
    auto generic = dyn_cast<linalg::GenericOp>(user);
    if (generic && isGroupSums(generic, result)) {
      nest.groupSums[result] = generic;
      next = generic.getResult(0);
    } else if (generic && flash::isRounding(generic)) {
      next = generic.getResult(0); // where it is stored
    } else if (isa<tensor::CastOp>(user) || (isa<tensor::ExtractSliceOp>(user) && isWholeSlice(user, whole))) {
      next = user->getResult(0);
    } else if (auto insert = dyn_cast<tensor::InsertSliceOp>(user);
               insert && insert.getSource() == value && isWholeSlice(user, whole)) {
      next = insert.getResult();
    } else if (auto insert = dyn_cast<tensor::ParallelInsertSliceOp>(user); insert && insert.getSource() == value) {
      auto forall = cast<scf::ForallOp>(insert->getParentOp()->getParentOp());
      auto dest = cast<BlockArgument>(insert.getDest());
      next = forall.getTiedOpResult(forall.getTiedOpOperand(dest));
    } else if (auto add = dyn_cast<flash::ParallelAddSliceOp>(user); add && add.getSource() == value) {
      auto forall = cast<scf::ForallOp>(add->getParentOp()->getParentOp());
      next = forall.getTiedOpResult(forall.getTiedOpOperand(cast<BlockArgument>(add.getDest())));
    }
    if (!next)
      return user->emitError() << "expected result " << result << " of " << whole.getDefiningOp()->getName()
                               << " to be returned or written to an argument only, got another use";
    if (failed(traceOutput(next, result)))
      return failure();
  }
  return success();
}

/// Whether `op` may stand in a function that becomes a kernel; what it holds is looked at by itself.
static bool isPartOfAttention(Operation *op) {
  return isa<bufferization::MaterializeInDestinationOp, bufferization::ToTensorOp, tensor::ParallelInsertSliceOp,
             flash::ParallelAddSliceOp>(op) ||
         op->hasTrait<OpTrait::IsTerminator>() || op->hasTrait<OpTrait::HasRecursiveMemoryEffects>() ||
         isMemoryEffectFree(op) || hasSingleEffect<MemoryEffects::Read>(op);
}

LogicalResult OutputMatcher::match() {
  for (auto [number, result] : llvm::enumerate(nest.results))
    if (failed(traceOutput(result, number)))
      return failure();
  if (nest.outputs.empty() && !nest.scatterSums)
    return nest.func.emitError() << "expected the attention's outputs to be returned or written to an argument";
  WalkResult result = nest.func.getBody().walk([](Operation *op) {
    if (isPartOfAttention(op))
      return WalkResult::advance();
    op->emitError() << "expected a function that computes an attention only, got another side effect";
    return WalkResult::interrupt();
  });
  return failure(result.wasInterrupted());
}

LogicalResult flashc::matchOutputs(LoopNest &nest) { return OutputMatcher(nest).match(); }

bool LoopNest::addsUpGroups(unsigned result) const {
  linalg::GenericOp sums = groupSums[result];
  return sums && sums->hasAttr(flash::kAnyOrderAttr);
}

std::optional<GroupSums> LoopNest::getGroupSums(unsigned result) const {
  linalg::GenericOp sums = groupSums[result];
  if (!sums || addsUpGroups(result))
    return std::nullopt;
  GroupSums found{sums, {batch.extent, head.extent, resident.extent}, groupSize};
  if (auto type = cast<ShapedType>(results[result].getType()); type.getRank() == 4)
    found.extents.push_back(Builder(type.getContext()).getIndexAttr(type.getDimSize(3)));
  return found;
}

bool LoopNest::isAddedUp(unsigned result) const {
  return !epilogue && !pairs && getStep().getStepState()[result].movesWith(getStep().getStreamedDim());
}

/// How many groups the op has, the heads of which it adds up.
static OpFoldResult getGroups(linalg::GenericOp sums) {
  auto fill = sums.getOutputs().front().getDefiningOp<linalg::FillOp>();
  return fill.getOutputs().front().getDefiningOp<tensor::EmptyOp>().getMixedSizes()[1];
}

SmallVector<AddedSums, 3> LoopNest::getAllAddedSums() const {
  SmallVector<AddedSums, 3> all;
  for (unsigned result = 0; result < results.size(); ++result)
    if (std::optional<AddedSums> added = getAddedSums(result))
      all.push_back(*added);
  return all;
}

std::optional<AddedSums> LoopNest::getAddedSums(unsigned result) const {
  auto type = cast<RankedTensorType>(results[result].getType());
  if (addsUpGroups(result))
    return AddedSums{results[result],
                     {batch.extent, getGroups(groupSums[result]), resident.extent},
                     type.getDimSize(3),
                     residentTile,
                     groupSize};
  if (!isAddedUp(result))
    return std::nullopt;
  OpFoldResult rows = Builder(type.getContext()).getIndexAttr(type.getDimSize(2));
  if (type.isDynamicDim(2))
    for (Operation *user : results[result].getUsers())
      if (auto add = dyn_cast<flash::ParallelAddSliceOp>(user))
        rows = add.getMixedSizes()[2];
  return AddedSums{results[result], {batch.extent, head.extent, rows}, type.getDimSize(3), streamedTile};
}
