//===- TileRegisterOps.cpp - constraints of the ops on tiles in registers -----------------------------------------===//

#include "flashc/Dialect/Tile/IR/Tile.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/Matchers.h"

using namespace mlir;
using namespace mlir::tile;

LogicalResult RowReduceOp::verify() {
  if (getKind() == ReduceKind::Sum && !hasEncoding<LanePartialAttr>(getResult().getType()))
    return emitOpError() << "expected a sum with encoding #tile.lane_partial, got " << getResult().getType();
  return success();
}

LogicalResult SplitSumsOp::verify() {
  RankedTensorType source = getSource().getType(), columns = getColumns().getType();
  int64_t sumCols = GPUTarget::of(*this).colStep;
  if (source.getDimSize(1) != columns.getDimSize(1) + sumCols)
    return emitOpError() << "expected " << sumCols << " columns less than " << source.getDimSize(1) << ", got "
                         << columns.getDimSize(1);
  for (Value result : getResults())
    if (Type element = getElementTypeOrSelf(result); element != source.getElementType())
      return emitOpError() << "expected results of " << source.getElementType() << ", got " << element;
  return success();
}

LogicalResult BroadcastOp::verify() {
  if (hasEncoding<LanePartialAttr>(getSource().getType()) && hasEncoding<LanePartialAttr>(getResult().getType()))
    return emitOpError() << "expected a result with encoding #tile.acc, got " << getResult().getType();
  return success();
}

OpFoldResult ScaleRowsOp::fold(FoldAdaptor adaptor) {
  return matchPattern(getSource(), m_PosZeroFloat()) ? getSource() : Value();
}

LogicalResult ToOperandAOp::verify() {
  RankedTensorType source = getSource().getType(), result = getResult().getType();
  if (source.getShape() != result.getShape() || !isa<BFloat16Type, Float16Type>(result.getElementType()))
    return emitOpError() << "expected a 16-bit result shaped like " << source << ", got " << result;
  return success();
}

LogicalResult ReadColumnsOp::verify() {
  SlotType slot = getSlot().getType();
  auto expected = RankedTensorType::get({slot.getCols()}, slot.getElementType(), ColAttr::get(getContext()));
  if (!slot.getElementType().isF32() || static_cast<int64_t>(getRow()) >= slot.getRows())
    return emitOpError() << "expected one of the rows of a slot of f32, got " << getRow() << " of " << slot;
  if (getResult().getType() != expected)
    return emitOpError() << "expected a result of type " << expected << ", got " << getResult().getType();
  return success();
}

LogicalResult DropoutMaskOp::verify() {
  RankedTensorType type = getResult().getType();
  if (!type.getElementType().isInteger(1) || type.getDimSize(1) % 16 != 0)
    return emitOpError() << "expected flags (i1) of a multiple of 16 columns, got " << type;
  return success();
}

LogicalResult FromOperandAOp::verify() {
  if (getSource().getType().getShape() != getResult().getType().getShape())
    return emitOpError() << "expected a result shaped like " << getSource().getType() << ", got "
                         << getResult().getType();
  return success();
}

static LogicalResult verifyIndices(Operation *op, MemRefType memref, ValueRange indices) {
  if (static_cast<int64_t>(indices.size()) == memref.getRank())
    return success();
  return op->emitOpError() << "expected " << memref.getRank() << " indices, got " << indices.size();
}

Type ReadPairOp::getPairType(Type element) {
  if (element.isInteger(1) || element.isInteger(8))
    return IntegerType::get(element.getContext(), 16);
  if (!element.isIntOrFloat() || element.getIntOrFloatBitWidth() < 16)
    return {};
  return VectorType::get({2}, element);
}

LogicalResult ReadPairOp::verify() {
  auto memref = cast<MemRefType>(getMemref().getType());
  Type pair = getPairType(memref.getElementType());
  if (!pair)
    return emitOpError() << "expected elements of 8, 16 or more bits, got " << memref;
  if (getResult().getType() != pair)
    return emitOpError() << "expected " << pair << " as a pair of " << memref.getElementType() << ", got "
                         << getResult().getType();
  return verifyIndices(*this, memref, getIndices());
}

LogicalResult IsAlignedOp::verify() {
  return verifyIndices(*this, cast<MemRefType>(getMemref().getType()), getIndices());
}

static LogicalResult verifyYield(Operation *op, Region &body, Type element) {
  auto yield = dyn_cast<YieldOp>(body.front().back());
  if (!yield || yield.getValue().getType() != element)
    return op->emitOpError() << "expected to yield " << element;
  return success();
}

/// Verifies the second value that the region of a map yields: it must exist if and only if the map has a second result.
static LogicalResult verifyOffset(MapOp map) {
  Value offset = cast<YieldOp>(map.getBody().front().back()).getOffset();
  if (static_cast<bool>(offset) != static_cast<bool>(map.getOffset()))
    return map.emitOpError() << "expected to yield as many values as there are results";
  if (!offset)
    return success();
  Type type = map.getOffset().getType();
  if (offset.getType() != getElementTypeOrSelf(type))
    return map.emitOpError() << "expected a second value of " << getElementTypeOrSelf(type) << ", got "
                             << offset.getType();
  if (!map.isSameInThread(offset))
    return map.emitOpError()
           << "expected a second value that is the same for the elements of a row that a thread holds";
  return success();
}

LogicalResult MapOp::verifyRegions() {
  Type element = cast<RankedTensorType>(getSource().getType()).getElementType(), index = IndexType::get(getContext());
  SmallVector<Type> arguments{element, index, index};
  for (Type type : getRows().getTypes()) {
    auto tile = cast<RankedTensorType>(type);
    if (isColTile(type) && tile.getDimSize(0) != cast<RankedTensorType>(getSource().getType()).getDimSize(1))
      return emitOpError() << "expected a value for each column of " << getSource().getType() << ", got " << type;
    arguments.push_back(tile.getElementType());
  }
  if (getBody().getArgumentTypes() != TypeRange(arguments))
    return emitOpError() << "expected region arguments (" << arguments << "), got (" << getBody().getArgumentTypes()
                         << ")";
  return failed(verifyYield(*this, getBody(), element)) ? failure() : verifyOffset(*this);
}

LogicalResult FirstColumnOp::verify() {
  if (getColumn() == cast<MapOp>((*this)->getParentOp()).getBody().getArgument(2))
    return success();
  return emitOpError() << "expected the position j of the tile.map around it";
}

LogicalResult RowsOp::verifyRegions() {
  if (getBody().getArgumentTypes() != TypeRange(IndexType::get(getContext())))
    return emitOpError() << "expected one region argument, the row (index)";
  if (cast<YieldOp>(getBody().front().back()).getOffset())
    return emitOpError() << "expected to yield one value";
  return verifyYield(*this, getBody(), cast<RankedTensorType>(getType()).getElementType());
}
