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

Value Rows::getHead(KernelFrame &frame) const { return frame.head; }

Value Rows::emitFirst(KernelFrame &frame) const { return frame.row; }

std::pair<Value, Value> Rows::emitHeadAndPosition(KernelFrame &frame, Value row) const { return {frame.head, row}; }
