//===- PairsWalk.cpp - a pair of tiles for each CTA ---------------------------------------------------------------===//

#include "Walks/SummingWalk.h"

using namespace mlir;
using namespace flashc;

namespace {
/// Work tile (i, j, n): tile i of queries and tile j of keys. Visits: the batches and heads that are added up over.
class PairsWalk : public SummingWalk {
public:
  using SummingWalk::SummingWalk;

private:
  void emitCTA() override;
  void emitPair(Value &, Place &place) override { place.query = query, place.key = key; }

  /// The first ones of the tiles.
  Value query, key;
};
} // namespace

void PairsWalk::emitCTA() {
  auto [sumsBatches, sumsHeads] = std::pair(nest.pairs->sumsBatches, nest.pairs->sumsHeads);
  query = mul(gpu::BlockIdOp::create(b, gpu::Dimension::x), index(nest.residentTile));
  key = mul(gpu::BlockIdOp::create(b, gpu::Dimension::y), index(nest.streamedTile));
  Value number = gpu::BlockIdOp::create(b, gpu::Dimension::z), one = index(1);
  ownHead = sumsHeads ? index(0) : rem(number, heads);
  ownBatch = sumsBatches ? index(0) : sumsHeads ? number : div(number, heads);
  total = mul(sumsBatches ? batches : one, sumsHeads ? heads : one);
  frame.batch = ownBatch, frame.head = ownHead, frame.endOfRows = queries;
  bool isInWorkspace = frame.signature.getTables().getNumber(nest.results.front().value).has_value();
  if (sumsHeads && !isInWorkspace) // the result has no heads, but may have batches
    frame.head = ownBatch;
  frame.row = frame.emitUnitRow(query);
  frame.columns = {key, keys};
}

namespace flashc {
std::unique_ptr<Walk> matchPairsWalk(KernelFrame &frame) {
  bool isTaken = frame.nest.pairs && !frame.nest.pairs->isDiagonal;
  return isTaken ? std::make_unique<PairsWalk>(frame) : nullptr;
}
} // namespace flashc
