//===- Rows.cpp - which rows a tile has ---------------------------------------------------------------------------===//

#include "Rows/Rows.h"
#include "KernelFrame.h"
#include "mlir/Dialect/Arith/IR/Arith.h"

using namespace mlir;
using namespace flashc;

namespace flashc {
#define ROWS(Name) std::unique_ptr<Rows> match##Name##Rows(LoopNest &nest);
#include "Rows/Rows.def"
} // namespace flashc

std::unique_ptr<Rows> flashc::makeRows(LoopNest &nest) {
#define ROWS(Name)                                                                                                     \
  if (std::unique_ptr<Rows> rows = match##Name##Rows(nest))                                                            \
    return rows;
#include "Rows/Rows.def"
  llvm_unreachable("the last kind takes any nest");
}

Value Rows::emitNumTiles(KernelFrame &frame, Value extent) const {
  return frame.b.createOrFold<arith::CeilDivUIOp>(extent, frame.index(nest.residentTile));
}

Value Rows::getHead(KernelFrame &frame) const { return frame.head; }

Value Rows::emitFirst(KernelFrame &frame) const { return frame.row; }

std::pair<Value, Value> Rows::emitHeadAndPosition(KernelFrame &frame, Value row) const { return {frame.head, row}; }
