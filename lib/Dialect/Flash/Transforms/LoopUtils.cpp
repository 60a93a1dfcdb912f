//===- LoopUtils.cpp - shared helpers of the loop passes ----------------------------------------------------------===//

#include "LoopUtils.h"
#include "mlir/Dialect/Arith/Utils/Utils.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/Interfaces/InferTypeOpInterface.h"

using namespace mlir;
using namespace mlir::flash;

/// Whether `yielded` is `carried` with one slice replaced by `result`, where `tile` was read from the same slice.
static bool replacesSlice(Value carried, Value tile, Value result, Value yielded) {
  if (auto pad = tile.getDefiningOp<tensor::PadOp>())
    tile = pad.getSource();
  auto read = tile.getDefiningOp<tensor::ExtractSliceOp>();
  auto write = yielded.getDefiningOp<tensor::InsertSliceOp>();
  if (!read || !write || read.getSource() != carried || write.getDest() != carried)
    return false;
  Value source = write.getSource();
  if (auto cut = source.getDefiningOp<tensor::ExtractSliceOp>())
    source = cut.getSource();
  return source == result && read.getMixedOffsets() == write.getMixedOffsets() &&
         read.getMixedSizes() == write.getMixedSizes() &&
         llvm::all_of(carried.getUsers(), [&](Operation *user) { return user == read || user == write; });
}

scf::ForOp mlir::flash::getFoldingLoop(StepOpInterface op) {
  auto loop = dyn_cast<scf::ForOp>(op->getParentOp());
  SmallVector<StepOperand> state = op.getStepState();
  if (!loop || loop.getNumResults() != state.size())
    return {};
  for (auto [part, carried, yielded, result] :
       llvm::zip_equal(state, loop.getRegionIterArgs(), loop.getYieldedValues(), op->getResults())) {
    Value tile = op->getOperand(part.number);
    bool isTile = tile == carried && yielded == result;
    if (!isTile && !(part.movesWith(op.getStreamedDim()) && replacesSlice(carried, tile, result, yielded)))
      return {};
  }
  return loop;
}

void mlir::flash::replaceDims(RewriterBase &rewriter, OpResult view) {
  SmallVector<tensor::DimOp> dims;
  for (Operation *user : view.getUsers())
    if (auto dim = dyn_cast<tensor::DimOp>(user); dim && dim.getConstantIndex())
      dims.push_back(dim);
  if (dims.empty())
    return;
  rewriter.setInsertionPointAfterValue(view);
  ReifiedRankedShapedTypeDims shapes;
  (void)reifyResultShapes(rewriter, view.getOwner(), shapes); // it does not fail
  for (tensor::DimOp dim : dims) {
    OpFoldResult size = shapes[view.getResultNumber()][*dim.getConstantIndex()];
    rewriter.replaceOp(dim, getValueOrCreateConstantIndexOp(rewriter, dim.getLoc(), size));
  }
}
