//===- GroupRows.cpp - heads of a group times queries, for a warpgroup --------------------------------------------===//

#include "KernelFrame.h"
#include "Rows/HeadRows.h"
#include "mlir/Dialect/Arith/IR/Arith.h"

using namespace mlir;
using namespace flashc;

namespace {
/// Rows of several heads of a group, which read the same keys (PackGQA of FlashAttention-3, Shah et al. 2024): with few
/// queries a tile is full, and the group's keys are loaded once. The units of a CTA have consecutive queries of the
/// CTA's tile. Row r of a unit has head `frame.head` + r / queries and position `frame.row` + r mod queries, where
/// `queries` is the number of queries of a unit. Rows after the last head are not stored.
class GroupRows : public HeadRows {
public:
  using HeadRows::HeadRows;

  int64_t countPositions(KernelFrame &frame) const override { return frame.tileRows / countHeads(); }
  bool areConsecutive() const override { return false; }
  Value getHead(KernelFrame &frame) const override { return {}; }
  Value emitFirst(KernelFrame &frame) const override { return frame.index(0); }
  std::pair<Value, Value> emitHeadAndPosition(KernelFrame &frame, Value row) const override;
  Value getTensorMap(KernelFrame &frame, unsigned argument) const override {
    return frame.signature.getTensorMap(argument, countPositions(frame), countHeads());
  }
  void store(KernelFrame &frame, Value tile, Value array, Value batch, bool isMatrix) override;

private:
  int64_t countHeads() const override { return nest.packed->heads; }
};
} // namespace

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
