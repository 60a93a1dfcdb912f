//===- TilePartition.cpp - proof that slices in a loop nest partition a tensor ------------------------------------===//

#include "flashc/Analysis/TilePartition.h"
#include "flashc/Analysis/LinearExpr.h"
#include "flashc/Dialect/Flash/IR/Flash.h"
#include "mlir/Dialect/Affine/IR/AffineOps.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/Dialect/Utils/StaticValueUtils.h"
#include "mlir/IR/Builders.h"
#include "llvm/ADT/Twine.h"

using namespace mlir;
using namespace mlir::flash;

SmallVector<OpFoldResult> mlir::flash::getKnownExtents(Value tensor) {
  if (auto fill = tensor.getDefiningOp<linalg::FillOp>())
    return getKnownExtents(fill.getDpsInits()[0]);
  if (auto empty = tensor.getDefiningOp<tensor::EmptyOp>())
    return empty.getMixedSizes();
  Builder b(tensor.getContext());
  SmallVector<OpFoldResult> extents;
  for (int64_t extent : cast<RankedTensorType>(tensor.getType()).getShape())
    extents.push_back(ShapedType::isDynamic(extent) ? OpFoldResult() : b.getIndexAttr(extent));
  return extents;
}

bool mlir::flash::isEqualSize(OpFoldResult a, OpFoldResult b) {
  return a && b && LinearExpr::get(a) == LinearExpr::get(b);
}

bool mlir::flash::isClamped(affine::AffineMinOp min, int64_t tile, const LinearExpr &rest) {
  bool clampsAtTile = false, clampsAtEnd = false;
  for (AffineExpr result : min.getMap().getResults()) {
    auto linear = LinearExpr::get(result, min.getMap().getNumDims(), min.getOperands());
    if (!linear || (!linear->isConstant(tile) && !(*linear == rest)))
      return false;
    clampsAtTile |= linear->isConstant(tile);
    clampsAtEnd |= *linear == rest;
  }
  return clampsAtTile && clampsAtEnd;
}

/// Whether `size` is `min(step, extent - iv)` or the step itself.
static bool isClampedTile(OpFoldResult size, int64_t step, Value iv, const LinearExpr &extent) {
  if (isConstantIntValue(size, step))
    return true;
  auto min = dyn_cast<Value>(size) ? cast<Value>(size).getDefiningOp<affine::AffineMinOp>() : affine::AffineMinOp();
  return min && isClamped(min, step, extent - LinearExpr::symbol(iv));
}

/// Proves the conditions of a dimension in which `loop` moves the slice. Returns the condition that is not met, or an
/// empty string.
static std::string proveMovedDim(OpFoldResult size, scf::ForOp loop, bool mustCover, OpFoldResult extent,
                                 int64_t divisor) {
  std::optional<int64_t> step = getConstantIntValue(loop.getStep());
  if (!step)
    return "expected a constant loop step";
  LinearExpr end = LinearExpr::get(loop.getUpperBound());
  if (!isClampedTile(size, *step, loop.getInductionVar(), end))
    return "expected tiles as large as the loop step " + std::to_string(*step) + ", clamped at the loop's end";
  if (!mustCover)
    return "";
  if (!isConstantIntValue(loop.getLowerBound(), 0) || !isEqualSize(loop.getUpperBound(), extent))
    return "expected the loop to run from 0 to the extent of the dimension";
  std::optional<int64_t> endValue = end.getConstantValue();
  if (isConstantIntValue(size, *step) && endValue.value_or(divisor) % *step != 0)
    return "expected the tile at the loop's end to be clamped";
  return "";
}

/// If `offset` and `size` are results of a flash.segment_tile whose number is the induction variable of a loop, returns
/// the loop. Null otherwise.
static const scf::ForOp *findLoopOfSegmentTile(OpFoldResult offset, OpFoldResult size, ArrayRef<scf::ForOp> loops) {
  auto begin = dyn_cast<Value>(offset);
  auto tile = begin ? begin.getDefiningOp<SegmentTileOp>() : SegmentTileOp();
  if (!tile || begin != tile.getBegin() || size != OpFoldResult(tile.getSize()))
    return nullptr;
  const auto *loop = llvm::find_if(loops, [&](scf::ForOp l) { return tile.getTile() == l.getInductionVar(); });
  auto isOutside = [&](Value operand) {
    return operand == tile.getTile() || scf::ForOp(*loop).isDefinedOutsideOfLoop(operand);
  };
  return loop != loops.end() && llvm::all_of(tile->getOperands(), isOutside) ? loop : nullptr;
}

TilePartition mlir::flash::proveTilePartition(OffsetSizeAndStrideOpInterface slice, ArrayRef<scf::ForOp> loops,
                                              std::optional<ArrayRef<OpFoldResult>> extents, int64_t headDivisor) {
  TilePartition partition;
  SmallVector<OpFoldResult> offsets = slice.getMixedOffsets(), sizes = slice.getMixedSizes();
  auto fail = [&](unsigned dim, const Twine &reason) {
    partition.failure = (reason + " in dimension " + Twine(dim)).str();
    return partition;
  };
  for (unsigned dim = 0; dim < offsets.size(); ++dim) {
    if (!isConstantIntValue(slice.getMixedStrides()[dim], 1))
      return fail(dim, "expected stride 1");
    LinearExpr offset = LinearExpr::get(offsets[dim]);
    OpFoldResult extent = extents ? (*extents)[dim] : OpFoldResult();
    if (offset.isConstant(0)) {
      if (extents && !isEqualSize(sizes[dim], extent))
        return fail(dim, "expected the whole extent");
      partition.loopOfDim.push_back(std::nullopt);
      continue;
    }
    const scf::ForOp *ofSegments = extents ? nullptr : findLoopOfSegmentTile(offsets[dim], sizes[dim], loops);
    const auto *loop = ofSegments ? ofSegments : llvm::find_if(loops, [&](scf::ForOp l) {
      return offset == LinearExpr::symbol(l.getInductionVar());
    });
    if (loop == loops.end())
      return fail(dim, "expected the offset to be 0 or the induction variable of a loop");
    unsigned position = loop - loops.begin();
    if (partition.isMovedBy(position))
      return fail(dim, "expected a loop to move one dimension only, got a second one");
    int64_t divisor = dim == static_cast<unsigned>(StepDim::H) ? headDivisor : 1;
    std::string missing = ofSegments ? "" : proveMovedDim(sizes[dim], *loop, extents.has_value(), extent, divisor);
    if (!missing.empty())
      return fail(dim, missing);
    partition.loopOfDim.push_back(position);
  }
  return partition;
}
