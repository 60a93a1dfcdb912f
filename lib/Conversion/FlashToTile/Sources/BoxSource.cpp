//===- BoxSource.cpp - tiles that are boxes of an array -----------------------------------------------------------===//

#include "Rows/Rows.h"
#include "Sources/Source.h"

using namespace mlir;
using namespace flashc;

namespace {
/// A producer loads each tile of an array by TMA, as one box.
class BoxSource : public Source {
public:
  using Source::Source;

  void addMap(int64_t rows) override {
    map = info.isStreamed ? frame.signature.getTensorMap(*info.getArgument(), rows)
                          : frame.rows->getTensorMap(frame, *info.getArgument());
  }
  Value load(Value position) override {
    auto [first, begin] = getCleared(position);
    return tile::LoadOp::create(b, getSlotType(), map, batch, head, position, /*table=*/Value(),
                                /*page_rows=*/IntegerAttr(), /*end=*/Value(), ring, first, begin);
  }
};
} // namespace

std::unique_ptr<Source> flashc::matchBoxSource(KernelFrame &frame, const NestOperand &operand) {
  return std::make_unique<BoxSource>(frame, operand);
}
