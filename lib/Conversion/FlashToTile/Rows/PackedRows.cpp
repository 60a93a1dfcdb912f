//===- PackedRows.cpp - heads of a group times tokens -------------------------------------------------------------===//

#include "KernelFrame.h"
#include "Rows/Rows.h"
#include "mlir/Dialect/Arith/IR/Arith.h"

using namespace mlir;
using namespace flashc;

namespace {
/// Rows of several heads and tokens: row r of a tile has head `frame.head` + r / tokens and position `frame.row` + r
/// mod tokens. Each unit of a CTA has all rows of the tile. The grid has parts of the keys along x, tiles of heads and
/// tokens along y, and batches along z.
class PackedRows : public Rows {
public:
  using Rows::Rows;

  FailureOr<std::array<GridFormula, 3>> getExtents() override;
  LogicalResult emitPlace(KernelFrame &frame) override;
  bool areConsecutive() const override { return false; }
  /// Returns the head if all rows of the tile have the same one. Null if the tile has several heads.
  Value getHead(KernelFrame &frame) const override { return shape().heads == 1 ? frame.head : Value(); }
  Value emitFirst(KernelFrame &frame) const override { return frame.index(0); }
  std::pair<Value, Value> emitHeadAndPosition(KernelFrame &frame, Value row) const override;
  void store(KernelFrame &frame, Value tile, Value array, Value batch, bool isMatrix) override;

private:
  const PackedShape &shape() const { return *nest.packed; }
};
} // namespace

FailureOr<std::array<GridFormula, 3>> PackedRows::getExtents() {
  auto get = [](const ParallelDim &dim) { return getFormula(dim.extent); };
  std::optional<GridFormula> parts = get(nest.parts.dim), heads = get(nest.head), queries = get(nest.resident),
                             batches = get(nest.batch);
  if (!parts || !heads || !queries || !batches)
    return nest.end->emitError() << "expected the extents of the parallel loop to be constants or extents of arguments";
  return std::array<GridFormula, 3>{*parts, ceilDiv(*heads, shape().heads) * ceilDiv(*queries, shape().tokens),
                                    *batches};
}

LogicalResult PackedRows::emitPlace(KernelFrame &frame) {
  ImplicitLocOpBuilder &b = frame.b;
  ScalarCloner &scalars = frame.scalars;
  frame.part = gpu::BlockIdOp::create(b, gpu::Dimension::x);
  Value tile = gpu::BlockIdOp::create(b, gpu::Dimension::y);
  frame.batch = gpu::BlockIdOp::create(b, gpu::Dimension::z);
  Value heads = scalars.get(b, b.getLoc(), nest.head.extent);
  frame.endOfRows = scalars.get(b, b.getLoc(), nest.resident.extent);
  if (!heads || !frame.endOfRows)
    return failure();
  Value ofHeads = frame.index(shape().heads), ofTokens = frame.index(shape().tokens);
  Value headTiles = b.createOrFold<arith::CeilDivUIOp>(heads, ofHeads);
  frame.head = b.createOrFold<arith::MulIOp>(b.createOrFold<arith::RemUIOp>(tile, headTiles), ofHeads);
  frame.row = b.createOrFold<arith::MulIOp>(b.createOrFold<arith::DivUIOp>(tile, headTiles), ofTokens);
  frame.columns = {frame.index(0)};
  std::pair<Value, Value> positions[] = {{nest.parts.dim.position, frame.part},
                                         {nest.batch.position, frame.batch},
                                         {nest.head.position, frame.head},
                                         {nest.resident.position, frame.row}};
  for (auto [inL1, here] : positions)
    if (isa_and_nonnull<BlockArgument>(inL1))
      scalars.map(inL1, here);
  return success();
}

std::pair<Value, Value> PackedRows::emitHeadAndPosition(KernelFrame &frame, Value row) const {
  return emitPlaceOfHeads(frame, row, shape());
}

void PackedRows::store(KernelFrame &frame, Value tile, Value array, Value batch, bool isMatrix) {
  tile::WriteRowsOp::create(frame.b, tile, array, batch, frame.head, frame.row, frame.columns.front(), frame.endOfRows,
                            shape().heads, shape().tokens, isMatrix && frame.readsBytes());
}

std::unique_ptr<Rows> flashc::matchPackedRows(LoopNest &nest) {
  return nest.isOfDecoding() ? std::make_unique<PackedRows>(nest) : nullptr;
}
