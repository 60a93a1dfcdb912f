//===- TilingInterfaceImpl.cpp - tiles of the flash ops -----------------------------------------------------------===//
//
// Tiles have static shapes (StaticTiles.h). A tile of an input is padded with zeros, and a tile of a state with the
// state's identity. The mask excludes padded positions of the streamed dimension: the condition `j < Nk` (or `i < Nq`
// if queries are streamed) is added to it. If a step adds to streamed tiles, the mask excludes padded positions of both
// dimensions. Otherwise a padded position of the resident dimension could add infinity or NaN to the streamed tiles,
// because the exponential of a padded score may be infinite.
//
//===--------------------------------------------------------------------------------------------------------------===//

#include "StaticTiles.h"
#include "flashc/Dialect/Flash/IR/SortedData.h"
#include "flashc/Dialect/Flash/IR/StepTiling.h"
#include "mlir/Dialect/Affine/IR/AffineOps.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Arith/Utils/Utils.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/Dialect/Utils/StaticValueUtils.h"
#include "mlir/Dialect/Utils/StructuredOpsUtils.h"

using namespace mlir;
using namespace mlir::flash;

/// Returns `tile` (offsets or sizes of the leading dimensions) with `last` appended for the last dimension.
static SmallVector<OpFoldResult> appended(ArrayRef<OpFoldResult> tile, OpFoldResult last) {
  SmallVector<OpFoldResult> result(tile);
  result.push_back(last);
  return result;
}

//===--------------------------------------------------------------------------------------------------------------===//
// Regions of a tile that exceeds its sequence
//===--------------------------------------------------------------------------------------------------------------===//

/// Adds the condition `position < limit` to `mask`, where `position` is the mask's argument for `dim`. If the region is
/// empty, creates a mask that has only this condition.
static void joinLimit(OpBuilder &b, Location loc, Region &mask, StepDim dim, Value limit) {
  OpBuilder::InsertionGuard guard(b);
  unsigned position = static_cast<unsigned>(dim);
  if (mask.empty()) {
    SmallVector<Type> types(4, b.getIndexType());
    Block *block = b.createBlock(&mask, mask.end(), types, SmallVector<Location>(4, loc));
    Value keep = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::slt, block->getArgument(position), limit);
    YieldOp::create(b, loc, keep);
    return;
  }
  auto yield = cast<YieldOp>(mask.front().getTerminator());
  b.setInsertionPoint(yield);
  Value inside = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::slt, mask.getArgument(position), limit);
  yield.getValueMutable().assign(arith::AndIOp::create(b, loc, yield.getValue(), inside));
}

/// Clamps `index` to dimension `dim` of `source`.
static Value clampIndex(OpBuilder &b, Location loc, Value index, Value source, unsigned dim) {
  Value size = linalg::createOrFoldDimOp(b, loc, source, dim);
  Value zero = arith::ConstantIndexOp::create(b, loc, 0), one = arith::ConstantIndexOp::create(b, loc, 1);
  Value last = b.createOrFold<arith::SubIOp>(loc, size, one);
  auto clamped = arith::MaxSIOp::create(b, loc, arith::MinSIOp::create(b, loc, index, last), zero);
  clamped->setAttr(kTileClampAttrName, b.getUnitAttr());
  return clamped;
}

/// Replaces the divisor of an integer division by 1 where it is 0, so that the division does not trap.
static void guardDivisor(OpBuilder &b, Operation *op) {
  Value divisor = op->getOperand(1);
  if (!divisor.getType().isIntOrIndex())
    return;
  auto constant = [&](int64_t value) {
    return arith::ConstantOp::create(b, op->getLoc(), b.getIntegerAttr(divisor.getType(), value));
  };
  Value isZero = arith::CmpIOp::create(b, op->getLoc(), arith::CmpIPredicate::eq, divisor, constant(0));
  op->setOperand(1, arith::SelectOp::create(b, op->getLoc(), isZero, constant(1), divisor));
}

/// Makes `region` safe where its arguments `outside` are positions beyond the end of a sequence. The region runs for
/// padded positions too. Its results are dropped there, but a read (of a bias, say) must stay inside of its tensor, and
/// a divisor must not be 0. So an index of a read is clamped if it depends on `outside`, and a divisor that depends on
/// `outside` is replaced by 1 where it is 0. A search in a sorted array is safe for any value that is searched for.
static void guardPositions(OpBuilder &b, Region &region, ArrayRef<BlockArgument> outside) {
  OpBuilder::InsertionGuard guard(b);
  DenseSet<Value> tainted(outside.begin(), outside.end());
  region.walk<WalkOrder::PreOrder>([&](Operation *op) {
    bool isTainted =
        op->walk([&](Operation *nested) {
            bool uses = llvm::any_of(nested->getOperands(), [&](Value operand) { return tainted.contains(operand); });
            return uses ? WalkResult::interrupt() : WalkResult::advance();
          }).wasInterrupted();
    if (!isTainted)
      return;
    tainted.insert(op->result_begin(), op->result_end());
    for (Region &nested : op->getRegions())
      for (BlockArgument argument : nested.getArguments())
        tainted.insert(argument);
    b.setInsertionPoint(op);
    if (isa<arith::DivSIOp, arith::DivUIOp, arith::FloorDivSIOp, arith::CeilDivSIOp, arith::CeilDivUIOp, arith::RemSIOp,
            arith::RemUIOp>(op) &&
        tainted.contains(op->getOperand(1)))
      guardDivisor(b, op);
    std::optional<ElementRead> read = getElementRead(op);
    if (!read)
      return;
    for (auto [dim, index] : llvm::enumerate(read->indices))
      if (tainted.contains(index.get()))
        index.set(clampIndex(b, op->getLoc(), index.get(), read->array, dim));
  });
}

/// Adapts the regions of `tile`. `outsideI` and `outsideJ` say whether the tile may exceed the sequence of queries or
/// of keys of `whole`. The mask drops padded positions of the streamed dimension. If the step adds to streamed tiles,
/// the mask drops padded positions of the resident dimension, too; otherwise it need not, because the tile's results
/// are cut back. A step without scores needs no mask at all: its inputs are padded so that padded positions contribute
/// nothing.
static void adaptRegions(OpBuilder &b, StepOpInterface whole, StepOpInterface tile, bool outsideI, bool outsideJ) {
  for (Region &region : tile->getRegions()) {
    if (region.empty())
      continue;
    SmallVector<BlockArgument> outside;
    if (outsideI)
      outside.push_back(region.getArguments().take_back(2).front());
    if (outsideJ)
      outside.push_back(region.getArguments().back());
    guardPositions(b, region, outside);
  }
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPoint(tile);
  auto exclude = [&](StepDim dim) {
    auto [sequence, place] = whole.getMoving(dim);
    OpFoldResult length = tensor::getMixedSize(b, tile.getLoc(), sequence, place);
    Value limit = b.createOrFold<arith::AddIOp>(
        tile.getLoc(), getValueOrCreateConstantIndexOp(b, tile.getLoc(), length), whole.getPositionIn(dim));
    joinLimit(b, tile.getLoc(), tile.getMask(), dim, limit);
  };
  for (auto [dim, isOutside] : {std::pair(StepDim::I, outsideI), std::pair(StepDim::J, outsideJ)})
    if (isOutside && tile.getScores() && (whole.getStreamedDim() == dim || whole.addsToStreamed()))
      exclude(dim);
}

void mlir::flash::guardTilesOfPairs(OpBuilder &b, StepOpInterface op) {
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPoint(op);
  for (Region &region : op->getRegions())
    if (!region.empty())
      guardPositions(b, region, {region.getArguments().end()[-2], region.getArguments().end()[-1]});
  for (StepDim dim : {StepDim::I, StepDim::J}) {
    auto [sequence, place] = op.getMoving(dim);
    OpFoldResult length = tensor::getMixedSize(b, op.getLoc(), sequence, place);
    joinLimit(b, op.getLoc(), op.getMask(), dim, getValueOrCreateConstantIndexOp(b, op.getLoc(), length));
  }
}

//===--------------------------------------------------------------------------------------------------------------===//
// Steps
//===--------------------------------------------------------------------------------------------------------------===//

SmallVector<Range> mlir::flash::getStepDomain(OpBuilder &b, StepOpInterface op) {
  return llvm::map_to_vector(ArrayRef{StepDim::B, StepDim::H, StepDim::I, StepDim::J}, [&](StepDim dim) {
    auto [operand, place] = op.getMoving(dim);
    return Range{b.getIndexAttr(0), tensor::getMixedSize(b, op.getLoc(), operand, place), b.getIndexAttr(1)};
  });
}

SmallVector<utils::IteratorType> mlir::flash::getStepIterators(StepOpInterface op) {
  SmallVector<utils::IteratorType> types(4, utils::IteratorType::parallel);
  for (const StepOperand &carried : op.getStepState()) // a state that does not move with `dim` is a sum over `dim`
    for (StepDim dim : {StepDim::I, StepDim::J})
      if (!carried.movesWith(dim))
        types[static_cast<unsigned>(dim)] = utils::IteratorType::reduction;
  return types;
}

/// Whether `size` is known to be the extent of dimension `dim` of `value`.
static bool isWholeDim(OpBuilder &b, OpFoldResult size, Value value, int64_t dim) {
  if (auto known = dyn_cast<Value>(size))
    if (auto dimOp = known.getDefiningOp<tensor::DimOp>())
      if (dimOp.getSource() == value && dimOp.getConstantIndex() == dim)
        return true;
  return isEqualConstantIntOrValue(size, tensor::getMixedSize(b, value.getLoc(), value, dim));
}

/// Returns `sizes` with a constant number of heads if the number is min(c, heads after the offset), where c divides the
/// group: the number of heads is a multiple of the group, and tiles begin at multiples of c, so that the minimum is c.
static SmallVector<OpFoldResult> withWholeHeads(StepOpInterface op, ArrayRef<OpFoldResult> sizes) {
  SmallVector<OpFoldResult> result(sizes);
  auto heads = dyn_cast<Value>(sizes[static_cast<unsigned>(StepDim::H)]);
  auto min = heads ? heads.getDefiningOp<affine::AffineMinOp>() : affine::AffineMinOp();
  if (!min)
    return result;
  for (AffineExpr expr : min.getMap().getResults())
    if (auto constant = dyn_cast<AffineConstantExpr>(expr);
        constant && constant.getValue() > 0 && op.getGroup() % constant.getValue() == 0)
      result[static_cast<unsigned>(StepDim::H)] = OpBuilder(op).getIndexAttr(constant.getValue());
  return result;
}

/// Returns the number of key heads that a tile of `numHeads` query heads reads. Fails unless every tile consists of
/// whole groups, or every tile lies inside of one group.
static FailureOr<OpFoldResult> getKeyHeads(OpBuilder &b, StepOpInterface op, OpFoldResult numHeads) {
  std::optional<int64_t> heads = getConstantIntValue(numHeads);
  int64_t group = op.getGroup();
  auto [ofHeads, headPlace] = op.getMoving(StepDim::H);
  auto [ofKeyHeads, keyHeadPlace] = op.getMoving(StepDim::KeyHead);
  if (!ofKeyHeads)
    return numHeads;
  if (!heads && isWholeDim(b, numHeads, ofHeads, headPlace))
    return tensor::getMixedSize(b, op.getLoc(), ofKeyHeads, keyHeadPlace);
  if (!heads || *heads <= 0 || (*heads % group != 0 && group % *heads != 0))
    return failure();
  return OpFoldResult(b.getIndexAttr(std::max<int64_t>(*heads / group, 1)));
}

/// Removes the attribute group_size if the tile has static numbers of heads, because the operands' types then say the
/// group size. (The group size differs from that of the whole op if the tile has only some query heads of a group.)
static void setTileGroup(StepOpInterface tile) {
  auto isDynamic = [&](StepDim dim) {
    auto [operand, place] = tile.getMoving(dim);
    return operand && cast<RankedTensorType>(operand.getType()).isDynamicDim(place);
  };
  if (!isDynamic(StepDim::H) && !isDynamic(StepDim::KeyHead))
    tile->removeAttr("group_size");
}

/// Returns the offsets (or sizes) of a tile of `operand`. `tile` has the offsets (or sizes) of the dimensions (b, h, i,
/// j, key head). A dimension of the operand that is not tiled gets `whole`.
static SmallVector<OpFoldResult> getDims(const StepOperand &operand, ArrayRef<OpFoldResult> tile, OpFoldResult whole) {
  return llvm::map_to_vector(
      operand.dims, [&](StepDim dim) { return dim == StepDim::Whole ? whole : tile[static_cast<unsigned>(dim)]; });
}

static SmallVector<OpFoldResult> getOffsets(OpBuilder &b, const StepOperand &operand, ArrayRef<OpFoldResult> tile) {
  return getDims(operand, tile, b.getIndexAttr(0));
}

static SmallVector<OpFoldResult> getSizes(OpBuilder &b, StepOpInterface op, const StepOperand &operand,
                                          ArrayRef<OpFoldResult> tile) {
  ArrayRef<int64_t> shape = cast<RankedTensorType>(op->getOperand(operand.number).getType()).getShape();
  return getDims(operand, tile, b.getIndexAttr(shape.back())); // only the last dimension may be one that is not tiled
}

/// Emits the tile of `op` at `offsets`, where `state` are the tiles of its state. The tile's results are cut back to
/// the positions that exist.
static FailureOr<TilingResult> emitTile(OpBuilder &b, StepOpInterface op, ArrayRef<OpFoldResult> offsets,
                                        ArrayRef<OpFoldResult> sizes, ArrayRef<Value> state,
                                        SmallVector<Operation *> slices) {
  Location loc = op.getLoc();
  FailureOr<OpFoldResult> keyHeads = getKeyHeads(b, op, sizes[1]);
  if (failed(keyHeads))
    return failure();
  OpFoldResult keyHead = affine::makeComposedFoldedAffineApply(
      b, loc, AffineMap::get(1, 0, b.getAffineDimExpr(0).floorDiv(op.getGroup())), {offsets[1]});
  SmallVector<Value> operands(op->getOperands());
  for (const StepOperand &input : op.getStepInputs())
    operands[input.number] =
        extractTile(b, loc, operands[input.number], getOffsets(b, input, appended(offsets, keyHead)),
                    getSizes(b, op, input, appended(sizes, *keyHeads)), input.padding, slices);
  for (auto [carried, tile] : llvm::zip_equal(op.getStepState(), state))
    operands[carried.number] = tile;
  AffineMap sum = AffineMap::get(2, 0, b.getAffineDimExpr(0) + b.getAffineDimExpr(1));
  for (auto [number, offset] : llvm::enumerate(offsets)) {
    Value &position = operands[op.getPosition().getBeginOperandIndex() + number];
    position = getValueOrCreateConstantIndexOp(
        b, loc, affine::makeComposedFoldedAffineApply(b, loc, sum, {getAsOpFoldResult(position), offset}));
  }

  auto tile = cast<StepOpInterface>(clone(b, op, ValueRange(state).getTypes(), operands));
  setTileGroup(tile);
  adaptRegions(b, op, tile, mayStickOut(sizes[2]), mayStickOut(sizes[3]));

  SmallVector<Value> results;
  for (auto [carried, result] : llvm::zip_equal(op.getStepState(), tile->getResults()))
    results.push_back(cutTile(b, loc, result, getSizes(b, op, carried, sizes)));
  return TilingResult{{tile}, results, slices};
}

FailureOr<TilingResult> mlir::flash::emitStepTile(OpBuilder &b, StepOpInterface op, ArrayRef<OpFoldResult> offsets,
                                                  ArrayRef<OpFoldResult> asked) {
  SmallVector<OpFoldResult> sizes = withWholeHeads(op, asked);
  SmallVector<Value> state;
  SmallVector<Operation *> slices;
  for (const StepOperand &carried : op.getStepState())
    state.push_back(extractTile(b, op.getLoc(), op->getOperand(carried.number), getOffsets(b, carried, offsets),
                                getSizes(b, op, carried, sizes), carried.padding, slices));
  return emitTile(b, op, offsets, sizes, state, slices);
}

void mlir::flash::getStatePosition(OpBuilder &b, StepOpInterface op, unsigned number, ArrayRef<OpFoldResult> offsets,
                                   ArrayRef<OpFoldResult> sizes, SmallVector<OpFoldResult> &resultOffsets,
                                   SmallVector<OpFoldResult> &resultSizes) {
  StepOperand carried = op.getStepState()[number];
  resultOffsets = getOffsets(b, carried, offsets);
  resultSizes = getSizes(b, op, carried, withWholeHeads(op, sizes));
}

//===--------------------------------------------------------------------------------------------------------------===//
// flash.online_attention: PartialReductionOpInterface
//===--------------------------------------------------------------------------------------------------------------===//
//
// Each chunk of keys is folded into a state of its own. So the states are arrays (acc, m, l) with an additional leading
// dimension, the number of the chunk. mergeReductions (DecomposeAttention.cpp) folds all of them into one state.

FailureOr<SmallVector<Value>>
OnlineAttentionOp::generateInitialTensorForPartialReduction(OpBuilder &b, Location loc, ArrayRef<OpFoldResult> sizes,
                                                            const SetVector<unsigned> &reductionDims) {
  SmallVector<Value> states;
  for (const StepOperand &carried : getStepState()) {
    SmallVector<OpFoldResult> shape{sizes[3]};
    shape.append(getSizes(b, *this, carried, sizes));
    Value identity = arith::ConstantOp::create(b, loc, b.getF32FloatAttr(carried.padding));
    Value empty = tensor::EmptyOp::create(b, loc, shape, b.getF32Type());
    states.push_back(linalg::FillOp::create(b, loc, identity, empty).getResult(0));
  }
  return states;
}

LogicalResult OnlineAttentionOp::getPartialResultTilePosition(
    OpBuilder &b, unsigned resultNumber, ReductionTilingStrategy strategy, ArrayRef<OpFoldResult> offsets,
    ArrayRef<OpFoldResult> sizes, const SetVector<unsigned> &reductionDims, ArrayRef<OpFoldResult> splitReductionIvs,
    SmallVector<OpFoldResult> &resultOffsets, SmallVector<OpFoldResult> &resultSizes) {
  resultOffsets.assign({splitReductionIvs.front()});
  resultSizes.assign({b.getIndexAttr(1)});
  StepOperand carried = getStepState()[resultNumber];
  resultOffsets.append(getOffsets(b, carried, offsets));
  resultSizes.append(getSizes(b, *this, carried, sizes));
  return success();
}

FailureOr<TilingResult> OnlineAttentionOp::tileToPartialReduction(
    OpBuilder &b, Location loc, ReductionTilingStrategy strategy, ValueRange init, ArrayRef<OpFoldResult> offsets,
    ArrayRef<OpFoldResult> sizes, const SetVector<unsigned> &reductionDims, ArrayRef<OpFoldResult> splitReductionIvs) {
  // Other reduction tiling strategies need a partial result for each key of a tile, but a state has no dimension of
  // keys.
  if (strategy != ReductionTilingStrategy::PartialReductionOuterParallel)
    return failure();
  SmallVector<Value> state;
  SmallVector<Operation *> slices;
  for (auto [number, carried] : llvm::enumerate(getStepState())) {
    SmallVector<OpFoldResult> at, extents;
    if (failed(getPartialResultTilePosition(b, number, strategy, offsets, sizes, reductionDims, splitReductionIvs, at,
                                            extents)))
      return failure();
    SmallVector<OpFoldResult> strides(at.size(), b.getIndexAttr(1));
    RankedTensorType type = tensor::ExtractSliceOp::inferCanonicalRankReducedResultType(
        at.size() - 1, cast<RankedTensorType>(init[number].getType()), extents);
    auto slice = tensor::ExtractSliceOp::create(b, loc, type, init[number], at, extents, strides);
    slices.push_back(slice);
    state.push_back(padTile(b, loc, slice, ArrayRef(extents).drop_front(), carried.padding));
  }
  return emitTile(b, *this, offsets, sizes, state, slices);
}
