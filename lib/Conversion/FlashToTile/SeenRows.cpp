//===- SeenRows.cpp - the rows of tiles that the mask can see -----------------------------------------------------===//

#include "SeenRows.h"
#include "flashc/Dialect/Flash/Transforms/SeenPositions.h"
#include "flashc/Dialect/Tile/IR/Tile.h"
#include "mlir/Dialect/Affine/IR/AffineOps.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"

using namespace mlir;
using namespace flashc;

/// The number of positions of an operand.
static OpFoldResult getExtent(OpBuilder &b, const NestOperand &operand) {
  Location loc = operand.array.getLoc();
  flash::CacheTileOp cache = operand.cache;
  if (!operand.getPageRows())
    return tensor::getMixedSize(b, loc, cache ? Value(cache.getCache()) : operand.array, 2);
  return affine::makeComposedFoldedAffineApply(b, loc, b.getAffineDimExpr(0) * operand.getPageRows(),
                                               {tensor::getMixedSize(b, loc, cache.getTable(), 1)});
}

FailureOr<SeenRows> flashc::emitSeenRows(ImplicitLocOpBuilder &b, LoopNest &nest, ScalarCloner &scalars,
                                         flash::StepDim dim) {
  auto *masked = llvm::find_if(nest.segments, [](Segment &segment) { return segment.isMasked(); });
  if (masked == nest.segments.end())
    return SeenRows();
  OpBuilder inL1(masked->op);
  flash::PairExtents extents{getExtent(inL1, nest.getOperand(flash::StepDim::I)),
                             getExtent(inL1, nest.getOperand(flash::StepDim::J))};
  flash::MaskView view = dim == flash::StepDim::J ? flash::MaskView::Primal : flash::MaskView::Dual;
  std::optional<flash::SeenPositions> seen = flash::emitSeenPositions(masked->op, view, extents);
  if (!seen)
    return SeenRows();
  SeenRows rows;
  for (auto [inL1, inKernel] : {std::pair(seen->begin, &rows.begin), std::pair(seen->end, &rows.end)}) {
    if (!inL1)
      continue;
    Value value = scalars.get(b, inL1);
    if (!value)
      return failure();
    *inKernel = tile::UniformOp::create(b, value); // from memory, but the same in all threads
  }
  return rows;
}
