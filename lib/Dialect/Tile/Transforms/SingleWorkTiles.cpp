//===- SingleWorkTiles.cpp - the work tile of a CTA that has one --------------------------------------------------===//
//
// CTAs start in the order of their numbers, each when another one has ended. So only the end of the launch is uneven,
// where one long work tile can leave the other multiprocessors idle. Therefore the work tiles of the last heads are
// ordered together, with those that take longest first. The other heads follow one another as in the grid, so that
// neighbouring work tiles find in L2 the tiles that they read, and those that they add to.
//
//===--------------------------------------------------------------------------------------------------------------===//

#include "GridWorkTiles.h"

using namespace mlir;
using namespace mlir::tile;

namespace {
/// Work tiles of a `single` program without a work list. This class assumes that work tiles with larger x take less
/// time.
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
  /// Emits the item of this CTA, and its numbers. If `isFront` holds, the CTA's work tile is not in one of the last
  /// heads, and its item is `inFront`. Otherwise its item is the one at `place` of the common order of the last heads.
  virtual Value emitItem(Value isFront, Value inFront, Value place) { return select(isFront, inFront, place); }

private:
  /// How many work tiles of the last heads there are for each multiprocessor. With three of them, a work tile that
  /// takes three times as long as the mean can still end together with the others.
  static constexpr int64_t kTilesPerCta = 3;

  /// Emits the number of this CTA in the order in which CTAs start.
  Value emitNumber() {
    Value y = gpu::BlockIdOp::create(b, gpu::Dimension::y), z = gpu::BlockIdOp::create(b, gpu::Dimension::z);
    return add(cta, mul(nx, add(y, mul(ny, z))));
  }

  Value lastSharers;
};

/// Work tiles of a `single` program with a work list. The list gives the order of the work tiles of the last heads.
class ListedWorkTiles : public SingleWorkTiles {
public:
  ListedWorkTiles(ProgramOp program, ImplicitLocOpBuilder &b)
      : SingleWorkTiles(program, b, program.getWork()->getScope()), list(program, b) {}

private:
  /// The list has three parts: an entry for each item (the item and its numbers), then the work of each item, and then
  /// the numbers of each item again. The third part is in the order of the items.
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
