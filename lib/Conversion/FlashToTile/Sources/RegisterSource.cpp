//===- RegisterSource.cpp - resident rows in registers ------------------------------------------------------------===//

#include "Sources/Source.h"

using namespace mlir;
using namespace flashc;

namespace {
/// A warp reads its packed rows from device memory into registers, as operands of products.
class RegisterSource : public Source {
public:
  using Source::Source;

  bool hasRing() const override { return false; }
  LogicalResult emitInvariants() override {
    if (failed(Source::emitInvariants()))
      return failure();
    resident = load(frame.row);
    return success();
  }
  Value load(Value position) override {
    auto type = RankedTensorType::get({frame.tileRows, info.getCols()}, frame.nest.elementType,
                                      tile::OperandAAttr::get(b.getContext()));
    return tile::ReadRowsOp::create(b, type, getMemRef(/*alignment=*/4), frame.batch, frame.head, position,
                                    frame.endOfRows, frame.nest.packed->heads, frame.nest.packed->tokens,
                                    frame.readsBytes());
  }
};
} // namespace

std::unique_ptr<Source> flashc::matchRegisterSource(KernelFrame &frame, const NestOperand &operand) {
  bool isTaken = frame.nest.isOfDecoding() && !operand.isStreamed;
  return isTaken ? std::make_unique<RegisterSource>(frame, operand) : nullptr;
}
