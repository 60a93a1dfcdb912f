//===- PositionsWalk.cpp - streamed tiles that units take in turn -------------------------------------------------===//

#include "Steps/TileStep.h"
#include "Units/Unit.h"
#include "Walks/Walk.h"
#include "mlir/Dialect/Arith/IR/Arith.h"

using namespace mlir;
using namespace flashc;

namespace {
/// The units of a CTA have the same rows, and share the tiles of the CTA's part of the keys. Unit u of n visits the
/// tiles u, u + n, u + 2n, ....
class PositionsWalk : public Walk {
public:
  using Walk::Walk;

  FailureOr<ValueRange> emitLoop(TileStep &step) override {
    frame.visits = Visits::ofPositions(/*isMasked=*/nest.mask != nullptr);
    Value begin = scalars.get(b, b.getLoc(), nest.segments.front().begin),
          end = scalars.get(b, b.getLoc(), nest.segments.back().end);
    if (!begin || !end)
      return failure();
    // The bounds may come from memory. Then ptxas cannot know that they are the same in all lanes.
    begin = tile::UniformOp::create(b, begin), end = tile::UniformOp::create(b, end);
    Value tile = index(nest.streamedTile);
    Value first = arith::AddIOp::create(b, begin, arith::MulIOp::create(b, frame.unitNumber, tile));
    SmallVector<Value> identity = step.emitIdentity();
    auto loop = scf::ForOp::create(b, first, end, index(nest.streamedTile * schedule.warps), identity);
    return fillLoop(loop, step);
  }
};
} // namespace

std::unique_ptr<Walk> flashc::matchPositionsWalk(KernelFrame &frame) {
  return frame.unit->loadsItself() ? std::make_unique<PositionsWalk>(frame) : nullptr;
}
