//===- PageSource.cpp - tiles of a warp that are boxes of one page ------------------------------------------------===//

#include "Sources/WarpSource.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

using namespace mlir;
using namespace flashc;

namespace {
/// A warp loads each tile by TMA as one box. With a block table the box is in the page that the table gives. Rows after
/// the end of the sequence become zeros.
class PageSource : public WarpSource {
public:
  using WarpSource::WarpSource;

  void addMap(int64_t rows) override { map = frame.signature.getTensorMap(*info.getArgument(), rows); }
  Value load(Value position) override;

private:
  bool needsEnd() const override { return false; } // TMA knows the array's end
  void clearIf(arith::CmpIPredicate predicate, Value x, Value y, Value slot, Value first, Value begin);
};
} // namespace

Value PageSource::load(Value position) {
  Value outer = batch, place = position;
  if (int64_t page = info.getPageRows()) {
    outer = emitPage(position);
    if (!outer)
      return {};
    place = arith::RemUIOp::create(b, position, frame.index(page));
  }
  Value loaded = tile::LoadOp::create(b, getSlotType(), map, outer, head, place, ring);
  if (end) {
    Value left = arith::SubIOp::create(b, end, position);
    clearIf(arith::CmpIPredicate::slt, left, frame.index(frame.nest.streamedTile), loaded, left, /*begin=*/Value());
  }
  if (Value begin = getCleared(position).second)
    clearIf(arith::CmpIPredicate::sgt, begin, frame.index(0), loaded, /*first=*/Value(), begin);
  return loaded;
}

/// Clears rows of a slot (tile.clear_rows) if the comparison of `x` and `y` holds.
void PageSource::clearIf(arith::CmpIPredicate predicate, Value x, Value y, Value slot, Value first, Value begin) {
  Value hasSome = arith::CmpIOp::create(b, predicate, x, y);
  auto branch = scf::IfOp::create(b, TypeRange(), hasSome, /*addElseBlock=*/false);
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(branch.thenBlock());
  tile::ClearRowsOp::create(b, slot, first, begin);
}

std::unique_ptr<Source> flashc::matchPageSource(KernelFrame &frame, const NestOperand &operand) {
  bool isTaken = isLoadedByUnit(frame, operand) && areBoxes(frame, operand);
  return isTaken ? std::make_unique<PageSource>(frame, operand) : nullptr;
}
