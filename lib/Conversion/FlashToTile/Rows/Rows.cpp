//===- Rows.cpp - which rows a tile has ---------------------------------------------------------------------------===//

#include "Rows/Rows.h"
#include "KernelFrame.h"
#include "mlir/Dialect/Arith/IR/Arith.h"

using namespace mlir;
using namespace flashc;

Value Rows::emitNumTiles(KernelFrame &frame, Value extent) const {
  return frame.b.createOrFold<arith::CeilDivUIOp>(extent, frame.index(nest.residentTile));
}

Value Rows::emitNumHeads(KernelFrame &frame, Value extent) const { return extent; }

Value Rows::getTensorMap(KernelFrame &frame, unsigned argument) const {
  return frame.signature.getTensorMap(argument, frame.tileRows);
}

int64_t Rows::countPositions(KernelFrame &frame) const { return frame.tileRows; }

Value Rows::getBatch(KernelFrame &frame) const { return frame.batch; }
Value Rows::getHead(KernelFrame &frame) const { return frame.head; }

Value Rows::emitFirst(KernelFrame &frame) const { return frame.row; }

std::pair<Value, Value> Rows::emitPlaceOfHeads(KernelFrame &frame, Value row, PackedShape shape) {
  ImplicitLocOpBuilder &b = frame.b;
  Value tokens = frame.index(shape.tokens);
  Value head = b.createOrFold<arith::DivUIOp>(row, tokens), token = b.createOrFold<arith::RemUIOp>(row, tokens);
  // Rows after the last head are not stored. They read the data of the last head, which exists.
  if (shape.heads * shape.tokens < frame.tileRows)
    head = b.createOrFold<arith::MinUIOp>(head, frame.index(shape.heads - 1));
  return {b.createOrFold<arith::AddIOp>(frame.head, head), b.createOrFold<arith::AddIOp>(frame.row, token)};
}

std::pair<Value, Value> Rows::emitHeadAndPosition(KernelFrame &frame, Value row) const { return {frame.head, row}; }
