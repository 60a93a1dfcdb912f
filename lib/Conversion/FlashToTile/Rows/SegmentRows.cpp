//===- SegmentRows.cpp - rows of packed sequences -----------------------------------------------------------------===//

#include "KernelFrame.h"
#include "Rows/GroupRows.h"
#include "flashc/Dialect/Flash/IR/SortedData.h"
#include "mlir/Dialect/Arith/IR/Arith.h"

using namespace mlir;
using namespace flashc;

namespace {
/// Rows of one head (HeadRows) or of a group of heads (GroupRows), in tiles that begin where packed sequences begin
/// (flash.segment_tile).
template <typename Base> class SegmentRows : public Base {
public:
  using Base::Base;

  Value emitNumTiles(KernelFrame &frame, Value extent) const override { return extent; }
  bool areFollowed() const override { return true; }
  Value getBatch(KernelFrame &frame) const override {
    return nest.sequence ? frame.scalars.get(frame.b, nest.sequence) : frame.batch;
  }

private:
  using Base::nest;

  std::optional<GridFormula> countTiles() override;
  Value emitFirstRow(KernelFrame &frame, Value tile, Value extent) override;
};
} // namespace

template <typename Base> std::optional<GridFormula> SegmentRows<Base>::countTiles() {
  flash::SegmentTileOp op = nest.segmentTile;
  std::optional<GridFormula> rows = getFormula(OpFoldResult(op.getLength()));
  std::optional<GridFormula> offsets = getFormula(op.getSorted(), op.getIndices().size());
  if (!rows || !offsets)
    return std::nullopt;
  // Without queries the number of tiles is 0, so that nothing is launched.
  return min(*rows, 1) * (ceilDiv(*rows + 1, nest.residentTile) + *offsets);
}

template <typename Base> Value SegmentRows<Base>::emitFirstRow(KernelFrame &frame, Value tile, Value extent) {
  ImplicitLocOpBuilder &b = frame.b;
  ScalarCloner &scalars = frame.scalars;
  flash::SegmentTileOp op = nest.segmentTile;
  scalars.map(nest.resident.position, tile);
  Value begin = scalars.get(b, op.getBegin()), size = scalars.get(b, op.getSize());
  if (!begin || !size)
    return {};
  // The values come from memory, so ptxas cannot know that they are the same in all threads.
  begin = tile::UniformOp::create(b, begin);
  size = tile::UniformOp::create(b, size);
  scalars.map(op.getBegin(), begin);
  scalars.map(op.getSize(), size);
  Value segment = scalars.get(b, op.getSegment());
  for (Segment &streamed : nest.segments)
    for (Region &region : streamed.op->getRegions())
      flash::forEachSegmentCount(streamed.op, region, [&](flash::CountLeOp count) { scalars.map(count, segment); });
  if (nest.sequence) {
    Value sequence = scalars.get(b, nest.sequence);
    if (!sequence)
      return {};
    scalars.map(nest.sequence, tile::UniformOp::create(b, sequence));
  }
  frame.endOfRows = arith::AddIOp::create(b, begin, size);
  return begin;
}

std::unique_ptr<Rows> flashc::matchSegmentRows(LoopNest &nest) {
  if (!nest.segmentTile)
    return nullptr;
  if (nest.packed)
    return std::make_unique<SegmentRows<GroupRows>>(nest);
  return std::make_unique<SegmentRows<HeadRows>>(nest);
}
