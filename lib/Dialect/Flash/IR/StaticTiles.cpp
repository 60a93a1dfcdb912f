//===- StaticTiles.cpp - slices of static shape -------------------------------------------------------------------===//

#include "StaticTiles.h"
#include "mlir/Dialect/Affine/IR/AffineOps.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/Dialect/Utils/StaticValueUtils.h"

using namespace mlir;
using namespace mlir::flash;

int64_t mlir::flash::getTileExtent(OpFoldResult size) {
  if (std::optional<int64_t> constant = getConstantIntValue(size))
    return *constant;
  auto min = cast<Value>(size).getDefiningOp<affine::AffineMinOp>();
  if (!min)
    return ShapedType::kDynamic;
  int64_t extent = ShapedType::kDynamic;
  for (AffineExpr expr : min.getMap().getResults())
    if (auto constant = dyn_cast<AffineConstantExpr>(expr))
      extent = ShapedType::isDynamic(extent) ? constant.getValue() : std::min(extent, constant.getValue());
  return extent;
}

bool mlir::flash::mayStickOut(OpFoldResult size) {
  return !getConstantIntValue(size) && !ShapedType::isDynamic(getTileExtent(size));
}

bool mlir::flash::mayStickOut(ArrayRef<OpFoldResult> sizes) {
  return llvm::any_of(sizes, [](OpFoldResult size) { return mayStickOut(size); });
}

static SmallVector<OpFoldResult> unitStrides(OpBuilder &b, size_t rank) {
  return SmallVector<OpFoldResult>(rank, b.getIndexAttr(1));
}

Value mlir::flash::extractTile(OpBuilder &b, Location loc, Value source, ArrayRef<OpFoldResult> offsets,
                               ArrayRef<OpFoldResult> sizes, float padding, SmallVectorImpl<Operation *> &slices) {
  auto slice = tensor::ExtractSliceOp::create(b, loc, source, offsets, sizes, unitStrides(b, sizes.size()));
  slices.push_back(slice);
  return padTile(b, loc, slice, sizes, padding);
}

Value mlir::flash::padTile(OpBuilder &b, Location loc, Value slice, ArrayRef<OpFoldResult> sizes, float padding) {
  if (!mayStickOut(sizes))
    return slice;
  SmallVector<int64_t> shape;
  SmallVector<OpFoldResult> low(sizes.size(), b.getIndexAttr(0)), high;
  for (OpFoldResult size : sizes) {
    shape.push_back(getTileExtent(size));
    AffineExpr missing = b.getAffineConstantExpr(0);
    if (mayStickOut(size))
      missing = shape.back() - b.getAffineDimExpr(0);
    high.push_back(affine::makeComposedFoldedAffineApply(b, loc, AffineMap::get(1, 0, missing), {size}));
  }
  Type element = getElementTypeOrSelf(slice.getType());
  Value value = arith::ConstantOp::create(b, loc, b.getFloatAttr(element, padding));
  return tensor::PadOp::create(b, loc, RankedTensorType::get(shape, element), slice, low, high, value);
}

Value mlir::flash::cutTile(OpBuilder &b, Location loc, Value result, ArrayRef<OpFoldResult> sizes) {
  if (!mayStickOut(sizes))
    return result;
  SmallVector<OpFoldResult> zeros(sizes.size(), b.getIndexAttr(0));
  return tensor::ExtractSliceOp::create(b, loc, result, zeros, sizes, unitStrides(b, sizes.size()));
}
