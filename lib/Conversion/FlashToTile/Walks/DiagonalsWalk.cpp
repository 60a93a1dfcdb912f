//===- DiagonalsWalk.cpp - a diagonal of tiles for each CTA -------------------------------------------------------===//

#include "Walks/SummingWalk.h"
#include "mlir/Dialect/Arith/IR/Arith.h"

using namespace mlir;
using namespace flashc;

namespace {
/// CTA (t, h, n): the tiles whose first key is (t - q) tiles of keys after their first query, with q tiles of keys'
/// extent in all tiles of queries. Visits: the tiles of queries, and the batches and heads that are added up over.
class DiagonalsWalk : public SummingWalk {
public:
  using SummingWalk::SummingWalk;

private:
  void emitCTA() override;
  void emitPair(Value &number, Place &place) override;

  /// From a tile's first query to its first key; the first tile of queries, and how many there are.
  Value distance, firstTile, numTiles;
};
} // namespace

void DiagonalsWalk::emitCTA() {
  Value tile = gpu::BlockIdOp::create(b, gpu::Dimension::x), zero = index(0), one = index(1);
  Value rows = index(nest.residentTile), cols = index(nest.streamedTile);
  ownHead = gpu::BlockIdOp::create(b, gpu::Dimension::y), ownBatch = gpu::BlockIdOp::create(b, gpu::Dimension::z);
  Value ofQueries = ceilDiv(queries, rows);
  Value before = mul(ofQueries, index(nest.residentTile / nest.streamedTile));
  distance = mul(sub(tile, before), cols);
  firstTile = ceilDiv(max(sub(zero, distance), zero), rows);
  Value end = ceilDiv(max(sub(keys, distance), zero), rows);
  numTiles = max(sub(b.createOrFold<arith::MinSIOp>(end, ofQueries), firstTile), zero);
  total = mul(numTiles, mul(nest.pairs->sumsBatches ? batches : one, nest.pairs->sumsHeads ? heads : one));
  frame.batch = ownBatch, frame.head = ownHead;
  frame.row = frame.emitUnitRow(mul(tile, rows));
  frame.endOfRows = mul(add(before, ceilDiv(keys, cols)), rows);
}

void DiagonalsWalk::emitPair(Value &number, Place &place) {
  Value atLeastOne = max(numTiles, index(1));
  place.query = mul(add(firstTile, rem(number, atLeastOne)), index(nest.residentTile));
  place.key = add(place.query, distance);
  number = div(number, atLeastOne);
}

namespace flashc {
std::unique_ptr<Walk> matchDiagonalsWalk(KernelFrame &frame) {
  bool isTaken = frame.nest.pairs && frame.nest.pairs->isDiagonal;
  return isTaken ? std::make_unique<DiagonalsWalk>(frame) : nullptr;
}
} // namespace flashc
