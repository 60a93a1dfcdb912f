//===- OverlapEpilogue.cpp - runs the next work tile's first product while this one is stored ---------------------===//

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

/// The number of exponentials of an early softmax that come before the wait for the product in flight, if `wait_after`
/// is 0. In the loop over keys a `wait_after` of 0 lets ptxas choose a good place for the wait. Here ptxas would put
/// the wait before all exponentials.
static constexpr int64_t kEarlyExponentials = 12;

//===--------------------------------------------------------------------------------------------------------------===//
// The rewrite
//===--------------------------------------------------------------------------------------------------------------===//

namespace {
/// Clones the ops of one side (producer or consumers). The side's early part (`side.head`) has the ops of a work tile
/// that run before the previous work tile is finished. Each work tile has its own mapping.
class WorkTileEmitter {
public:
  WorkTileEmitter(const EpilogueOverlap::Side &side, OpBuilder &b) : side(side), old(side.loop), b(b) {}

  void emit(ArrayRef<Operation *> ops, IRMapping &map) {
    for (Operation *op : ops)
      b.clone(*op, map);
  }

  /// Emits the early part of the work tile `index`. `carried` are the values that the old loop carries into this work
  /// tile.
  IRMapping emitHead(Value index, ValueRange carried) {
    IRMapping map = beginHead(index, carried);
    emit(side.head, map);
    return map;
  }

  /// Begins the early part of the next work tile. `map` is the mapping of the current one. If the current work tile is
  /// the last one, begins the early part of the current one again.
  IRMapping beginNextHead(const IRMapping &map) {
    auto get = [&](Value value) { return map.lookupOrDefault(value); };
    Location loc = old.getLoc();
    Value index = get(old.getInductionVar()), next = arith::AddIOp::create(b, loc, index, old.getStep());
    Value exists = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::ult, next, old.getUpperBound());
    next = arith::SelectOp::create(b, loc, exists, next, index);
    return beginHead(next, llvm::map_to_vector(old.getYieldedValues(), get));
  }

  /// Returns the values that the early part of a work tile passes on to the rest of the work tile.
  SmallVector<Value> getHanded(const IRMapping &map) {
    return llvm::map_to_vector(side.crossing, [&](Value value) { return map.lookup(value); });
  }

  /// Creates the loop that carries `handed`, with an empty body, and moves the insertion point into it.
  scf::ForOp beginLoop(ValueRange handed) {
    auto loop = scf::ForOp::create(b, old.getLoc(), old.getLowerBound(), old.getUpperBound(), old.getStep(), handed);
    b.setInsertionPointToStart(loop.getBody());
    return loop;
  }

  /// Begins the rest of a work tile, by computing the scalars of its early part again.
  IRMapping beginRest(Value index, ValueRange handed) {
    IRMapping map;
    map.map(old.getInductionVar(), index);
    map.map(side.crossing, handed);
    emit(side.again, map);
    return map;
  }

private:
  IRMapping beginHead(Value index, ValueRange carried) {
    IRMapping map;
    map.map(old.getInductionVar(), index);
    map.map(old.getRegionIterArgs(), carried);
    return map;
  }

  const EpilogueOverlap::Side &side;
  scf::ForOp old;
  OpBuilder &b;
};

/// Emits the consumers' new loop. Its body has the rest of a work tile, and within it the early part of the next work
/// tile.
class ConsumerEmitter {
public:
  ConsumerEmitter(const EpilogueOverlap &overlap, OpBuilder &b)
      : plan(overlap), b(b), emitter(plan.consumer, b), head(plan.consumer.head.begin(), plan.consumer.head.end()) {}

  scf::ForOp emitLoop() {
    scf::ForOp old = plan.consumer.loop;
    IRMapping first = emitter.emitHead(old.getLowerBound(), old.getInitArgs());
    scf::ForOp loop = emitter.beginLoop(emitter.getHanded(first));
    map = emitter.beginRest(loop.getInductionVar(), loop.getRegionIterArgs());
    if (plan.isSoftmaxEarly)
      emitRestBesideSoftmax();
    else
      emitRestBesideProduct();
    scf::YieldOp::create(b, old.getLoc(), emitter.getHanded(next));
    return loop;
  }

private:
  /// Emits the rest of the current work tile up to `end`, without `end`.
  void emitRestUpTo(Operation *end) {
    for (; &*place != end; ++place)
      if (!head.contains(&*place))
        b.clone(*place, map);
  }

  /// Emits the last product of the current work tile and then the first product of the next one, in one turn. The
  /// latter is in flight while the current work tile is stored.
  void emitRestBesideProduct() {
    auto isTurn = llvm::IsaPred<PingPongWaitOp>;
    emitRestUpTo(plan.last);
    emitter.emit(llvm::filter_to_vector(plan.issue, isTurn), map);
    emitRestUpTo(plan.lastWait);
    next = emitter.beginNextHead(map);
    emitter.emit(llvm::filter_to_vector(plan.issue, std::not_fn(isTurn)), next);
    emitter.emit(plan.beside, next);
    emitRestUpTo(plan.lastWait->getNextNode());
    map.lookup(plan.lastWait.getResult()).getDefiningOp<MmaWaitOp>().setPending(1);
    emitRestUpTo(plan.consumer.loop.getBody()->getTerminator());
    emitter.emit(plan.result, next);
  }

  /// Emits the first product of the next work tile and then the last product of the current one. The latter is in
  /// flight while the softmax of the next work tile is computed.
  void emitRestBesideSoftmax() {
    emitRestUpTo(plan.last);
    next = emitter.beginNextHead(map);
    emitter.emit(plan.issue, next);
    emitRestUpTo(plan.last->getNextNode());
    emitter.emit(plan.beside, next);
    emitRestUpTo(plan.lastWait);
    emitter.emit(plan.result, next);
    next.lookup(plan.firstWait.getResult()).getDefiningOp<MmaWaitOp>().setPending(1);
    emitter.emit(plan.softmax, next);
    Operation *end = plan.lastWait->getNextNode();
    while (isa<ReleaseOp>(end))
      end = end->getNextNode();
    emitRestUpTo(end);
    emitter.emit(plan.packing, next);
    emitRestUpTo(plan.consumer.loop.getBody()->getTerminator());
  }

  EpilogueOverlap plan;
  OpBuilder &b;
  WorkTileEmitter emitter;
  llvm::SmallDenseSet<Operation *> head;
  Block::iterator place = plan.consumer.loop.getBody()->begin();
  /// Map the old values to the new values of the current work tile, and of the next work tile's early part.
  IRMapping map, next;
};
} // namespace

/// Replaces the consumers' loop. Returns the new loop.
static scf::ForOp rewriteConsumer(const EpilogueOverlap &plan) {
  scf::ForOp old = plan.consumer.loop;
  OpBuilder b(old);
  scf::ForOp loop = ConsumerEmitter(plan, b).emitLoop();
  b.setInsertionPointAfter(loop);
  for (Value result : loop.getResults())
    if (isa<SlotType>(result.getType()))
      ReleaseOp::create(b, old.getLoc(), result);
  old.erase();
  return loop;
}

static void rewriteProducer(const EpilogueOverlap &plan) {
  scf::ForOp old = plan.producer.loop;
  OpBuilder b(old);
  WorkTileEmitter emitter(plan.producer, b);
  IRMapping first = emitter.emitHead(old.getLowerBound(), old.getInitArgs());
  scf::ForOp loop = emitter.beginLoop(emitter.getHanded(first));
  IRMapping map = emitter.beginRest(loop.getInductionVar(), loop.getRegionIterArgs());
  // The loads of the next work tile's early part go before the copies that follow the loop over keys: both need only
  // the counts that the loop over keys has yielded.
  SmallVector<Operation *> copies;
  for (Operation &op : old.getBody()->without_terminator()) {
    if (llvm::is_contained(plan.producer.head, &op))
      continue;
    if (isa<AcquireOp, CopyAsyncOp>(op))
      copies.push_back(&op);
    else
      b.clone(op, map);
  }
  IRMapping next = emitter.beginNextHead(map);
  emitter.emit(plan.producer.head, next);
  emitter.emit(copies, map);
  scf::YieldOp::create(b, old.getLoc(), emitter.getHanded(next));
  old.erase();
}

scf::ForOp tile::applyEpilogueOverlap(const EpilogueOverlap &plan) {
  rewriteProducer(plan);
  return rewriteConsumer(plan);
}

namespace {
struct OverlapEpilogue : tile::impl::OverlapEpilogueBase<OverlapEpilogue> {
  using OverlapEpilogueBase::OverlapEpilogueBase;

  void runOnOperation() override {
    SmallVector<WarpSpecializeOp> ops;
    getOperation()->walk([&](WarpSpecializeOp op) { ops.push_back(op); });
    for (WarpSpecializeOp op : ops) {
      auto schedule = op->getParentOp()->getAttrOfType<ScheduleAttr>(kScheduleAttrName);
      if (!schedule || schedule.getEpilogue() == Epilogue::Plain)
        continue;
      bool isSoftmaxEarly = schedule.getEpilogue() == Epilogue::Softmax;
      FailureOr<EpilogueOverlap> plan = planEpilogueOverlap(op, isSoftmaxEarly);
      if (failed(plan))
        return signalPassFailure();
      scf::ForOp workTiles = applyEpilogueOverlap(*plan);
      if (isSoftmaxEarly)
        delayRelease(workTiles, schedule.getWaitAfter() > 0 ? schedule.getWaitAfter() : kEarlyExponentials);
      ++numOverlapped;
    }
  }
};
} // namespace
