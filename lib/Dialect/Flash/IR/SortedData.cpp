//===- SortedData.cpp - arrays that are declared sorted, and searches in them -------------------------------------===//

#include "flashc/Dialect/Flash/IR/SortedData.h"
#include "mlir/Dialect/Affine/IR/AffineOps.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/Dialect/Utils/StaticValueUtils.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"
#include "mlir/IR/PatternMatch.h"
#include "llvm/ADT/TypeSwitch.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace mlir::flash;

std::optional<ElementRead> mlir::flash::getElementRead(Operation *op) {
  return TypeSwitch<Operation *, std::optional<ElementRead>>(op)
      .Case([](tensor::ExtractOp op) { return ElementRead{op.getTensor(), op.getIndicesMutable()}; })
      .Case([](memref::LoadOp op) { return ElementRead{op.getMemRef(), op.getIndicesMutable()}; })
      .Case<CountLeOp, NthOp>([](auto op) { return ElementRead{op.getSorted(), op.getIndicesMutable()}; })
      .Default(std::nullopt);
}

Value mlir::flash::stripTileClamp(Value position) {
  auto max = position.getDefiningOp<arith::MaxSIOp>();
  auto min = max && max->hasAttr(kTileClampAttrName) ? max.getLhs().getDefiningOp<arith::MinSIOp>() : arith::MinSIOp();
  return min ? min.getLhs() : position;
}

//===--------------------------------------------------------------------------------------------------------------===//
// flash.assume_sorted
//===--------------------------------------------------------------------------------------------------------------===//

LogicalResult AssumeSortedOp::verify() {
  auto type = cast<ShapedType>(getSource().getType());
  if (type.getRank() == 0)
    return emitOpError() << "expected an array of rank 1 or more, got " << type;
  if (type.getShape().back() == 0)
    return emitOpError() << "expected an element along the last dimension, got " << type;
  return success();
}

/// An assume_sorted is redundant if its source is the result of another assume_sorted.
OpFoldResult AssumeSortedOp::fold(FoldAdaptor) {
  return getSource().getDefiningOp<AssumeSortedOp>() ? OpFoldResult(getSource()) : OpFoldResult();
}

namespace {
/// Replaces tensor.dim and memref.dim of the result by the same op on the source.
struct ForwardDims : OpRewritePattern<AssumeSortedOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(AssumeSortedOp op, PatternRewriter &rewriter) const override {
    auto isDim = [](OpOperand &use) { return isa<tensor::DimOp, memref::DimOp>(use.getOwner()); };
    if (llvm::none_of(op->getUses(), isDim))
      return rewriter.notifyMatchFailure(op, "no use asks for an extent");
    rewriter.replaceUsesWithIf(op.getResult(), op.getSource(), isDim);
    return success();
  }
};
} // namespace

void AssumeSortedOp::getCanonicalizationPatterns(RewritePatternSet &patterns, MLIRContext *context) {
  patterns.add<ForwardDims>(context);
}

//===--------------------------------------------------------------------------------------------------------------===//
// flash.count_le, flash.nth
//===--------------------------------------------------------------------------------------------------------------===//

template <typename SortedReadOp> static LogicalResult verifySortedRead(SortedReadOp op) {
  if (!op.getSorted().template getDefiningOp<AssumeSortedOp>())
    return op.emitOpError() << "expected an array that flash.assume_sorted declares";
  int64_t rank = cast<ShapedType>(op.getSorted().getType()).getRank();
  if (int64_t count = op.getIndices().size(); count != rank - 1)
    return op.emitOpError() << "expected an index for every dimension but the last of an array of rank " << rank
                            << ", got " << count;
  return success();
}

LogicalResult CountLeOp::verify() { return verifySortedRead(*this); }
LogicalResult NthOp::verify() { return verifySortedRead(*this); }

LogicalResult SegmentTileOp::verify() {
  if (static_cast<int64_t>(getTileSize()) < 1)
    return emitOpError() << "expected a positive tile size, got " << static_cast<int64_t>(getTileSize());
  return verifySortedRead(*this);
}

//===--------------------------------------------------------------------------------------------------------------===//
// Expansion
//===--------------------------------------------------------------------------------------------------------------===//

/// The loop of a search is unrolled if the array has a static number of elements, and at most this number.
static constexpr int64_t kMaxUnrolled = 64;

/// Converts `x` and `y` to one type that can hold both of them. If one of them is an index, this type is index, or i64
/// if the other one has more than 32 bits.
static void unifyTypes(ImplicitLocOpBuilder &b, Value &x, Value &y) {
  if (x.getType() == y.getType())
    return;
  auto getWidth = [](Value value) { return value.getType().isIndex() ? 0 : value.getType().getIntOrFloatBitWidth(); };
  if (!x.getType().isIndex() && !y.getType().isIndex()) {
    Value &narrow = getWidth(x) < getWidth(y) ? x : y;
    Type wide = getWidth(x) < getWidth(y) ? y.getType() : x.getType();
    narrow = arith::ExtSIOp::create(b, wide, narrow);
    return;
  }
  Type common = std::max(getWidth(x), getWidth(y)) > 32 ? Type(b.getI64Type()) : Type(b.getIndexType());
  for (Value *value : {&x, &y})
    if (value->getType() != common)
      *value = arith::IndexCastOp::create(b, common, *value);
}

/// Emits one step of the search. Returns `count + step` if the array's first `count + step` elements exist and are at
/// most `value` (or less than `value`, if `isStrict`). Otherwise returns `count`. Null if `read` returns null.
static Value emitSearchStep(ImplicitLocOpBuilder &b, bool isStrict, Value count, Value step, Value value, Value extent,
                            ReadElement read) {
  Value next = b.createOrFold<arith::AddIOp>(count, step);
  Value existing = b.createOrFold<arith::MinSIOp>(next, extent);
  Value last = b.createOrFold<arith::SubIOp>(existing, arith::ConstantIndexOp::create(b, 1));
  Value element = read(b, last);
  if (!element)
    return Value();
  unifyTypes(b, element, value);
  auto predicate = isStrict ? arith::CmpIPredicate::slt : arith::CmpIPredicate::sle;
  Value isCounted = arith::CmpIOp::create(b, predicate, element, value);
  Value exists = b.createOrFold<arith::CmpIOp>(arith::CmpIPredicate::sle, next, extent);
  return arith::SelectOp::create(b, b.createOrFold<arith::AndIOp>(exists, isCounted), next, count);
}

/// The number of bits of `extent`, as an index.
static Value emitNumBits(ImplicitLocOpBuilder &b, Value extent) {
  if (std::optional<int64_t> constant = getConstantIntValue(extent))
    return arith::ConstantIndexOp::create(b, *constant > 0 ? llvm::Log2_64(*constant) + 1 : 0);
  Value wide = arith::IndexCastOp::create(b, b.getI64Type(), extent);
  Value leading = math::CountLeadingZerosOp::create(b, wide);
  Value width = arith::ConstantOp::create(b, b.getI64IntegerAttr(64));
  return arith::IndexCastOp::create(b, b.getIndexType(), arith::SubIOp::create(b, width, leading));
}

/// Emits the number of elements that are at most `value` (or less than `value`, if `isStrict`). The search determines
/// the bits of this number one after the other, the highest bit first.
static Value expandCount(OpBuilder &builder, Location loc, bool isStrict, Value value, Value extent, ReadElement read) {
  ImplicitLocOpBuilder b(loc, builder);
  Value zero = arith::ConstantIndexOp::create(b, 0), one = arith::ConstantIndexOp::create(b, 1);
  if (std::optional<int64_t> constant = getConstantIntValue(extent); constant && *constant <= kMaxUnrolled) {
    Value count = zero;
    for (int64_t step = llvm::bit_floor(uint64_t(*constant)); step > 0 && count; step /= 2)
      count = emitSearchStep(b, isStrict, count, arith::ConstantIndexOp::create(b, step), value, extent, read);
    return count;
  }
  Value numBits = emitNumBits(b, extent);
  Value top = arith::SubIOp::create(b, numBits, one);
  auto loop = scf::ForOp::create(b, zero, numBits, one, ValueRange(zero));
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(loop.getBody());
  Value bit = arith::SubIOp::create(b, top, loop.getInductionVar());
  Value step = arith::ShLIOp::create(b, one, bit);
  Value count = emitSearchStep(b, isStrict, loop.getRegionIterArg(0), step, value, extent, read);
  if (!count)
    return Value();
  scf::YieldOp::create(b, count);
  return loop.getResult(0);
}

Value mlir::flash::expandSortedRead(OpBuilder &b, CountLeOp op, Value value, Value extent, ReadElement read) {
  return expandCount(b, op.getLoc(), op.getStrict(), value, extent, read);
}

static Value expandNth(OpBuilder &builder, Location loc, Value position, Value extent, ReadElement read) {
  ImplicitLocOpBuilder b(loc, builder);
  Value zero = arith::ConstantIndexOp::create(b, 0), one = arith::ConstantIndexOp::create(b, 1);
  Value last = b.createOrFold<arith::SubIOp>(extent, one);
  Value nearest = arith::MaxSIOp::create(b, arith::MinSIOp::create(b, position, last), zero);
  Value element = read(b, nearest);
  if (!element)
    return Value();
  // Clamps the element in its own type, before the conversion to index: this type may be wider than an index in a
  // kernel.
  Type type = element.getType();
  auto far = [&](Type type, int64_t sign) -> Value {
    return arith::ConstantOp::create(b, b.getIntegerAttr(type, sign * kFarPosition));
  };
  if (type.isIndex() || type.getIntOrFloatBitWidth() >= 32) {
    element = arith::MinSIOp::create(b, element, far(type, 1));
    element = arith::MaxSIOp::create(b, element, far(type, -1));
  }
  if (!type.isIndex())
    element = arith::IndexCastOp::create(b, b.getIndexType(), element);
  Value isBefore = arith::CmpIOp::create(b, arith::CmpIPredicate::slt, position, zero);
  Value isBehind = arith::CmpIOp::create(b, arith::CmpIPredicate::sge, position, extent);
  element = arith::SelectOp::create(b, isBefore, far(b.getIndexType(), -1), element);
  return arith::SelectOp::create(b, isBehind, far(b.getIndexType(), 1), element);
}

Value mlir::flash::expandSortedRead(OpBuilder &b, NthOp op, Value position, Value extent, ReadElement read) {
  return expandNth(b, op.getLoc(), position, extent, read);
}

SmallVector<Value> mlir::flash::expandSegmentTile(OpBuilder &builder, Location loc, const SegmentTileOperands &operands,
                                                  ReadElement read) {
  ImplicitLocOpBuilder b(loc, builder);
  auto index = [&](int64_t value) -> Value { return arith::ConstantIndexOp::create(b, value); };
  Value size = index(operands.tileSize), zero = index(0), one = index(1);
  // Returns the position at which segment number `position` begins. Segment 1 begins at the position that is the
  // array's first element, and segment 0 lies before it.
  auto getBegin = [&](OpBuilder &nested, Value position) -> Value {
    Value before = arith::SubIOp::create(nested, loc, position, one);
    Value element = expandNth(nested, loc, before, operands.extent, read);
    if (!element)
      return Value();
    return arith::MaxSIOp::create(nested, loc, arith::MinSIOp::create(nested, loc, element, operands.length), zero);
  };
  auto getFirstTile = [&](OpBuilder &nested, Value begin, Value segment) -> Value {
    return arith::AddIOp::create(nested, loc, arith::DivUIOp::create(nested, loc, begin, size), segment);
  };
  // Finds the segment of the tile: the last segment whose first tile is at most `tile`. Segment 0 satisfies this
  // condition, and each element of the array begins another segment. So the number of the tile's segment is the number
  // of elements whose segments satisfy the condition.
  auto readFirstTile = [&](OpBuilder &nested, Value position) {
    Value number = arith::AddIOp::create(nested, loc, position, one), begin = getBegin(nested, number);
    return begin ? getFirstTile(nested, begin, number) : Value();
  };
  Value segment = expandCount(b, loc, /*isStrict=*/false, operands.tile, operands.extent, readFirstTile);
  Value begin = segment ? getBegin(b, segment) : Value();
  Value end = begin ? getBegin(b, arith::AddIOp::create(b, segment, one)) : Value();
  if (!end)
    return {};
  Value number = arith::SubIOp::create(b, operands.tile, getFirstTile(b, begin, segment));
  Value first = arith::AddIOp::create(b, begin, arith::MulIOp::create(b, number, size));
  first = arith::MinSIOp::create(b, first, end);
  Value rest = arith::MinSIOp::create(b, arith::SubIOp::create(b, end, first), size);
  Value last = arith::SubIOp::create(b, operands.length, one);
  return {arith::MaxSIOp::create(b, arith::MinSIOp::create(b, first, last), zero), rest, segment};
}

Value mlir::flash::readElement(OpBuilder &b, Location loc, Value array, ValueRange indices) {
  if (isa<RankedTensorType>(array.getType()))
    return tensor::ExtractOp::create(b, loc, array, indices);
  return memref::LoadOp::create(b, loc, array, indices);
}

/// Calls `expand` with the last extent of the array and a function that reads elements along the last dimension.
template <typename SortedReadOp, typename Expand>
static auto expandWithReads(OpBuilder &b, SortedReadOp op, Expand expand) {
  Value extent = linalg::createOrFoldDimOp(b, op.getLoc(), op.getSorted(), op.getIndices().size());
  return expand(extent, [&](OpBuilder &nested, Value position) {
    SmallVector<Value> all(op.getIndices());
    all.push_back(position);
    return readElement(nested, op.getLoc(), op.getSorted(), all);
  });
}

Value mlir::flash::expandInPlace(OpBuilder &b, CountLeOp op) {
  return expandWithReads(
      b, op, [&](Value extent, ReadElement read) { return expandSortedRead(b, op, op.getValue(), extent, read); });
}

Value mlir::flash::expandInPlace(OpBuilder &b, NthOp op) {
  return expandWithReads(
      b, op, [&](Value extent, ReadElement read) { return expandSortedRead(b, op, op.getPosition(), extent, read); });
}

SmallVector<Value> mlir::flash::expandInPlace(OpBuilder &b, SegmentTileOp op) {
  return expandWithReads(b, op, [&](Value extent, ReadElement read) {
    return expandSegmentTile(b, op.getLoc(), {op.getTile(), extent, op.getLength(), int64_t(op.getTileSize())}, read);
  });
}

void mlir::flash::forEachSegmentCount(StepOpInterface op, Region &region, llvm::function_ref<void(CountLeOp)> action) {
  auto tile = op.getPositionIn(op.getResidentDim()).getDefiningOp<SegmentTileOp>();
  if (!tile || region.empty())
    return;
  auto getSource = [](Value sorted) { return sorted.getDefiningOp<AssumeSortedOp>().getSource(); };
  Block::BlockArgListType position = region.getArguments().take_back(4); // b, h, i, j
  auto isSameIndex = [&](auto pair) {
    auto [inside, outside] = pair;
    return inside == outside || (inside == position[0] && outside == op.getPositionIn(StepDim::B));
  };
  region.walk([&](CountLeOp count) {
    Value counted = count.getValue();
    while (isa_and_nonnull<arith::IndexCastOp, arith::ExtSIOp>(counted.getDefiningOp()))
      counted = counted.getDefiningOp()->getOperand(0);
    if (counted == position[static_cast<unsigned>(op.getResidentDim())] && !count.getStrict() &&
        getSource(count.getSorted()) == getSource(tile.getSorted()) &&
        llvm::all_of(llvm::zip_equal(count.getIndices(), tile.getIndices()), isSameIndex))
      action(count);
  });
}

OpFoldResult mlir::flash::countSegmentTiles(OpBuilder &b, Location loc, Value sorted, Value length, int64_t tileSize) {
  int64_t dim = cast<ShapedType>(sorted.getType()).getRank() - 1;
  Value extent = linalg::createOrFoldDimOp(b, loc, sorted, dim);
  AffineExpr tiles = (b.getAffineDimExpr(0) + 1).ceilDiv(tileSize) + b.getAffineDimExpr(1);
  return affine::makeComposedFoldedAffineApply(b, loc, AffineMap::get(2, 0, tiles),
                                               {getAsOpFoldResult(length), getAsOpFoldResult(extent)});
}
