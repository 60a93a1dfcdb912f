//===- SummingWalk.cpp - pairs of tiles that are added up over batches and heads ----------------------------------===//

#include "Walks/SummingWalk.h"
#include "Sources/Source.h"
#include "Steps/TileStep.h"
#include "mlir/Dialect/Arith/IR/Arith.h"

using namespace mlir;
using namespace flashc;
using flash::StepDim;

Value SummingWalk::add(Value x, Value y) { return b.createOrFold<arith::AddIOp>(x, y); }
Value SummingWalk::sub(Value x, Value y) { return b.createOrFold<arith::SubIOp>(x, y); }
Value SummingWalk::mul(Value x, Value y) { return b.createOrFold<arith::MulIOp>(x, y); }
Value SummingWalk::div(Value x, Value y) { return b.createOrFold<arith::DivUIOp>(x, y); }
Value SummingWalk::rem(Value x, Value y) { return b.createOrFold<arith::RemUIOp>(x, y); }
Value SummingWalk::ceilDiv(Value x, Value y) { return b.createOrFold<arith::CeilDivUIOp>(x, y); }
Value SummingWalk::max(Value x, Value y) { return b.createOrFold<arith::MaxSIOp>(x, y); }

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

/// No visits where the mask keeps no pair of the first one, and so none of any.
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

/// While the step is emitted the frame is where the visit is.
FailureOr<ValueRange> SummingWalk::emitLoop(TileStep &step) {
  frame.visits = Visits::allMasked(total);
  SmallVector<Value> identity = step.emitIdentity();
  auto loop = scf::ForOp::create(b, index(0), total, index(1), identity);
  auto outside = std::tuple(frame.batch, frame.head, frame.row, frame.columns);
  FailureOr<ValueRange> state = fillLoop(loop, step);
  std::tie(frame.batch, frame.head, frame.row, frame.columns) = outside;
  return state;
}
