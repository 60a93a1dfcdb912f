//===- OverlapEpilogue.cpp - the next point's first product runs under this point's stores ------------------------===//

#include "Utils.h"
#include "flashc/Dialect/Tile/Transforms/Passes.h"
#include "flashc/Dialect/Tile/Transforms/Transforms.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/IRMapping.h"
#include "llvm/ADT/SetVector.h"

namespace mlir::tile {
#define GEN_PASS_DEF_OVERLAPEPILOGUE
#include "flashc/Dialect/Tile/Transforms/Passes.h.inc"
} // namespace mlir::tile

using namespace mlir;
using namespace mlir::tile;

//===--------------------------------------------------------------------------------------------------------------===//
// The plan
//===--------------------------------------------------------------------------------------------------------------===//

static InFlightDiagnostic refuse(Operation *op) { return op->emitOpError() << "cannot overlap the epilogue: "; }

/// The one loop of `region`'s block that satisfies `isMatch`, or null.
static scf::ForOp findLoop(Region &region, llvm::function_ref<bool(scf::ForOp)> isMatch) {
  scf::ForOp found;
  for (auto loop : region.front().getOps<scf::ForOp>()) {
    if (!isMatch(loop))
      continue;
    if (found)
      return nullptr;
    found = loop;
  }
  return found;
}

/// Whether `op` is a loop that contains an `OpTy`.
template <typename OpTy>
static bool isLoopOverKeys(Operation *op) {
  return isa<scf::ForOp>(op) && op->walk([](OpTy) { return WalkResult::interrupt(); }).wasInterrupted();
}

/// Whether the loop's body has an `OpTy` of its own, as a loop over points has: for the first keys or the last, and the
/// only ones if there is just one tile of keys.
template <typename OpTy>
static bool isLoopOverPoints(scf::ForOp loop) {
  return !loop.getOps<OpTy>().empty();
}

static LogicalResult planProducts(EpilogueOverlap &plan) {
  scf::ForOp loop = plan.consumer.loop;
  auto products = llvm::to_vector(loop.getOps<MmaAsyncOp>());
  auto getWait = [&](MmaAsyncOp product) {
    Value token = product.getToken();
    auto wait = token.hasOneUse() ? dyn_cast<MmaWaitOp>(*token.user_begin()) : nullptr;
    return wait && wait->getBlock() == loop.getBody() ? wait : MmaWaitOp();
  };
  plan.first = products.front();
  plan.firstWait = getWait(products.front());
  plan.lastWait = getWait(products.back());
  auto isOutside = [&](Operation &op) {
    return isLoopOverKeys<MmaAsyncOp>(&op) &&
           (op.isBeforeInBlock(plan.firstWait) || products.back()->isBeforeInBlock(&op));
  };
  if (products.size() != 2 || !plan.firstWait || !plan.lastWait || products.back()->isBeforeInBlock(plan.firstWait) ||
      llvm::any_of(*loop.getBody(), isOutside))
    return refuse(loop) << "expected one product before the loop over keys, and one behind it";
  return success();
}

/// Finds what ops that are not `isDone` read of the head. Scalars are computed again: a loop that carries its bounds
/// hides what they are.
static void planCrossing(EpilogueOverlap::Side &side, llvm::function_ref<bool(Operation *)> isDone) {
  auto isNeeded = [&](Value value) {
    return llvm::any_of(value.getUsers(), [&](Operation *user) {
      Operation *ancestor = side.loop.getBody()->findAncestorOpInBlock(*user);
      return (!llvm::is_contained(side.head, ancestor) && !isDone(ancestor)) || llvm::is_contained(side.again, ancestor);
    });
  };
  for (Operation *op : llvm::reverse(side.head))
    if (isScalarCode(op) && llvm::any_of(op->getResults(), isNeeded))
      side.again.insert(side.again.begin(), op);
  SmallVector<Value> known(side.loop.getRegionIterArgs());
  for (Operation *op : side.head)
    if (!isScalarCode(op))
      llvm::append_range(known, op->getResults());
  llvm::copy_if(known, std::back_inserter(side.crossing), isNeeded);
}

/// The next point's slots are waited for while this point is not stored: slots that this one still holds must be
/// others.
static LogicalResult checkHeldSlots(const EpilogueOverlap &plan) {
  for (Operation *op : plan.consumer.head) {
    auto wait = dyn_cast<WaitOp>(op);
    if (!wait || wait.getRing().getType().getStages() > 1)
      continue;
    for (Operation *user : wait.getSlot().getUsers()) {
      if (!isa<ReleaseOp>(user) || user->isBeforeInBlock(plan.lastWait))
        continue;
      InFlightDiagnostic diag = refuse(plan.consumer.loop) << "expected a second slot beside one that a point holds";
      diag.attachNote(user->getLoc()) << "the next point would wait for this release, and this one for the next";
      return diag;
    }
  }
  return success();
}

/// The consumers' head: what a point does up to its first product. It will run while the last point is not finished.
static LogicalResult planConsumer(EpilogueOverlap &plan) {
  EpilogueOverlap::Side &side = plan.consumer;
  for (Operation &op : *side.loop.getBody()) {
    bool isBehind = plan.first->isBeforeInBlock(&op);
    if (isBehind && !isa<TurnPassOp, RowsOp>(op) && !isScalarCode(&op))
      break;
    if (!isMemoryEffectFree(&op) && !isScalarCode(&op) &&
        !isa<WaitOp, TurnWaitOp, TurnPassOp, StoreSlopesOp, MmaAsyncOp, RowsOp>(op)) {
      InFlightDiagnostic diag = refuse(side.loop) << "expected no effects before the first product";
      diag.attachNote(op.getLoc()) << "this op has one";
      return diag;
    }
    side.head.push_back(&op);
  }
  for (Operation &op : *side.loop.getBody())
    if (isa<TurnWaitOp, TurnPassOp>(op) && !llvm::is_contained(side.head, &op)) {
      InFlightDiagnostic diag = refuse(side.loop) << "expected no turn between points but the first product's";
      diag.attachNote(op.getLoc()) << "this op belongs to another one";
      return diag;
    }
  for (Operation *op = plan.firstWait->getNextNode(); isa<ReleaseOp>(op); op = op->getNextNode())
    plan.releases.push_back(cast<ReleaseOp>(op));
  planCrossing(side, [&](Operation *op) { return op == plan.firstWait || llvm::is_contained(plan.releases, op); });
  return success();
}

/// The next point's head runs before the last wait: what it reads of this point must be known there.
static LogicalResult checkCarried(const EpilogueOverlap &plan) {
  scf::ForOp loop = plan.consumer.loop;
  for (Value carried : loop.getYieldedValues()) {
    Operation *op = carried.getDefiningOp();
    if (!op || op->getBlock() != loop.getBody() || op->isBeforeInBlock(plan.lastWait))
      continue;
    InFlightDiagnostic diag = refuse(loop) << "expected what the next point reads before the last product is waited for";
    diag.attachNote(op->getLoc()) << "this op is behind the wait";
    return diag;
  }
  return success();
}

/// The producer's head: what is in front of its loop over keys, which is what the consumers' head waits for.
static LogicalResult planProducer(EpilogueOverlap &plan) {
  EpilogueOverlap::Side &side = plan.producer;
  llvm::DenseMap<Value, int64_t> waits;
  for (Operation *op : plan.consumer.head)
    if (auto wait = dyn_cast<WaitOp>(op))
      ++waits[wait.getRing()];
  bool hasLoop = llvm::any_of(*side.loop.getBody(), [](Operation &op) { return isLoopOverKeys<CopyAsyncOp>(&op); });
  auto isBehindHead = [&](Operation &op) {
    auto acquire = dyn_cast<AcquireOp>(op);
    return hasLoop ? isLoopOverKeys<CopyAsyncOp>(&op) : acquire && !waits.contains(acquire.getRing());
  };
  for (Operation &op : *side.loop.getBody()) {
    if (isBehindHead(op))
      break;
    side.head.push_back(&op);
    auto copy = dyn_cast<CopyAsyncOp>(op);
    if (copy && copy.getOwner().value_or(0) == 0)
      --waits[copy.getRing()];
  }
  if (llvm::any_of(waits, [](auto &entry) { return entry.second != 0; }))
    return refuse(side.loop) << "expected it to load before its loop over keys what the consumers wait for before "
                                "their first product";
  for (auto copy : side.loop.getOps<CopyAsyncOp>()) {
    if (llvm::is_contained(side.head, copy) || !waits.contains(copy.getRing()))
      continue;
    InFlightDiagnostic diag = refuse(side.loop) << "expected rings of their own for the loads behind the loop over keys";
    diag.attachNote(copy.getLoc()) << "the next point's first load into this ring would come before this one";
    return diag;
  }
  planCrossing(side, [](Operation *) { return false; });
  return success();
}

FailureOr<EpilogueOverlap> tile::planEpilogueOverlap(WarpSpecializeOp op) {
  EpilogueOverlap plan;
  plan.producer.loop = findLoop(op.getProducer(), isLoopOverPoints<CopyAsyncOp>);
  plan.consumer.loop = findLoop(op.getConsumer(), isLoopOverPoints<MmaAsyncOp>);
  if (!plan.producer.loop || !plan.consumer.loop)
    return refuse(op) << "expected one loop over points, with loads and with products of its own, on each side";
  for (scf::ForOp loop : {plan.producer.loop, plan.consumer.loop})
    if (!loop->use_empty())
      return refuse(loop) << "expected the loop's results not to be used";
  if (failed(planProducts(plan)) || failed(planConsumer(plan)) || failed(checkHeldSlots(plan)) ||
      failed(checkCarried(plan)) || failed(planProducer(plan)))
    return failure();
  return plan;
}

//===--------------------------------------------------------------------------------------------------------------===//
// The rewrite
//===--------------------------------------------------------------------------------------------------------------===//

namespace {
/// Clones the parts of a side's points, each with its own mapping.
class PointEmitter {
public:
  PointEmitter(const EpilogueOverlap::Side &side, OpBuilder &b) : side(side), old(side.loop), b(b) {}

  /// The head of the point `index`, which reads `carried` of the point before it. `hasTurn`: the turn at the tensor
  /// cores has been taken.
  IRMapping emitHead(Value index, ValueRange carried, bool hasTurn = false) {
    IRMapping map;
    map.map(old.getInductionVar(), index);
    map.map(old.getRegionIterArgs(), carried);
    for (Operation *op : side.head)
      if (!hasTurn || !isa<TurnWaitOp>(op))
        b.clone(*op, map);
    return map;
  }

  /// The same of the point behind this one; behind the last, the last again.
  IRMapping emitNextHead(const IRMapping &map, bool hasTurn = false) {
    auto get = [&](Value value) { return map.lookupOrDefault(value); };
    Location loc = old.getLoc();
    Value index = get(old.getInductionVar()), next = arith::AddIOp::create(b, loc, index, old.getStep());
    Value exists = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::ult, next, old.getUpperBound());
    next = arith::SelectOp::create(b, loc, exists, next, index);
    return emitHead(next, llvm::map_to_vector(old.getYieldedValues(), get), hasTurn);
  }

  /// What a head hands on.
  SmallVector<Value> getHanded(const IRMapping &map) {
    return llvm::map_to_vector(side.crossing, [&](Value value) { return map.lookup(value); });
  }

  /// The loop that carries `handed`, with an empty body; the insertion point moves into it.
  scf::ForOp beginLoop(ValueRange handed) {
    auto loop = scf::ForOp::create(b, old.getLoc(), old.getLowerBound(), old.getUpperBound(), old.getStep(), handed);
    b.setInsertionPointToStart(loop.getBody());
    return loop;
  }

  /// Begins the rest of a point: its head's scalars again.
  IRMapping beginRest(Value index, ValueRange handed) {
    IRMapping map;
    map.map(old.getInductionVar(), index);
    map.map(side.crossing, handed.take_front(side.crossing.size()));
    for (Operation *op : side.again)
      b.clone(*op, map);
    return map;
  }

private:
  const EpilogueOverlap::Side &side;
  scf::ForOp old;
  OpBuilder &b;
};
} // namespace

static void rewriteConsumer(const EpilogueOverlap &plan) {
  scf::ForOp old = plan.consumer.loop;
  MmaWaitOp firstWait = plan.firstWait, lastWait = plan.lastWait;
  Operation *last = lastWait.getToken().getDefiningOp();
  OpBuilder b(old);
  PointEmitter emitter(plan.consumer, b);
  auto waitForFirst = [&](IRMapping &map) {
    b.clone(*firstWait, map);
    for (ReleaseOp release : plan.releases)
      b.clone(*release, map);
    SmallVector<Value> handed = emitter.getHanded(map);
    handed.push_back(map.lookup(firstWait.getResult()));
    return handed;
  };
  IRMapping next = emitter.emitHead(old.getLowerBound(), old.getInitArgs());
  scf::ForOp loop = emitter.beginLoop(waitForFirst(next));
  IRMapping map = emitter.beginRest(loop.getInductionVar(), loop.getRegionIterArgs());
  map.map(firstWait.getResult(), loop.getRegionIterArgs().back());
  for (Operation &op : old.getBody()->without_terminator()) {
    if (llvm::is_contained(plan.consumer.head, &op) || &op == firstWait || llvm::is_contained(plan.releases, &op))
      continue;
    if (&op == last) // one turn for this product and the next point's first
      for (Operation *turn : plan.consumer.head)
        if (isa<TurnWaitOp>(turn))
          b.clone(*turn, map);
    if (&op == lastWait)
      next = emitter.emitNextHead(map, /*hasTurn=*/true);
    Operation *copy = b.clone(op, map);
    if (&op == lastWait)
      cast<MmaWaitOp>(copy).setPending(1);
  }
  scf::YieldOp::create(b, old.getLoc(), waitForFirst(next));
  b.setInsertionPointAfter(loop);
  for (Value result : loop.getResults())
    if (isa<SlotType>(result.getType()))
      ReleaseOp::create(b, old.getLoc(), result);
  old.erase();
}

static void rewriteProducer(const EpilogueOverlap &plan) {
  scf::ForOp old = plan.producer.loop;
  OpBuilder b(old);
  PointEmitter emitter(plan.producer, b);
  IRMapping first = emitter.emitHead(old.getLowerBound(), old.getInitArgs());
  scf::ForOp loop = emitter.beginLoop(emitter.getHanded(first));
  IRMapping map = emitter.beginRest(loop.getInductionVar(), loop.getRegionIterArgs());
  // The next point's loads go before the copies behind the loop over keys, whose numbers are known by then.
  SmallVector<Operation *> copies;
  for (Operation &op : old.getBody()->without_terminator()) {
    if (llvm::is_contained(plan.producer.head, &op))
      continue;
    if (isa<AcquireOp, CopyAsyncOp>(op))
      copies.push_back(&op);
    else
      b.clone(op, map);
  }
  IRMapping next = emitter.emitNextHead(map);
  for (Operation *op : copies)
    b.clone(*op, map);
  scf::YieldOp::create(b, old.getLoc(), emitter.getHanded(next));
  old.erase();
}

void tile::applyEpilogueOverlap(const EpilogueOverlap &plan) {
  rewriteConsumer(plan);
  rewriteProducer(plan);
}

namespace {
struct OverlapEpilogue : tile::impl::OverlapEpilogueBase<OverlapEpilogue> {
  using OverlapEpilogueBase::OverlapEpilogueBase;

  void runOnOperation() override {
    SmallVector<WarpSpecializeOp> ops;
    getOperation()->walk([&](WarpSpecializeOp op) { ops.push_back(op); });
    for (WarpSpecializeOp op : ops) {
      auto schedule = op->getParentOp()->getAttrOfType<ScheduleAttr>(kScheduleAttrName);
      if (!schedule || !schedule.getOverlapEpilogue())
        continue;
      FailureOr<EpilogueOverlap> plan = planEpilogueOverlap(op);
      if (failed(plan))
        return signalPassFailure();
      applyEpilogueOverlap(*plan);
      ++numOverlapped;
    }
  }
};
} // namespace
