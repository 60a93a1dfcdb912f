//===- PairsWalk.cpp - pairs of tiles that are added up over batches and heads ------------------------------------===//

#include "Sources/Source.h"
#include "Steps/TileStep.h"
#include "Walks/Walk.h"
#include "mlir/Dialect/Arith/IR/Arith.h"

using namespace mlir;
using namespace flashc;
using flash::StepDim;

namespace {
/// The common part of the walks of a step that is not tiled at level L1 (PairNest.h). Each visit loads a tile of all
/// operands. Each unit has a part of the queries.
class SummingWalk : public Walk {
public:
  using Walk::Walk;

  FailureOr<SmallVector<Value>> emitGrid() override;
  LogicalResult emitPositions() override;
  FailureOr<ValueRange> emitLoop(TileStep &step) override;

protected:
  /// The place of a pair of tiles: one tile of queries and one of keys.
  struct Place {
    Value batch, head, query, key;
  };

  /// Emits the position of the CTA, the destination of its state, and its number of visits.
  virtual void emitCTA() = 0;
  /// Emits the query and the key of the visit with this number. Leaves in `number` the part that counts batches and
  /// heads.
  virtual void emitPair(Value &number, Place &place) = 0;

  Value add(Value x, Value y) { return b.createOrFold<arith::AddIOp>(x, y); }
  Value sub(Value x, Value y) { return b.createOrFold<arith::SubIOp>(x, y); }
  Value mul(Value x, Value y) { return b.createOrFold<arith::MulIOp>(x, y); }
  Value div(Value x, Value y) { return b.createOrFold<arith::DivUIOp>(x, y); }
  Value rem(Value x, Value y) { return b.createOrFold<arith::RemUIOp>(x, y); }
  Value ceilDiv(Value x, Value y) { return b.createOrFold<arith::CeilDivUIOp>(x, y); }
  Value max(Value x, Value y) { return b.createOrFold<arith::MaxSIOp>(x, y); }

  Value batches, heads, queries, keys;
  /// `ownBatch` and `ownHead` are the CTA's batch and head; if batches or heads are summed over, a visit determines
  /// them instead. `total` is the number of the CTA's visits.
  Value ownBatch, ownHead, total;

private:
  LogicalResult enter(Value visit) override;
  LogicalResult skipUnneeded();
  Place emitPlace(Value visit);
};

/// The CTA has work tile (i, j, n): tile i of queries and tile j of keys. The number n counts batches and heads,
/// without those that are summed over; the CTA visits all of the latter.
class PairsWalk : public SummingWalk {
public:
  using SummingWalk::SummingWalk;

private:
  void emitCTA() override;
  void emitPair(Value &, Place &place) override { place.query = query, place.key = key; }

  /// The first query and the first key of the CTA's tiles.
  Value query, key;
};

/// CTA (t, h, n) has one diagonal of head h and batch n. If all tiles of queries together are as long as q tiles of
/// keys, the diagonal consists of the tiles whose first key is (t - q) tiles of keys after their first query. The CTA
/// visits the diagonal for every batch and head that is summed over.
class DiagonalsWalk : public SummingWalk {
public:
  using SummingWalk::SummingWalk;

private:
  void emitCTA() override;
  void emitPair(Value &number, Place &place) override;

  /// `distance` is the distance from a tile's first query to its first key. `firstTile` is the first tile of queries,
  /// and `numTiles` is the number of tiles.
  Value distance, firstTile, numTiles;
};
} // namespace

FailureOr<SmallVector<Value>> SummingWalk::emitGrid() {
  auto getExtent = [&](StepDim dim, int64_t number) {
    return scalars.getExtent(b, nest.end, nest.getOperand(dim).array, number);
  };
  batches = getExtent(StepDim::I, 0), heads = getExtent(StepDim::I, 1);
  queries = getExtent(StepDim::I, 2), keys = getExtent(StepDim::J, 2);
  if (!batches || !heads || !queries || !keys)
    return failure();
  if (!schedule.persistent)
    return SmallVector<Value>();
  Value one = index(1);
  Value outer = mul(nest.pairs->sumsBatches ? one : batches, nest.pairs->sumsHeads ? one : heads);
  return SmallVector<Value>{ceilDiv(queries, index(nest.residentTile)), ceilDiv(keys, index(nest.streamedTile)), outer};
}

LogicalResult SummingWalk::emitPositions() {
  emitCTA();
  return skipUnneeded();
}

/// Makes no visits if the mask keeps no pair of the first visit. Then the mask keeps no pair of any visit.
LogicalResult SummingWalk::skipUnneeded() {
  if (!nest.pairs->neededKeys)
    return success();
  const flash::NeededKeys &needed = *nest.pairs->neededKeys;
  Place place = emitPlace(index(0));
  scalars.map(needed.batch, place.batch);
  scalars.map(needed.head, place.head);
  scalars.map(needed.query, place.query);
  Value begin = scalars.get(b, b.getLoc(), needed.begin), end = scalars.get(b, b.getLoc(), needed.end);
  if (!begin || !end)
    return failure();
  auto compare = [&](arith::CmpIPredicate predicate, Value x, Value y) -> Value {
    return arith::CmpIOp::create(b, predicate, x, y);
  };
  Value endsAfter = compare(arith::CmpIPredicate::sgt, add(place.key, index(nest.streamedTile)), begin);
  Value beginsBefore = compare(arith::CmpIPredicate::slt, place.key, end);
  Value isNeeded = arith::AndIOp::create(b, endsAfter, beginsBefore);
  total = tile::UniformOp::create(b, arith::SelectOp::create(b, isNeeded, total, index(0)).getResult());
  return success();
}

SummingWalk::Place SummingWalk::emitPlace(Value visit) {
  Place place{ownBatch, ownHead, /*query=*/Value(), /*key=*/Value()};
  Value outer = visit;
  emitPair(outer, place);
  if (nest.pairs->sumsHeads) {
    place.head = nest.pairs->sumsBatches ? rem(outer, heads) : outer;
    outer = div(outer, heads);
  }
  if (nest.pairs->sumsBatches)
    place.batch = outer;
  return place;
}

LogicalResult SummingWalk::enter(Value visit) {
  Place place = emitPlace(visit);
  frame.batch = place.batch, frame.head = place.head;
  frame.row = frame.emitUnitRow(place.query), frame.columns = {place.key, keys};
  for (std::unique_ptr<Source> &source : frame.sources) {
    bool isOfKeyHead = source->info.info.movesWith(StepDim::KeyHead);
    source->batch = frame.batch;
    source->head = isOfKeyHead ? div(frame.head, index(nest.groupSize)) : frame.head;
    if (source->ring && source->info.info.movesWith(StepDim::I))
      source->resident = source->load(frame.row);
  }
  return frame.regions.emitInvariants();
}

/// While the step is emitted, the frame's position is that of the visit.
FailureOr<ValueRange> SummingWalk::emitLoop(TileStep &step) {
  frame.visits = Visits::allMasked(total);
  SmallVector<Value> identity = step.emitIdentity();
  auto loop = scf::ForOp::create(b, index(0), total, index(1), identity);
  auto outside = std::tuple(frame.batch, frame.head, frame.row, frame.columns);
  FailureOr<ValueRange> state = fillLoop(loop, step);
  std::tie(frame.batch, frame.head, frame.row, frame.columns) = outside;
  return state;
}

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

std::unique_ptr<Walk> flashc::matchPairsWalk(KernelFrame &frame) {
  if (!frame.nest.pairs)
    return nullptr;
  if (frame.nest.pairs->isDiagonal)
    return std::make_unique<DiagonalsWalk>(frame);
  return std::make_unique<PairsWalk>(frame);
}
