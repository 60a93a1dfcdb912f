//===- ConsumerRole.cpp - the roles that compute -----------------------------------------------------------------===//

#include "Roles.h"

using namespace mlir;
using namespace mlir::tile;

/// Each thread has read the slot by itself. The one that releases it knows that all have behind a product that began
/// after they had; without one the warps meet.
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

/// Releases the slot after the last wait of a product that reads it, in the block that waits for the slot. If a result
/// passes through it, at the block's end, when the copy has long begun.
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

/// Shared memory lives as long as the CTA: what still leaves it must have been read.
static void waitForLastStore(Region &consumer) {
  auto isOutput = [](StoreAsyncOp store) {
    return hasRole(store.getSlot(), SlotRole::Output) ? WalkResult::interrupt() : WalkResult::advance();
  };
  if (!consumer.walk(isOutput).wasInterrupted())
    return;
  OpBuilder b = OpBuilder::atBlockEnd(&consumer.front());
  StoreWaitOp::create(b, consumer.getLoc());
}

/// Waits for each slot that is left out and releases it, and hands on the turn that its product would have had. The
/// turn goes first: the other consumers may have to work before the next slot is full. The warps meet before one thread
/// releases: a warp that is late may otherwise find the slot full of a later load, whose phase looks like none, and
/// wait forever. Once for all rings, unless one has a single slot: the producer fills that again before it comes to the
/// next ring's.
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
    RingType type = cast<RingType>(ring.getType());
    auto slot = SlotType::get(b.getContext(), type.getRows(), type.getCols(), type.getElementType());
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

/// A consumer runs the visits that it needs.
static void expandOwnVisits(OwnVisitsOp own) {
  own->replaceAllUsesWith(ValueRange{own.getFirst(), own.getLast()});
  own.erase();
}

/// A consumer hears late what comes next: it has been published by then. Behind its last product, and behind what it
/// leaves out there, whose slots the producer may need for this work tile; or before the last product, where the next
/// work tile's head comes before that, too.
static void expandDraw(DrawOp draw, const RolePlan &plan, Value warpgroup, bool isBeforeProduct) {
  auto loop = cast<scf::ForOp>(draw->getParentOp());
  Operation *place = loop.getBody()->getTerminator();
  for (Operation &op : *loop.getBody())
    if (isa<AdvanceRingOp, scf::ForOp>(op)) // over keys
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

/// Products that are added up elsewhere are shared, and loads become waits for slots.
static void replaceLoads(Region &consumer, const LoadNumbering &numbering) {
  consumer.walk([&](AddProductOp product) {
    OpBuilder b(product);
    ShareOp::create(b, product.getLoc(), product.getA(), product.getRing(), numbering.getCount(product));
    product.erase();
  });
  struct Cleared {
    WaitOp wait;
    Value first, begin; // of rows to be cleared
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
