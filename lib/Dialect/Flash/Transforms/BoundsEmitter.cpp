//===- BoundsEmitter.cpp - bounds of loops as values --------------------------------------------------------------===//

#include "BoundsEmitter.h"
#include "flashc/Dialect/Flash/IR/SortedData.h"
#include "flashc/Support/CloneSlice.h"
#include "mlir/Dialect/Affine/IR/AffineOps.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Arith/Utils/Utils.h"
#include "mlir/Dialect/Utils/StaticValueUtils.h"

using namespace mlir;
using namespace mlir::flash;

BoundsEmitter::BoundsEmitter(StepOpInterface op, const KeyRange &range, const LoopBounds &bounds)
    : bounds(bounds), symbols{range.begin, range.end, getAsOpFoldResult(range.first), range.count}, op(op),
      b(range.place), loc(op.getLoc()), mayBeEmpty(range.mayBeEmpty) {
  for (IRMapping &mapping : hoisted) {
    mapping.map(op.getMask().getArgument(0), op.getPositionIn(StepDim::B));
    mapping.map(op.getMask().getArgument(1), op.getPositionIn(StepDim::H));
  }
  mapRows(range.first);
  for (const CapturedValue &captured : bounds.captured)
    symbols.push_back(getAsOpFoldResult(makeIndex(hoist(captured.value, hoisted[unsigned(captured.at)]))));
}

bool BoundsEmitter::isSame(OpFoldResult x, OpFoldResult y) { return isEqualConstantIntOrValue(x, y); }

AffineExpr BoundsEmitter::symbol(unsigned position) const { return getAffineSymbolExpr(position, b.getContext()); }

bool BoundsEmitter::mayHaveNoQuery() const {
  if (mayBeEmpty)
    return true;
  auto count = dyn_cast<Value>(symbols[LoopBounds::Count]);
  return count && count.getDefiningOp<SegmentTileOp>();
}

AffineExpr BoundsEmitter::getEnd(bool isCeil) const {
  AffineExpr begin = symbol(LoopBounds::Begin), length = symbol(LoopBounds::End) - begin;
  return begin + (isCeil ? length.ceilDiv(bounds.tileSize) : length.floorDiv(bounds.tileSize)) * bounds.tileSize;
}

OpFoldResult BoundsEmitter::roundFrom(OpFoldResult begin, OpFoldResult position, bool isCeil) {
  AffineExpr first = b.getAffineDimExpr(0), distance = b.getAffineDimExpr(1) - first;
  AffineExpr tiles = isCeil ? distance.ceilDiv(bounds.tileSize) : distance.floorDiv(bounds.tileSize);
  return affine::makeComposedFoldedAffineApply(b, loc, AffineMap::get(2, 0, first + tiles * bounds.tileSize),
                                               {begin, position});
}

OpFoldResult BoundsEmitter::reduce(ArrayRef<AffineExpr> exprs, bool isMin) {
  AffineMap map = AffineMap::get(0, symbols.size(), exprs, b.getContext());
  if (exprs.size() == 1)
    return affine::makeComposedFoldedAffineApply(b, loc, map, symbols);
  return isMin ? affine::makeComposedFoldedAffineMin(b, loc, map, symbols)
               : affine::makeComposedFoldedAffineMax(b, loc, map, symbols);
}

OpFoldResult BoundsEmitter::clamp(OpFoldResult value, OpFoldResult limit, bool isMin) {
  if (isSame(value, limit))
    return value;
  AffineMap map = AffineMap::getMultiDimIdentityMap(2, b.getContext());
  return isMin ? affine::makeComposedFoldedAffineMin(b, loc, map, {value, limit})
               : affine::makeComposedFoldedAffineMax(b, loc, map, {value, limit});
}

OpFoldResult BoundsEmitter::unless(ArrayRef<AffineExpr> conditions, OpFoldResult value, OpFoldResult otherwise) {
  if (conditions.empty() || isSame(value, otherwise))
    return value;
  OpFoldResult least = reduce(conditions, /*isMin=*/true);
  if (std::optional<int64_t> constant = getConstantIntValue(least))
    return *constant >= 0 ? value : otherwise;
  // Each value has a statement of its own, because compilers differ in the order in which they evaluate arguments.
  Value zero = arith::ConstantIndexOp::create(b, loc, 0);
  Value bound = getValueOrCreateConstantIndexOp(b, loc, least);
  Value holds = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::sge, bound, zero);
  Value chosen = getValueOrCreateConstantIndexOp(b, loc, value);
  Value rejected = getValueOrCreateConstantIndexOp(b, loc, otherwise);
  return arith::SelectOp::create(b, loc, holds, chosen, rejected).getResult();
}

OpFoldResult BoundsEmitter::clampRooms(const TileInterval &interval, OpFoldResult begin, OpFoldResult end) {
  if (interval.rooms.empty())
    return end;
  SmallVector<AffineExpr> exprs{b.getAffineDimExpr(0)};
  SmallVector<OpFoldResult> operands{end, begin};
  operands.append(symbols);
  // A room that depends on a captured value may be large: the value may be the offset of a sequence that does not
  // exist. Such a room is limited, so that its product with the tile size fits 32 bits.
  AffineExpr largest = b.getAffineConstantExpr(kFarPosition / bounds.tileSize);
  for (AffineExpr room : interval.rooms) {
    bool isCaptured = false;
    for (unsigned position = LoopBounds::FirstCaptured; position < symbols.size(); ++position)
      isCaptured |= room.isFunctionOfSymbol(position);
    if (isCaptured) {
      operands.push_back(reduce({room, largest}, /*isMin=*/true));
      room = symbol(operands.size() - 3);
    }
    exprs.push_back(b.getAffineDimExpr(1) + (room + 1) * bounds.tileSize);
  }
  return affine::makeComposedFoldedAffineMin(b, loc, AffineMap::get(2, operands.size() - 2, exprs, b.getContext()),
                                             operands);
}

/// Prepares `hoisted`, which has one mapping for captured values at the tile's first query, and one for those at its
/// last query. The first one maps the query of the mask to `first`, and the other one to the last query.
void BoundsEmitter::mapRows(Value first) {
  auto isAt = [&](MaskSpace::At at) {
    return llvm::any_of(bounds.captured, [&](const CapturedValue &captured) { return captured.at == at; });
  };
  Value row = op.getMask().getArgument(2);
  hoisted[unsigned(MaskSpace::At::FirstRow)].map(row, first);
  if (!isAt(MaskSpace::At::LastRow))
    return;
  AffineExpr last = symbol(LoopBounds::First) + symbol(LoopBounds::Count) - 1;
  OpFoldResult position = affine::makeComposedFoldedAffineApply(b, loc, AffineMap::get(0, 4, last), symbols);
  if (mayHaveNoQuery()) // the mask may read arrays at this position, so it must not be -1
    position = clamp(position, b.getIndexAttr(0), /*isMin=*/false);
  hoisted[unsigned(MaskSpace::At::LastRow)].map(row, getValueOrCreateConstantIndexOp(b, loc, position));
}

/// Copies the code that computes `value` out of the mask region.
Value BoundsEmitter::hoist(Value value, IRMapping &mapping) {
  return flashc::cloneSlice(b, value, mapping, [&](Value outside) {
    return op.getMask().isAncestor(outside.getParentRegion()) ? Value() : outside;
  });
}

Value BoundsEmitter::makeIndex(Value value) {
  if (value.getType().isInteger(1))
    return arith::IndexCastUIOp::create(b, loc, b.getIndexType(), value);
  return getValueOrCreateCastToIndexLike(b, loc, b.getIndexType(), value);
}
