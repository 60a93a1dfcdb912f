//===- PlaceWaits.cpp - moves code to where a product is in flight ------------------------------------------------===//

#include "Utils.h"
#include "flashc/Dialect/Tile/Transforms/Passes.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/IR/Remarks.h"

namespace mlir::tile {
#define GEN_PASS_DEF_PLACEWAITS
#include "flashc/Dialect/Tile/Transforms/Passes.h.inc"
} // namespace mlir::tile

using namespace mlir;
using namespace mlir::tile;

bool tile::delayRelease(scf::ForOp loop, int64_t elements) {
  auto waits = llvm::to_vector(loop.getOps<MmaWaitOp>());
  if (waits.size() != 2 || waits[0].getPending() != 1)
    return false;
  Value exponentials;
  for (Operation &op : *loop.getBody())
    if (isa<math::Exp2Op>(op) && hasEncoding<AccAttr>(op.getResult(0).getType()) && op.isBeforeInBlock(waits[1]))
      exponentials = op.getResult(0);
  auto release = dyn_cast<ReleaseOp>(waits[0]->getNextNode());
  if (!exponentials || !release)
    return false;
  release->moveBefore(waits[1]);
  release.getAfterMutable().assign(exponentials);
  release.setElements(std::min<int64_t>(elements, cast<RankedTensorType>(exponentials.getType()).getDimSize(1) / 2));
  return true;
}

/// Moves ops that come before a work tile's first product to after the issue of this product, so that they run while
/// the product is in flight. The product must not need them. These ops compute values of rows (tile.rows) or, with
/// `isUnderStores`, other scalars. `isUnderStores` says that the product will run while the previous work tile is
/// stored. Without `isUnderStores`, moving other scalars would gain nothing, and would make ptxas spill.
static void delayScalars(Block &block, bool isUnderStores) {
  auto products = block.getOps<MmaAsyncOp>();
  auto first = products.empty() ? MmaAsyncOp() : *products.begin();
  Operation *wait = first ? block.findAncestorOpInBlock(**first.getToken().user_begin()) : nullptr;
  if (!wait)
    return;
  Operation *place = wait;
  for (Operation *op = first->getPrevNode(), *previous; op; op = previous) {
    previous = op->getPrevNode();
    auto isBehind = [&](Operation *user) { return !block.findAncestorOpInBlock(*user)->isBeforeInBlock(place); };
    if ((!isa<RowsOp>(op) && !(isUnderStores && isScalarCode(op))) || !llvm::all_of(op->getUsers(), isBehind))
      continue;
    op->moveBefore(place);
    place = op;
  }
}

static void placeReleases(WarpSpecializeOp op, int64_t elements) {
  bool isAny = false;
  op.getConsumer().walk([&](scf::ForOp loop) { isAny |= delayRelease(loop, elements); });
  if (!isAny)
    remark::missed(op.getLoc(), remark::RemarkOpts::name("place-waits").category("tile"))
        << "no loop has two products in flight, and exponentials between their waits";
}

static void placeScalars(WarpSpecializeOp op, bool isUnderStores) {
  op.getConsumer().walk([&](Block *block) {
    auto loop = dyn_cast<scf::ForOp>(block->getParentOp());
    bool isOfPoint =
        block->getParentOp() == op || (loop && llvm::none_of(loop.getResultTypes(), llvm::IsaPred<RankedTensorType>));
    if (isOfPoint)
      delayScalars(*block, isUnderStores);
  });
}

namespace {
struct PlaceWaits : tile::impl::PlaceWaitsBase<PlaceWaits> {
  using PlaceWaitsBase::PlaceWaitsBase;

  void runOnOperation() override {
    getOperation()->walk([&](WarpSpecializeOp op) {
      FailureOr<ScheduleAttr> schedule = getSchedule(op);
      if (failed(schedule))
        return signalPassFailure();
      if (schedule->getWaitAfter() > 0)
        placeReleases(op, schedule->getWaitAfter());
      placeScalars(op, schedule->getEpilogue() != Epilogue::Plain);
    });
  }
};
} // namespace
