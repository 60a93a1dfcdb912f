//===- VisitsWalk.cpp - the visits that a mask needs --------------------------------------------------------------===//

#include "Sources/Source.h"
#include "Steps/TileStep.h"
#include "Walks/Walk.h"
#include "WorkOrder.h"
#include "mlir/Dialect/Arith/IR/Arith.h"

using namespace mlir;
using namespace flashc;

namespace {
/// A work tile is a resident tile, a head and a batch; its steps are visits of streamed tiles (Visits.h).
class VisitsWalk : public Walk {
public:
  using Walk::Walk;

  FailureOr<SmallVector<Value>> emitGrid() override;
  tile::WorkAttr getWork() const override;
  FailureOr<ValueRange> emitLoop(TileStep &step) override;
};
} // namespace

tile::WorkAttr VisitsWalk::getWork() const {
  auto get = [&](tile::Distribution distribution) {
    return tile::WorkAttr::get(b.getContext(), distribution, tile::ListScope::Tiles, /*numbers=*/0, /*own=*/0,
                               nest.parts.size ? schedule.splits : 1);
  };
  if (frame.isSorted)
    return get(tile::Distribution::Sorted);
  if (!nest.mask || !dependsOnResident(nest))
    return {};
  if (schedule.persistent)
    return get(levelsOff(nest) ? tile::Distribution::Grouped : tile::Distribution::Paired);
  return mayReorder(nest) && areKnownToDiffer(nest) ? get(tile::Distribution::Paired) : tile::WorkAttr();
}

FailureOr<SmallVector<Value>> VisitsWalk::emitGrid() {
  SmallVector<Value> grid;
  if (!schedule.persistent && !getWork())
    return grid;
  for (OpFoldResult extent : {nest.resident.extent, nest.head.extent, nest.batch.extent}) {
    grid.push_back(scalars.get(b, b.getLoc(), extent));
    if (!grid.back())
      return failure();
  }
  grid.front() = frame.rows->emitNumTiles(frame, grid.front());
  if (nest.parts.size)
    grid.front() = arith::MulIOp::create(b, grid.front(), index(schedule.splits));
  grid[1] = frame.rows->emitNumHeads(frame, grid[1]);
  return grid;
}

FailureOr<ValueRange> VisitsWalk::emitLoop(TileStep &step) {
  FailureOr<Visits> numbered = Visits::emit(frame);
  if (failed(numbered))
    return failure();
  Visits &visits = frame.visits = std::move(*numbered);
  SmallVector<Value> streamedRings;
  for (std::unique_ptr<Source> &source : frame.sources) {
    if (source->ring && !source->info.isStreamed)
      source->resident = source->load(frame.row);
    else if (source->ring)
      streamedRings.push_back(source->ring);
  }
  SmallVector<Value> identity = step.emitIdentity();
  Value begin = index(0), end = visits.getTotal();
  tile::OwnVisitsOp own = visits.getOwn();
  if (own) {
    begin = own.getBegin(), end = own.getEnd();
    tile::AdvanceRingOp::create(b, begin, streamedRings);
  }
  auto loop = scf::ForOp::create(b, begin, end, index(1), identity);
  if (own && own.getLast() != own.getTotal())
    tile::AdvanceRingOp::create(b, arith::SubIOp::create(b, visits.getTotal(), end), streamedRings);
  return fillLoop(loop, step);
}

std::unique_ptr<Walk> flashc::matchVisitsWalk(KernelFrame &frame) { return std::make_unique<VisitsWalk>(frame); }
