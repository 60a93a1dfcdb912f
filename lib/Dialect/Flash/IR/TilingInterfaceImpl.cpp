//===- TilingInterfaceImpl.cpp - tiles of the flash ops -----------------------------------------------------------===//
//
// A tile has a static shape. Where it sticks out of its sequence, the slice that exists is extracted, padded to the
// tile's shape with the identity of what it feeds (zeros; -inf for m), and the result is cut back to the rows that
// exist. Keys beyond the end are excluded by `j < Nk`, joined to the mask.
//
//===--------------------------------------------------------------------------------------------------------------===//

#include "flashc/Dialect/Flash/IR/Flash.h"
#include "mlir/Dialect/Affine/IR/AffineOps.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Arith/Utils/Utils.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/Dialect/Utils/StaticValueUtils.h"
#include <limits>

using namespace mlir;
using namespace mlir::flash;

//===--------------------------------------------------------------------------------------------------------------===//
// Tiles of static shape
//===--------------------------------------------------------------------------------------------------------------===//

/// The extent that a tile of `size` elements has in its type: `affine.min(64, ...)`, the size of a tile that may stick
/// out, has 64. A size without a constant bound stays dynamic.
static int64_t getTileExtent(OpFoldResult size) {
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

/// Whether a tile of `size` elements is padded to its static extent.
static bool mayStickOut(OpFoldResult size) {
  return !getConstantIntValue(size) && !ShapedType::isDynamic(getTileExtent(size));
}

static bool mayStickOut(ArrayRef<OpFoldResult> sizes) {
  return llvm::any_of(sizes, [](OpFoldResult size) { return mayStickOut(size); });
}

static SmallVector<OpFoldResult> unitStrides(OpBuilder &b, size_t rank) {
  return SmallVector<OpFoldResult>(rank, b.getIndexAttr(1));
}

/// `source[offsets][sizes]`, padded with `padding` to the static extents of `sizes`. Records the slice in `slices`.
static Value extractTile(OpBuilder &b, Location loc, Value source, ArrayRef<OpFoldResult> offsets,
                         ArrayRef<OpFoldResult> sizes, float padding, SmallVectorImpl<Operation *> &slices) {
  auto slice = tensor::ExtractSliceOp::create(b, loc, source, offsets, sizes, unitStrides(b, sizes.size()));
  slices.push_back(slice);
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
  Type element = getElementTypeOrSelf(source.getType());
  Value value = arith::ConstantOp::create(b, loc, b.getFloatAttr(element, padding));
  return tensor::PadOp::create(b, loc, RankedTensorType::get(shape, element), slice, low, high, value);
}

/// The part of a tile's `result` that exists: its first `sizes` elements.
static Value cutTile(OpBuilder &b, Location loc, Value result, ArrayRef<OpFoldResult> sizes) {
  if (!mayStickOut(sizes))
    return result;
  SmallVector<OpFoldResult> zeros(sizes.size(), b.getIndexAttr(0));
  return tensor::ExtractSliceOp::create(b, loc, result, zeros, sizes, unitStrides(b, sizes.size()));
}

/// `tile` (offsets or sizes over leading loops) with the whole of a last dimension.
static SmallVector<OpFoldResult> appended(ArrayRef<OpFoldResult> tile, OpFoldResult last) {
  SmallVector<OpFoldResult> result(tile);
  result.push_back(last);
  return result;
}

static OpFoldResult getHeadDim(OpBuilder &b, Value value) {
  return b.getIndexAttr(cast<RankedTensorType>(value.getType()).getDimSize(3));
}

/// Where the tile of result `number` lies, when result 0 has a trailing Dv and the others stop at i.
static void getRowTilePosition(OpBuilder &b, unsigned number, Value first, ArrayRef<OpFoldResult> offsets,
                               ArrayRef<OpFoldResult> sizes, SmallVector<OpFoldResult> &resultOffsets,
                               SmallVector<OpFoldResult> &resultSizes) {
  resultOffsets.assign(offsets.begin(), offsets.begin() + 3);
  resultSizes.assign(sizes.begin(), sizes.begin() + 3);
  if (number != 0)
    return;
  resultOffsets.push_back(b.getIndexAttr(0));
  resultSizes.push_back(getHeadDim(b, first));
}

static Range wholeDim(OpBuilder &b, Location loc, Value value, unsigned dim) {
  return Range{b.getIndexAttr(0), tensor::getMixedSize(b, loc, value, dim), b.getIndexAttr(1)};
}

//===--------------------------------------------------------------------------------------------------------------===//
// Regions of a tile that sticks out
//===--------------------------------------------------------------------------------------------------------------===//

/// Joins `j < limit` to the mask region, which is created if there is none.
static void joinKeyLimit(OpBuilder &b, Location loc, Region &mask, Value limit) {
  OpBuilder::InsertionGuard guard(b);
  if (mask.empty()) {
    SmallVector<Type> types(4, b.getIndexType());
    Block *block = b.createBlock(&mask, mask.end(), types, SmallVector<Location>(4, loc));
    Value keep = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::slt, block->getArgument(3), limit);
    YieldOp::create(b, loc, keep);
    return;
  }
  auto yield = cast<YieldOp>(mask.front().getTerminator());
  b.setInsertionPoint(yield);
  Value inside = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::slt, mask.getArgument(3), limit);
  yield.getValueMutable().assign(arith::AndIOp::create(b, loc, yield.getValue(), inside));
}

/// Keeps `index` inside dimension `dim` of `source`.
static Value clampIndex(OpBuilder &b, Location loc, Value index, Value source, unsigned dim) {
  Value size = isa<RankedTensorType>(source.getType()) ? b.createOrFold<tensor::DimOp>(loc, source, dim)
                                                       : b.createOrFold<memref::DimOp>(loc, source, dim);
  Value zero = arith::ConstantIndexOp::create(b, loc, 0), one = arith::ConstantIndexOp::create(b, loc, 1);
  Value last = b.createOrFold<arith::SubIOp>(loc, size, one);
  return arith::MaxSIOp::create(b, loc, arith::MinSIOp::create(b, loc, index, last), zero);
}

/// The positions of a tile that sticks out are passed to the regions too. What they compute there is dropped, but a
/// read (of a bias, say) must stay inside its tensor: clamps every index of a read that depends on `outside`.
static void clampReads(OpBuilder &b, Region &region, ArrayRef<BlockArgument> outside) {
  OpBuilder::InsertionGuard guard(b);
  DenseSet<Value> tainted(outside.begin(), outside.end());
  region.walk<WalkOrder::PreOrder>([&](Operation *op) {
    bool isTainted = op->walk([&](Operation *nested) {
      bool uses = llvm::any_of(nested->getOperands(), [&](Value operand) { return tainted.contains(operand); });
      return uses ? WalkResult::interrupt() : WalkResult::advance();
    }).wasInterrupted();
    if (!isTainted)
      return;
    tainted.insert(op->result_begin(), op->result_end());
    for (Region &nested : op->getRegions())
      for (BlockArgument argument : nested.getArguments())
        tainted.insert(argument);
    if (!isa<tensor::ExtractOp, memref::LoadOp>(op))
      return;
    b.setInsertionPoint(op);
    for (OpOperand &operand : op->getOpOperands().drop_front())
      if (tainted.contains(operand.get()))
        operand.set(clampIndex(b, op->getLoc(), operand.get(), op->getOperand(0), operand.getOperandNumber() - 1));
  });
}

/// Adapts the regions of `tile`, which may stick out of the sequences of `whole`.
static void adaptRegions(OpBuilder &b, OnlineAttentionOp whole, OnlineAttentionOp tile, bool outsideI, bool outsideJ) {
  for (Region *region : {&tile.getScore(), &tile.getMask()}) {
    if (region->empty())
      continue;
    SmallVector<BlockArgument> outside;
    if (outsideI)
      outside.push_back(region->getArguments().take_back(2).front());
    if (outsideJ)
      outside.push_back(region->getArguments().back());
    clampReads(b, *region, outside);
  }
  if (!outsideJ)
    return;
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPoint(tile);
  Value numKeys = getValueOrCreateConstantIndexOp(b, tile.getLoc(),
                                                  tensor::getMixedSize(b, tile.getLoc(), whole.getK(), 2));
  Value limit = b.createOrFold<arith::AddIOp>(tile.getLoc(), numKeys, whole.getJ0());
  joinKeyLimit(b, tile.getLoc(), tile.getMask(), limit);
}

//===--------------------------------------------------------------------------------------------------------------===//
// flash.online_attention
//===--------------------------------------------------------------------------------------------------------------===//

SmallVector<Range> OnlineAttentionOp::getIterationDomain(OpBuilder &b) {
  return {wholeDim(b, getLoc(), getQ(), 0), wholeDim(b, getLoc(), getQ(), 1), wholeDim(b, getLoc(), getQ(), 2),
          wholeDim(b, getLoc(), getK(), 2)};
}

SmallVector<utils::IteratorType> OnlineAttentionOp::getLoopIteratorTypes() {
  SmallVector<utils::IteratorType> types(4, utils::IteratorType::parallel);
  types.back() = utils::IteratorType::reduction;
  return types;
}

/// The number of key heads that a tile of `numHeads` query heads reads, if tiles do not cut through a group.
static FailureOr<int64_t> getKeyHeads(OnlineAttentionOp op, OpFoldResult numHeads) {
  std::optional<int64_t> heads = getConstantIntValue(numHeads);
  int64_t group = op.getGroupSize();
  if (!heads || *heads <= 0 || (*heads % group != 0 && group % *heads != 0))
    return failure();
  return std::max<int64_t>(*heads / group, 1);
}

FailureOr<TilingResult> OnlineAttentionOp::getTiledImplementation(OpBuilder &b, ArrayRef<OpFoldResult> offsets,
                                                                  ArrayRef<OpFoldResult> sizes) {
  Location loc = getLoc();
  FailureOr<int64_t> keyHeads = getKeyHeads(*this, sizes[1]);
  if (failed(keyHeads))
    return failure();
  OpFoldResult zero = b.getIndexAttr(0);
  OpFoldResult keyHead = affine::makeComposedFoldedAffineApply(
      b, loc, AffineMap::get(1, 0, b.getAffineDimExpr(0).floorDiv(getGroupSize())), {offsets[1]});

  SmallVector<Operation *> slices;
  auto keyTile = [&](Value source) {
    return extractTile(b, loc, source, {offsets[0], keyHead, offsets[3], zero},
                       {sizes[0], b.getIndexAttr(*keyHeads), sizes[3], getHeadDim(b, source)}, 0.0f, slices);
  };
  ArrayRef<OpFoldResult> rowOffsets = offsets.take_front(3), rowSizes = sizes.take_front(3);
  auto rowTile = [&](Value source, float padding) {
    if (cast<RankedTensorType>(source.getType()).getRank() == 3)
      return extractTile(b, loc, source, rowOffsets, rowSizes, padding, slices);
    return extractTile(b, loc, source, appended(rowOffsets, zero), appended(rowSizes, getHeadDim(b, source)), padding,
                       slices);
  };
  Value q = rowTile(getQ(), 0.0f), k = keyTile(getK()), v = keyTile(getV());
  Value acc = rowTile(getAcc(), 0.0f), l = rowTile(getL(), 0.0f);
  Value m = rowTile(getM(), -std::numeric_limits<float>::infinity());

  AffineMap sum = AffineMap::get(2, 0, b.getAffineDimExpr(0) + b.getAffineDimExpr(1));
  SmallVector<Value> at;
  for (auto [origin, offset] : llvm::zip_equal(getOperands().take_back(4), offsets))
    at.push_back(getValueOrCreateConstantIndexOp(
        b, loc, affine::makeComposedFoldedAffineApply(b, loc, sum, {getAsOpFoldResult(origin), offset})));

  auto tile = OnlineAttentionOp::create(b, loc, TypeRange{acc.getType(), m.getType(), l.getType()}, q, k, v, acc, m, l,
                                        at[0], at[1], at[2], at[3], getScaleAttr(), getNormalizeAttr());
  IRMapping mapping;
  getScore().cloneInto(&tile.getScore(), mapping);
  getMask().cloneInto(&tile.getMask(), mapping);
  adaptRegions(b, *this, tile, mayStickOut(sizes[2]), mayStickOut(sizes[3]));

  SmallVector<Value> results{cutTile(b, loc, tile.getResult(0), appended(rowSizes, getHeadDim(b, getAcc()))),
                             cutTile(b, loc, tile.getResult(1), rowSizes),
                             cutTile(b, loc, tile.getResult(2), rowSizes)};
  return TilingResult{{tile}, results, slices};
}

LogicalResult OnlineAttentionOp::getResultTilePosition(OpBuilder &b, unsigned resultNumber,
                                                       ArrayRef<OpFoldResult> offsets, ArrayRef<OpFoldResult> sizes,
                                                       SmallVector<OpFoldResult> &resultOffsets,
                                                       SmallVector<OpFoldResult> &resultSizes) {
  getRowTilePosition(b, resultNumber, getAcc(), offsets, sizes, resultOffsets, resultSizes);
  return success();
}

//===--------------------------------------------------------------------------------------------------------------===//
// flash.finalize
//===--------------------------------------------------------------------------------------------------------------===//

SmallVector<Range> FinalizeOp::getIterationDomain(OpBuilder &b) {
  return {wholeDim(b, getLoc(), getAcc(), 0), wholeDim(b, getLoc(), getAcc(), 1), wholeDim(b, getLoc(), getAcc(), 2)};
}

SmallVector<utils::IteratorType> FinalizeOp::getLoopIteratorTypes() {
  return SmallVector<utils::IteratorType>(3, utils::IteratorType::parallel);
}

FailureOr<TilingResult> FinalizeOp::getTiledImplementation(OpBuilder &b, ArrayRef<OpFoldResult> offsets,
                                                           ArrayRef<OpFoldResult> sizes) {
  Location loc = getLoc();
  SmallVector<Operation *> slices;
  SmallVector<OpFoldResult> outputOffsets = appended(offsets, b.getIndexAttr(0));
  SmallVector<OpFoldResult> outputSizes = appended(sizes, getHeadDim(b, getAcc()));
  Value acc = extractTile(b, loc, getAcc(), outputOffsets, outputSizes, 0.0f, slices);
  Value m = extractTile(b, loc, getM(), offsets, sizes, -std::numeric_limits<float>::infinity(), slices);
  Value l = extractTile(b, loc, getL(), offsets, sizes, 0.0f, slices);
  // The op overwrites all of its outs, so a tile that sticks out gets fresh ones instead of padded slices.
  auto outTile = [&](Value out, Value like, ArrayRef<OpFoldResult> offsets, ArrayRef<OpFoldResult> sizes) -> Value {
    if (!mayStickOut(sizes))
      return extractTile(b, loc, out, offsets, sizes, 0.0f, slices);
    return tensor::EmptyOp::create(b, loc, tensor::getMixedSizes(b, loc, like), getElementTypeOrSelf(out.getType()));
  };
  Value o = outTile(getO(), acc, outputOffsets, outputSizes), lse = outTile(getLse(), m, offsets, sizes);
  auto tile = FinalizeOp::create(b, loc, TypeRange{o.getType(), lse.getType()}, acc, m, l, o, lse, getNormalizeAttr());
  SmallVector<Value> results{cutTile(b, loc, tile.getResult(0), outputSizes),
                             cutTile(b, loc, tile.getResult(1), sizes)};
  return TilingResult{{tile}, results, slices};
}

LogicalResult FinalizeOp::getResultTilePosition(OpBuilder &b, unsigned resultNumber, ArrayRef<OpFoldResult> offsets,
                                                ArrayRef<OpFoldResult> sizes, SmallVector<OpFoldResult> &resultOffsets,
                                                SmallVector<OpFoldResult> &resultSizes) {
  getRowTilePosition(b, resultNumber, getAcc(), offsets, sizes, resultOffsets, resultSizes);
  return success();
}

FailureOr<TilingResult> FinalizeOp::generateResultTileValue(OpBuilder &b, unsigned resultNumber,
                                                            ArrayRef<OpFoldResult> offsets,
                                                            ArrayRef<OpFoldResult> sizes) {
  // Dv is not a loop of the op: only whole rows of o can be produced.
  if (resultNumber == 0 && (getConstantIntValue(offsets[3]) != 0 ||
                            getConstantIntValue(sizes[3]) != getConstantIntValue(getHeadDim(b, getAcc()))))
    return failure();
  FailureOr<TilingResult> tile = getTiledImplementation(b, offsets.take_front(3), sizes.take_front(3));
  if (failed(tile))
    return failure();
  return TilingResult{tile->tiledOps, {tile->tiledValues[resultNumber]}, tile->generatedSlices};
}
