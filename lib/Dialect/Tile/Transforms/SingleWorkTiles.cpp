//===- SingleWorkTiles.cpp - which work tile a CTA has that has one -----------------------------------------------===//
//
// CTAs start in the order of their numbers, each where one has ended. So nothing but the end is uneven: the last long
// work tile leaves the others idle. Heads go by one after the other, as the grid has them, and what neighbours read and
// add to is in L2 at a time; only the work tiles of the last heads go by together, those that take longest first.
//
//===--------------------------------------------------------------------------------------------------------------===//

#include "GridWorkTiles.h"

using namespace mlir;
using namespace mlir::tile;

namespace {
/// By default work tiles take the less time the larger x is.
class SingleWorkTiles : public SharedWorkTiles {
public:
  SingleWorkTiles(ProgramOp program, ImplicitLocOpBuilder &b, ListScope scope = ListScope::Tiles)
      : SharedWorkTiles(program, b, scope, Quotients::OfOneThread), lastSharers(emitFewSharers(kTilesPerCta)) {}

  scf::ForOp emitLoop() override { return {}; }

  std::array<Value, 3> emitWorkTile(scf::ForOp) override {
    auto [front, inFront] = divideBy(items).divide(emitNumber());
    Value first = sub(sharers, lastSharers), isFront = isBelow(front, first);
    Value rest = add(mul(sub(arith::MaxUIOp::create(b, front, first), first), items), inFront);
    auto [place, sharer] = divideBy(lastSharers).divide(rest);
    Value item = emitItem(isFront, inFront, place);
    std::array<Value, 3> workTile = getWorkTile(item, select(isFront, front, add(first, sharer)));
    for (Value &value : workTile)
      value = UniformOp::create(b, value);
    for (Value &value : numbers)
      value = UniformOp::create(b, value);
    return workTile;
  }

protected:
  /// The item of this CTA, `inFront` if its head goes by alone, else the one at `place`; and its numbers.
  virtual Value emitItem(Value isFront, Value inFront, Value place) { return select(isFront, inFront, place); }

private:
  /// The work tiles of the last heads, for each CTA: the longest may be three times as long as the mean.
  static constexpr int64_t kTilesPerCta = 3;

  /// The number of this CTA, in the order in which they start.
  Value emitNumber() {
    Value y = gpu::BlockIdOp::create(b, gpu::Dimension::y), z = gpu::BlockIdOp::create(b, gpu::Dimension::z);
    return add(cta, mul(nx, add(y, mul(ny, z))));
  }

  Value lastSharers;
};

class ListedWorkTiles : public SingleWorkTiles {
public:
  ListedWorkTiles(ProgramOp program, ImplicitLocOpBuilder &b)
      : SingleWorkTiles(program, b, program.getWork()->getScope()), list(program, b) {}

private:
  /// Behind the list its items have their numbers once more, in their own order.
  Value emitItem(Value isFront, Value inFront, Value place) override {
    Value entry = mul(place, index(1 + list.countNumbers())), item = select(isFront, inFront, list.emitLoad(entry));
    Value ofItem = add(mul(items, index(2 + list.countNumbers())), mul(inFront, index(list.countNumbers())));
    numbers = list.emitNumbers(select(isFront, ofItem, add(entry, index(1))), 0);
    return item;
  }

  WorkList list;
};
} // namespace

std::unique_ptr<WorkTiles> tile::createSingleWorkTiles(ProgramOp program, ImplicitLocOpBuilder &b) {
  if (program.getList())
    return std::make_unique<ListedWorkTiles>(program, b);
  return std::make_unique<SingleWorkTiles>(program, b);
}
