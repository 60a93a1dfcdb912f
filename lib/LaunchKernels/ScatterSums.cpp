//===- ScatterSums.cpp - sums that are added up where code says ---------------------------------------------------===//

#include "ScatterSums.h"
#include "flashc/Dialect/Flash/IR/Arguments.h"
#include "mlir/Dialect/Arith/IR/Arith.h"

using namespace mlir;
using namespace flashc;
using flash::Gradients;

/// Returns the scatter_sum that adds to the result of `op`, or null.
static flash::ScatterSumOp getNext(flash::ScatterSumOp op) {
  for (OpOperand &use : op.getResult().getUses())
    if (auto next = dyn_cast<flash::ScatterSumOp>(use.getOwner()); next && use.get() == next.getInit())
      return next;
  return {};
}

std::optional<ScatterSums> ScatterSums::find(const LaunchNest &nest) {
  auto op = nest.findUser<flash::ScatterSumOp>();
  if (!op)
    return std::nullopt;
  flash::ScatterSumOp last = op;
  while (flash::ScatterSumOp next = getNext(last))
    last = next;
  // The summands of diagonals are in the table that DiagonalKernel writes.
  Value table = op.getGradients() == Gradients::Diagonals ? op.getResult() : op.getSums();
  return ScatterSums{op, table, nest.results.front().extents, !op.getInit().getDefiningOp<flash::ScatterSumOp>(),
                     findOutputs(nest.func, last.getResult())};
}

bool ScatterSums::isDirect() const {
  flash::ScatterSumOp op = this->op; // a copy, because its accessors are not const
  if (op.getGradients() != Gradients::Pairs || !isFirst)
    return false;
  RankedTensorType type = cast<RankedTensorType>(op.getSums().getType());
  SmallVector<unsigned> dims;
  for (unsigned dim = 0; dim < 4; ++dim)
    if (dim >= 2 || type.getDimSize(dim) != 1)
      dims.push_back(dim);
  SmallVector<ScatterIndex> indices = analyzeScatterIndices(op);
  return llvm::equal(indices, dims, [](const ScatterIndex &index, unsigned dim) {
    return index.kind == ScatterIndex::Kind::Same && index.dim == dim;
  });
}

void ScatterSums::addRoles(LaunchRoles &roles) const {
  if (BlockArgument captured = flash::getRootArgument(flash::ScatterSumOp(op).getCaptured()))
    roles.roles.push_back({{"captured", 0, {}}, {captured.getArgNumber()}, /*isOutput=*/false});
  roles.roles.push_back({{"gradient", 0, {}}, outputs, /*isOutput=*/true});
}

SmallVector<GridFormula> ScatterSums::getSizes() const {
  SmallVector<GridFormula> sizes;
  for (auto [dim, size] : llvm::enumerate(getShape()))
    sizes.push_back(ShapedType::isDynamic(size) ? GridFormula::extent(outputs.front(), dim) : GridFormula(size));
  return sizes;
}

Value ScatterSums::emitSize(ImplicitLocOpBuilder &b, KernelSignature &signature, int64_t dim) const {
  int64_t size = getShape()[dim];
  return ShapedType::isDynamic(size) ? signature.getExtent(outputs.front(), dim)
                                     : arith::ConstantIndexOp::create(b, size).getResult();
}
