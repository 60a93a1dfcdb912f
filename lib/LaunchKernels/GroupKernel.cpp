//===- GroupKernel.cpp - the kernel that adds up what the heads of a group gave -----------------------------------===//

#include "KernelBody.h"
#include "flashc/Dialect/Flash/IR/GroupSums.h"
#include "flashc/LaunchKernels/AddedSums.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/Dialect/Utils/StaticValueUtils.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;
using namespace flashc;

static constexpr int64_t kThreads = 256;

namespace {
/// A sum over the heads of groups (flash::emitGroupSums) of a nest's result, which is [B, Hq, N] or [B, Hq, N, D] at
/// level L1. The main kernel stores the result in the workspace.
struct GroupSums {
  Value input;
  ArrayRef<OpFoldResult> extents;
  int64_t groupSize;

  /// The number of elements that a thread sums: eight (16 bytes after rounding) if the result has the dimension D, else
  /// one.
  int64_t getWidth() const { return extents.size() == 4 ? 8 : 1; }
  /// The number of threads that share a row of D elements.
  int64_t getVectors() const { return extents.size() == 4 ? *getConstantIntValue(extents[3]) / getWidth() : 1; }
};

/// A CTA computes 256 consecutive columns of one key head, and a thread computes one column. In a result [B, Hk, N] a
/// column is an element. In a result [B, Hk, N, D] a column is eight elements, so a head has N D / 8 columns. CTAs are
/// in the order of B, Hk and columns. A thread sums the heads of its group, beginning with the first.
class GroupBody : public KernelBody {
public:
  GroupBody(gpu::GPUFuncOp kernel, KernelSignature &signature, const GroupSums &sums, ArrayRef<unsigned> outputs)
      : KernelBody(kernel, signature), sums(sums), outputs(outputs) {}

  LogicalResult emit() {
    input = scalars.getTableArray(b, sums.input, sums.extents);
    Value queryHeads = scalars.get(b, b.getLoc(), sums.extents[1]),
          columns = scalars.get(b, b.getLoc(), sums.extents[2]);
    if (!input || !queryHeads || !columns)
      return failure();
    if (isVector())
      columns = mul(columns, sums.getVectors());
    Value group = index(sums.groupSize), cta = block(), heads = div(queryHeads, group);
    Value tiles = ceilDiv(columns, kThreads), rest = div(cta, tiles), head = rem(rest, heads);
    batch = div(rest, heads);
    column = add(mul(rem(cta, tiles), kThreads), thread());
    emitIf(isBelow(column, columns), [&] { emitColumn(head, group); });
    return success();
  }

private:
  bool isVector() const { return sums.extents.size() == 4; }
  Type getType(Type element) { return isVector() ? VectorType::get({sums.getWidth()}, element) : element; }

  SmallVector<Value> getPlace(Value head) {
    if (!isVector())
      return {batch, head, column};
    Value vectors = index(sums.getVectors()), first = mul(rem(column, vectors), sums.getWidth());
    return {batch, head, div(column, vectors), first};
  }

  Value load(Value head) {
    if (!isVector())
      return memref::LoadOp::create(b, input, getPlace(head));
    return vector::LoadOp::create(b, cast<VectorType>(getType(b.getF32Type())), input, getPlace(head));
  }

  void emitColumn(Value head, Value group) {
    Value sum = emitFor(index(0), group, index(1), zeros(getType(b.getF32Type())),
                        [&](Value number, Value sum) { return addF(sum, load(add(mul(head, group), number))); });
    for (unsigned output : outputs) {
      Value array = signature.getMemRef(output, /*alignment=*/isVector() ? 16 : 0);
      Value rounded = round(sum, getElementTypeOrSelf(array.getType()));
      if (isVector())
        vector::StoreOp::create(b, rounded, array, getPlace(head));
      else
        memref::StoreOp::create(b, rounded, array, getPlace(head));
    }
  }

  const GroupSums &sums;
  ArrayRef<unsigned> outputs;
  Value input, batch, column;
};

class GroupKernel : public LaunchKernel {
public:
  GroupKernel(linalg::GenericOp op, unsigned result) : LaunchKernel(op), result(result) {}

  LogicalResult addTables(const LaunchNest &nest, TileTables &tables) const override {
    return addTable(tables, getArrayTable(getInput(), nest.results[result].extents));
  }

  SmallVector<Value> getDestinations(const LaunchNest &nest, unsigned number, OpBuilder &b,
                                     ScalarCloner &scalars) const override {
    if (number != result)
      return {};
    return {scalars.getTableArray(b, getInput(), nest.results[result].extents)};
  }

  FailureOr<ManifestKernel> emit(const LaunchNest &nest, const LaunchContext &context) const override {
    GroupSums sums{getInput(), nest.results[result].extents, nest.groupSize};
    GridFormula heads = ceilDiv(getSize(sums.extents[1]), nest.groupSize), columns = getSize(sums.extents[2]);
    if (sums.extents.size() == 4)
      columns = columns * sums.getVectors();
    GridFormula ctas = ceilDiv(columns, kThreads) * heads * getSize(sums.extents[0]);
    return emitKernel<GroupBody>(context, nest.getSuffix(result) + "_groups", kThreads, {ctas, 1, 1}, sums,
                                 nest.getOutputs(result));
  }

private:
  Value getInput() const { return op->getOperand(0); }

  unsigned result;
};
} // namespace

/// Whether `op` sums the heads of each group of `groupSize` heads.
static bool isGroupSums(linalg::GenericOp op, int64_t groupSize) {
  if (op.getNumDpsInputs() != 1 || op.getNumReductionLoops() != 1)
    return false;
  SmallVector<AffineMap> maps = op.getIndexingMapsArray();
  auto heads = dyn_cast<AffineBinaryOpExpr>(maps.back().getResult(1));
  auto divisor = dyn_cast_or_null<AffineConstantExpr>(heads ? heads.getRHS() : AffineExpr());
  return maps.size() == 2 && maps.front().isIdentity() && divisor && divisor.getValue() == groupSize &&
         op.getOutputs().front().getDefiningOp<linalg::FillOp>();
}

/// Returns the number of groups of heads that `sums` sums.
static OpFoldResult getGroups(linalg::GenericOp sums) {
  auto fill = sums.getOutputs().front().getDefiningOp<linalg::FillOp>();
  return fill.getOutputs().front().getDefiningOp<tensor::EmptyOp>().getMixedSizes()[1];
}

/// Makes a kernel for each result whose only use is a sum over the heads of groups. If the order of the sum is free,
/// there is no GroupKernel: CTAs of the main kernel add to the sum themselves (makeRoundKernel).
void flashc::matchGroup(LaunchNest &nest) {
  for (auto [number, result] : llvm::enumerate(nest.results)) {
    SmallVector<OpOperand *> uses = nest.getUses(number);
    auto sums = uses.size() == 1 ? dyn_cast<linalg::GenericOp>(uses.front()->getOwner()) : linalg::GenericOp();
    if (!sums || !isGroupSums(sums, nest.groupSize))
      continue;
    llvm::replace(result.info.dims, flash::StepDim::H, flash::StepDim::KeyHead);
    if (!sums->hasAttr(flash::kAnyOrderAttr)) {
      nest.kernels.push_back(std::make_unique<GroupKernel>(sums, number));
      continue;
    }
    AddedSums added{result.value, result.extents, nest.residentTile, nest.groupSize};
    added.extents[1] = getGroups(sums);
    nest.kernels.push_back(makeRoundKernel(number, std::move(added), sums));
  }
}
