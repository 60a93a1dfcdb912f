//===- GroupRows.cpp - heads of a group times queries, for a warpgroup --------------------------------------------===//

#include "Rows/GroupRows.h"
#include "KernelFrame.h"
#include "mlir/Dialect/Arith/IR/Arith.h"

using namespace mlir;
using namespace flashc;

int64_t GroupRows::countPositions(KernelFrame &frame) const { return frame.tileRows / countHeads(); }

Value GroupRows::emitFirst(KernelFrame &frame) const { return frame.index(0); }

Value GroupRows::getTensorMap(KernelFrame &frame, unsigned argument) const {
  return frame.signature.getTensorMap(argument, countPositions(frame), countHeads());
}

std::pair<Value, Value> GroupRows::emitHeadAndPosition(KernelFrame &frame, Value row) const {
  return emitPlaceOfHeads(frame, row, {countHeads(), countPositions(frame)});
}

void GroupRows::store(KernelFrame &frame, Value tile, Value array, Value batch, bool isMatrix) {
  tile::StoreOp::create(frame.b, tile, array, batch, frame.head, frame.row, frame.endOfRows, /*columns=*/ValueRange(),
                        countHeads(), countPositions(frame));
}

std::unique_ptr<Rows> flashc::matchGroupRows(LoopNest &nest) {
  return nest.packed && !nest.isOfDecoding() ? std::make_unique<GroupRows>(nest) : nullptr;
}
