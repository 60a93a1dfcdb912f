//===- KeyParts.cpp - parts of a tile's keys that run in parallel: Flash-Decoding ---------------------------------===//

#include "KeyParts.h"
#include "mlir/Dialect/Affine/IR/AffineOps.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Arith/Utils/Utils.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/Dialect/Utils/StaticValueUtils.h"

using namespace mlir;

std::pair<OpFoldResult, OpFoldResult> mlir::flash::emitTilesOfPart(OpBuilder &b, Location loc, OpFoldResult count,
                                                                   Value part, int64_t parts, bool isByWork) {
  auto x = b.getAffineDimExpr(0);
  auto apply = [&](AffineExpr expr, OpFoldResult operand) {
    return affine::makeComposedFoldedAffineApply(b, loc, expr, {operand});
  };
  Value tiles = getValueOrCreateConstantIndexOp(b, loc, count);
  Value size = isByWork ? PartSizeOp::create(b, loc, tiles, parts) : Value();
  auto at = [&](int64_t next) -> OpFoldResult {
    Value number = getValueOrCreateConstantIndexOp(b, loc, apply(x + next, OpFoldResult(part)));
    if (isByWork)
      return arith::MinSIOp::create(b, loc, arith::MulIOp::create(b, loc, number, size), tiles).getResult();
    // The product does not overflow, since the number of tiles and the number of the part are small.
    Value product = arith::MulIOp::create(b, loc, tiles, number);
    return apply(x.floorDiv(parts), OpFoldResult(product));
  };
  OpFoldResult first = at(0), end = at(1);
  return {first, end};
}

std::pair<OpFoldResult, OpFoldResult> mlir::flash::emitKeysOfPart(OpBuilder &b, Location loc, OpFoldResult begin,
                                                                  OpFoldResult end, Value part, int64_t parts,
                                                                  int64_t tile, bool isByWork) {
  auto x = b.getAffineDimExpr(0), y = b.getAffineDimExpr(1);
  auto apply = [&](AffineExpr expr, ArrayRef<OpFoldResult> operands) {
    return affine::makeComposedFoldedAffineApply(b, loc, expr, operands);
  };
  auto [first, last] = emitTilesOfPart(b, loc, apply((y - x).ceilDiv(tile), {begin, end}), part, parts, isByWork);
  OpFoldResult from = apply(x + y * tile, {begin, first}), to = apply(x + y * tile, {begin, last});
  return {from, to};
}

Value mlir::flash::expandInPlace(OpBuilder &b, PartSizeOp op) {
  Location loc = op.getLoc();
  Value most = arith::ConstantIndexOp::create(b, loc, op.getMost()), least = arith::ConstantIndexOp::create(b, loc, 2);
  return arith::MaxSIOp::create(b, loc, arith::CeilDivSIOp::create(b, loc, op.getTiles(), most), least);
}

void mlir::flash::emitWriteOfPart(OpBuilder &b, Value result, BlockArgument output, ArrayRef<OpFoldResult> offsets,
                                  ArrayRef<OpFoldResult> sizes, Value part) {
  Location loc = result.getLoc();
  auto type = cast<RankedTensorType>(result.getType());
  int64_t rank = type.getRank();
  SmallVector<OpFoldResult> places(offsets.take_front(rank)), extents(sizes.take_front(rank));
  SmallVector<OpFoldResult> strides(rank + 1, b.getIndexAttr(1)), zeros(rank, b.getIndexAttr(0));
  auto isWhole = [](auto pair) { return isConstantIntValue(std::get<0>(pair), std::get<1>(pair)); };
  if (!llvm::all_of(llvm::zip_equal(extents, type.getShape()), isWhole))
    result = tensor::ExtractSliceOp::create(b, loc, result, zeros, extents, ArrayRef(strides).take_front(rank));
  if (part) {
    places.insert(places.begin(), OpFoldResult(part));
    extents.insert(extents.begin(), b.getIndexAttr(1));
  }
  OpBuilder::InsertionGuard guard(b);
  auto forall = cast<scf::ForallOp>(output.getOwner()->getParentOp());
  b.setInsertionPointToEnd(forall.getTerminator().getBody());
  tensor::ParallelInsertSliceOp::create(b, loc, result, output, places, extents,
                                        ArrayRef(strides).take_front(places.size()));
}
