//===- ConsumerRole.cpp - the roles that compute -----------------------------------------------------------------===//

#include "Roles.h"

using namespace mlir;
using namespace mlir::tile;

/// Releases the slot of `wait`, which has elements of f32. All threads read such a slot themselves, so a thread must
/// not release the slot before all threads have read it. If products are issued after the last read, the release comes
/// after the last wait for one of them. Otherwise it comes after a barrier of the warps.
static void insertReleaseOfColumns(WaitOp wait) {
  Block *block = wait->getBlock();
  Operation *lastRead = wait, *lastWait = nullptr;
  for (Operation *read : wait.getSlot().getUsers())
    for (Operation *user : llvm::concat<Operation *>(SmallVector<Operation *>{read}, llvm::to_vector(read->getUsers())))
      if (Operation *ancestor = block->findAncestorOpInBlock(*user); ancestor && lastRead->isBeforeInBlock(ancestor))
        lastRead = ancestor;
  for (auto end : block->getOps<MmaWaitOp>())
    if (Operation *product = end.getToken().getDefiningOp(); product && product->getBlock() == block &&
                                                             lastRead->isBeforeInBlock(product) &&
                                                             (!lastWait || lastWait->isBeforeInBlock(end)))
      lastWait = end;
  OpBuilder b(wait.getContext());
  b.setInsertionPointAfter(lastWait ? lastWait : lastRead);
  if (!lastWait)
    WarpgroupBarrierOp::create(b, wait.getLoc());
  ReleaseOp::create(b, wait.getLoc(), wait.getSlot());
}

/// Releases the slot of `wait` in the block of `wait`, after the last wait for a product that reads the slot. If a
/// tile.store_async goes through the slot, the release is at the end of the block instead, long after the copy has
/// begun.
static void insertRelease(WaitOp wait) {
  if (wait.getSlot().getType().getElementType().isF32())
    return insertReleaseOfColumns(wait);
  Operation *last = wait;
  for (Operation *product : wait.getSlot().getUsers()) {
    if (isa<StoreAsyncOp>(product)) {
      Block *block = wait->getBlock();
      OpBuilder b = block->mightHaveTerminator() ? OpBuilder::atBlockTerminator(block) : OpBuilder::atBlockEnd(block);
      StoreWaitOp::create(b, product->getLoc());
      ReleaseOp::create(b, wait.getLoc(), wait.getSlot());
      return;
    }
    Operation *end = wait->getBlock()->findAncestorOpInBlock(**cast<MmaAsyncOp>(product).getToken().user_begin());
    if (last->isBeforeInBlock(end))
      last = end;
  }
  OpBuilder b(wait.getContext());
  b.setInsertionPointAfter(last);
  ReleaseOp::create(b, wait.getLoc(), wait.getSlot());
}

/// If a tile.store_async goes through an output slot, waits at the end of the region until the last tile.store_async
/// has read the slot, since the CTA's shared memory must exist until then.
static void waitForLastStore(Region &consumer) {
  auto isOutput = [](StoreAsyncOp store) {
    return hasRole(store.getSlot(), SlotRole::Output) ? WalkResult::interrupt() : WalkResult::advance();
  };
  if (!consumer.walk(isOutput).wasInterrupted())
    return;
  OpBuilder b = OpBuilder::atBlockEnd(&consumer.front());
  StoreWaitOp::create(b, consumer.getLoc());
}

/// Replaces `skip` by a loop over the skipped iterations. Each iteration takes and passes a turn, waits for each slot,
/// and releases it. The turn comes first, since the other consumers may have to compute before the next slot is full.
///
/// The warps synchronise before one thread releases the slots. Otherwise a late warp could find a slot that a later
/// load has filled. The phase of this slot looks like that of an empty slot, so the warp would wait forever. One
/// barrier serves all rings. But if a ring has a single slot, each ring has a barrier and a release of its own, since
/// the producer needs the single slot again before it fills the next ring's slot.
static void expandSkip(AdvanceRingOp skip, ArrayRef<Value> counts, Value warpgroup) {
  OpBuilder b(skip);
  Location loc = skip.getLoc();
  Value zero = arith::ConstantIndexOp::create(b, loc, 0), one = arith::ConstantIndexOp::create(b, loc, 1);
  auto loop = scf::ForOp::create(b, loc, zero, skip.getCount(), one);
  b.setInsertionPointToStart(loop.getBody());
  if (skip.getTurns()) {
    PingPongWaitOp::create(b, loc, warpgroup);
    PingPongPassOp::create(b, loc, warpgroup);
  }
  bool hasSingleSlot =
      llvm::any_of(skip.getRings(), [](Value ring) { return cast<RingType>(ring.getType()).getStages() == 1; });
  SmallVector<Value, 2> slots;
  for (auto [ring, first] : llvm::zip_equal(skip.getRings(), counts)) {
    Value count = arith::AddIOp::create(b, loc, first, loop.getInductionVar());
    SlotType slot = cast<RingType>(ring.getType()).getSlotType();
    slots.push_back(WaitOp::create(b, loc, slot, ring, count));
    if (!hasSingleSlot && ring != skip.getRings().back())
      continue;
    WarpgroupBarrierOp::create(b, loc);
    for (Value full : slots)
      ReleaseOp::create(b, loc, full);
    slots.clear();
  }
  skip.erase();
}

/// Replaces the bounds of a consumer's loop by the consumer's own bounds.
static void expandOwnVisits(OwnVisitsOp own) {
  own->replaceAllUsesWith(ValueRange{own.getFirst(), own.getLast()});
  own.erase();
}

/// Replaces `draw` by a wait for the broadcast. The wait comes late, so that the producer has published by then. With
/// `isBeforeProduct` it comes right before the last product, where the early part of the next work tile
/// (EpilogueOverlap) will begin. Otherwise it comes right before the wait for the last product. In both cases it comes
/// after every tile.advance_ring: the producer publishes after its loads for this work tile, and these loads may need
/// the slots that a tile.advance_ring releases.
static void expandDraw(DrawOp draw, const RolePlan &plan, Value warpgroup, bool isBeforeProduct) {
  auto loop = cast<scf::ForOp>(draw->getParentOp());
  Operation *place = loop.getBody()->getTerminator();
  for (Operation &op : *loop.getBody())
    if (isa<AdvanceRingOp, scf::ForOp>(op)) // an scf.for here is the loop over keys
      place = op.getNextNode();
    else if (isBeforeProduct ? isa<MmaAsyncOp>(op) : isa<MmaWaitOp>(op))
      place = &op;
  OpBuilder b(place);
  Location loc = draw.getLoc();
  SmallVector<Value> shared, own;
  for (Value result : draw.getResults())
    (plan.isOwn(result) ? own : shared).push_back(result);
  auto published = PublishedOp::create(b, loc, b.getI1Type(), ValueRange(shared).getTypes(), ValueRange(own).getTypes(),
                                       loop.getInductionVar(), own.empty() ? Value() : warpgroup);
  auto values = llvm::concat<Value>(published.getValues(), published.getOwn());
  for (auto [result, value] : llvm::zip_equal(llvm::concat<Value>(shared, own), values))
    result.replaceAllUsesWith(UniformOp::create(b, loc, value));
  RepeatIfOp::create(b, loc, published.getExists());
  draw.erase();
}

/// Replaces each tile.add_product by a tile.share, which passes operand A to the reducer. Replaces loads by waits for
/// their slots.
static void replaceLoads(Region &consumer, const LoadNumbering &numbering) {
  consumer.walk([&](AddProductOp product) {
    OpBuilder b(product);
    ShareOp::create(b, product.getLoc(), product.getA(), product.getRing(), numbering.getCount(product));
    product.erase();
  });
  consumer.walk([&](HandOverOp handed) { handed.getCountMutable().assign(numbering.getCount(handed)); });
  struct Cleared {
    WaitOp wait;
    Value first, begin; // the operands of tile.clear_rows
  };
  SmallVector<Cleared> waits;
  consumer.walk([&](LoadOp load) {
    OpBuilder b(load);
    auto wait = WaitOp::create(b, load.getLoc(), load.getSlot().getType(), load.getRing(), numbering.getCount(load));
    load.replaceAllUsesWith(wait.getSlot());
    waits.push_back({wait, load.getFirst(), load.getBegin()});
    load.erase();
  });
  for (auto [wait, first, begin] : waits) {
    insertRelease(wait);
    if (!first && !begin)
      continue;
    OpBuilder b(wait.getContext());
    b.setInsertionPointAfter(wait);
    ClearRowsOp::create(b, wait.getLoc(), wait.getSlot(), first, begin);
  }
}

void tile::makeConsumer(WarpSpecializeOp op, const RolePlan &plan, const LoadNumbering &numbering,
                        ScheduleAttr schedule) {
  replaceLoads(op.getConsumer(), numbering);
  waitForLastStore(op.getConsumer());
  op.getConsumer().walk(
      [&](DrawOp draw) { expandDraw(draw, plan, op.getWarpgroup(), schedule.getEpilogue() == Epilogue::Softmax); });
  op.getConsumer().walk([&](AdvanceRingOp skip) { expandSkip(skip, numbering.getCounts(skip), op.getWarpgroup()); });
  op.getConsumer().walk([](OwnVisitsOp own) { expandOwnVisits(own); });
}
