//===- RowsSource.cpp - tiles of a warp whose rows are copied one by one ------------------------------------------===//

#include "Sources/WarpSource.h"
#include "flashc/Dialect/Flash/IR/Arguments.h"

using namespace mlir;
using namespace flashc;

namespace {
/// A warp copies each row of a tile by cp.async, from the row's page if there are pages. Rows that no query sees are
/// not read, since their table entries may hold any bits.
class RowsSource : public WarpSource {
public:
  using WarpSource::WarpSource;

  Value load(Value position) override;

private:
  bool needsEnd() const override { return true; }
};
} // namespace

Value RowsSource::load(Value position) {
  Value outer = batch;
  IntegerAttr size;
  if (int64_t page = info.getPageRows()) {
    Value pages = scalars.getExtent(b, cache, cache.getTable(), 1);
    BlockArgument table = flash::getRootArgument(cache.getTable());
    if (!pages)
      return {};
    auto type = tile::getRowType(b.getI32Type(), frame.tileRows);
    outer = tile::ReadPagesOp::create(b, type, frame.signature.getMemRef(table.getArgNumber()), batch, position, pages,
                                      page);
    size = b.getI64IntegerAttr(page);
  }
  return tile::LoadRowsOp::create(b, getSlotType(), getMemRef(/*alignment=*/16), outer, head, position, size,
                                  frame.getSeenKeys().begin, end, ring);
}

std::unique_ptr<Source> flashc::matchRowsSource(KernelFrame &frame, const NestOperand &operand) {
  return isLoadedByUnit(frame, operand) ? std::make_unique<RowsSource>(frame, operand) : nullptr;
}
