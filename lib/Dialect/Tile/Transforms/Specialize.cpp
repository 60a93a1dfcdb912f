//===- Specialize.cpp - a producer of tiles, their consumers, and what adds up their sums -------------------------===//

#include "RolePlan.h"
#include "Utils.h"
#include "flashc/Dialect/Tile/Transforms/Passes.h"
#include "flashc/Dialect/Tile/Transforms/Transforms.h"
#include "flashc/Support/CloneSlice.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/IR/PatternMatch.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/SetVector.h"

namespace mlir::tile {
#define GEN_PASS_DEF_SPECIALIZE
#include "flashc/Dialect/Tile/Transforms/Passes.h.inc"
} // namespace mlir::tile

using namespace mlir;
using namespace mlir::tile;

//===--------------------------------------------------------------------------------------------------------------===//
// Numbering the loads
//===--------------------------------------------------------------------------------------------------------------===//

namespace {
/// The ring that `op` fills a slot of, or null.
static Value getFilledRing(Operation *op) {
  if (auto load = dyn_cast<LoadOp>(op))
    return load.getRing();
  auto product = dyn_cast<AddProductOp>(op);
  return product ? product.getRing() : Value();
}

/// Counts what fills each ring in program order. All roles follow this one count, so that load number g meets wait
/// number g.
class LoadNumbering {
public:
  LoadNumbering(ProgramOp program, RolePlan &plan) : plan(plan), rewriter(program.getContext()) {
    rewriter.setInsertionPointToStart(&program.getBody().front());
    Value zero = arith::ConstantIndexOp::create(rewriter, program.getLoc(), 0);
    one = arith::ConstantIndexOp::create(rewriter, program.getLoc(), 1);
    plan.addScalar(zero.getDefiningOp());
    plan.addScalar(one.getDefiningOp());
    llvm::MapVector<Value, Value> counters;
    program.walk([&](Operation *op) {
      if (Value ring = getFilledRing(op))
        counters[ring] = zero;
    });
    number(program.getBody().front(), counters);
  }

  /// The count of a load, or of a shared op.
  Value getCount(Operation *op) const { return counts.lookup(op); }
  /// The counts of the first load of each ring that is skipped.
  ArrayRef<Value> getCounts(AdvanceRingOp skip) const { return skipped.find(skip)->second; }
  /// How many of the loop's last iter_args are counters.
  unsigned getNumCounters(scf::ForOp loop) const { return numCounters.lookup(loop); }

private:
  void number(Block &block, llvm::MapVector<Value, Value> &counters) {
    for (Operation &op : llvm::make_early_inc_range(block)) {
      if (Value ring = getFilledRing(&op)) {
        Value &counter = counters[ring];
        counts[&op] = counter;
        rewriter.setInsertionPointAfter(&op);
        counter = arith::AddIOp::create(rewriter, op.getLoc(), counter, one);
        plan.addScalar(counter.getDefiningOp());
      } else if (auto skip = dyn_cast<AdvanceRingOp>(op)) {
        rewriter.setInsertionPointAfter(skip);
        for (Value ring : skip.getRings()) {
          Value &counter = counters[ring];
          skipped[skip].push_back(counter);
          counter = arith::AddIOp::create(rewriter, skip.getLoc(), counter, skip.getCount());
          plan.addScalar(counter.getDefiningOp());
        }
      } else if (auto loop = dyn_cast<scf::ForOp>(op); loop && hasLoads(loop)) {
        numberLoop(loop, counters);
      }
    }
  }

  /// The loop carries the counters of the rings that it loads into.
  void numberLoop(scf::ForOp loop, llvm::MapVector<Value, Value> &counters) {
    SetVector<Value> rings;
    loop.walk([&](Operation *op) {
      if (Value ring = getFilledRing(op))
        rings.insert(ring);
    });
    SmallVector<Value> inits = llvm::map_to_vector(rings, [&](Value ring) { return counters[ring]; });
    rewriter.setInsertionPoint(loop);
    auto numberBody = [&](OpBuilder &, Location, ArrayRef<BlockArgument> args) {
      for (auto [ring, arg] : llvm::zip_equal(rings, args))
        counters[ring] = arg;
      number(*loop.getBody(), counters);
      return llvm::map_to_vector(rings, [&](Value ring) { return counters[ring]; });
    };
    auto replaced = cast<scf::ForOp>(*loop.replaceWithAdditionalYields(rewriter, inits, false, numberBody));
    for (auto [ring, result] : llvm::zip_equal(rings, replaced.getResults().take_back(rings.size())))
      counters[ring] = result;
    numCounters[replaced] = rings.size();
  }

  RolePlan &plan;
  IRRewriter rewriter;
  Value one;
  llvm::DenseMap<Operation *, Value> counts;
  llvm::DenseMap<Operation *, SmallVector<Value, 2>> skipped;
  llvm::DenseMap<Operation *, unsigned> numCounters;
};
} // namespace

//===--------------------------------------------------------------------------------------------------------------===//
// The two sides
//===--------------------------------------------------------------------------------------------------------------===//

namespace {
/// Writes a role beside the consumers: the loops around what it has to do, and the scalars that it needs.
class RoleEmitter {
public:
  RoleEmitter(ProgramOp program, const RolePlan &plan, const LoadNumbering &numbering, OpBuilder &b)
      : program(program), plan(plan), numbering(numbering), b(b) {}
  virtual ~RoleEmitter() = default;

  virtual void emit(Block &block) {
    for (Operation &op : block) {
      if (auto load = dyn_cast<LoadOp>(op))
        emitLoad(load);
      else if (auto product = dyn_cast<AddProductOp>(op))
        emitProduct(product);
      else if (auto loop = dyn_cast<scf::ForOp>(op); loop && hasLoads(loop))
        emitLoop(loop);
      else if (plan.isProducerScalar(&op))
        emitScalar(op);
    }
  }

protected:
  virtual void emitLoad(LoadOp load) = 0;
  virtual void emitProduct(AddProductOp product) = 0;
  virtual void emitScalar(Operation &op) { b.clone(op, map); }
  /// Emits the body of `copy`, which stands for `loop`.
  virtual void emitBody(scf::ForOp loop, scf::ForOp copy) { emit(*loop.getBody()); }

  Value get(Value value) const { return map.lookupOrDefault(value); }
  Value index(Location loc, int64_t value) { return arith::ConstantIndexOp::create(b, loc, value); }

  void emitLoop(scf::ForOp loop) {
    SmallVector<unsigned> args = getDrawnArgs(loop); // what has been drawn for all, and the counters
    llvm::erase_if(args, [&](unsigned arg) { return plan.isOwn(loop.getYieldedValues()[arg]); });
    llvm::append_range(
        args, llvm::seq(loop.getNumRegionIterArgs() - numbering.getNumCounters(loop), loop.getNumRegionIterArgs()));
    SmallVector<Value> inits = llvm::map_to_vector(args, [&](unsigned arg) { return get(loop.getInitArgs()[arg]); });
    auto copy = scf::ForOp::create(b, loop.getLoc(), get(loop.getLowerBound()), get(loop.getUpperBound()),
                                   get(loop.getStep()), inits);
    map.map(loop.getInductionVar(), copy.getInductionVar());
    for (auto [arg, copied, result] : llvm::zip_equal(args, copy.getRegionIterArgs(), copy.getResults())) {
      map.map(loop.getRegionIterArg(arg), copied);
      map.map(loop.getResult(arg), result);
    }
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToStart(copy.getBody());
    emitBody(loop, copy);
    ValueRange yielded = loop.getYieldedValues();
    scf::YieldOp::create(b, loop.getLoc(), llvm::map_to_vector(args, [&](unsigned arg) { return get(yielded[arg]); }));
  }

  ProgramOp program;
  const RolePlan &plan;
  const LoadNumbering &numbering;
  OpBuilder &b;
  IRMapping map;
};

/// Writes the producer: the loads.
class ProducerEmitter : public RoleEmitter {
  using RoleEmitter::RoleEmitter;

  void emitCopy(LoadOp load, IntegerAttr owner, const IRMapping &values) {
    auto get = [&](Value value) { return values.lookupOrDefault(value); };
    Value count = get(numbering.getCount(load));
    AcquireOp::create(b, load.getLoc(), load.getRing(), count, owner);
    CopyAsyncOp::create(b, load.getLoc(), load.getMap(), get(load.getB()), get(load.getH()), get(load.getRow()),
                        load.getTable(), load.getPageRowsAttr(), load.getEnd() ? get(load.getEnd()) : Value(),
                        load.getRing(), count, owner);
  }

  void emitLoad(LoadOp load) override {
    if (!load.getRing().getType().getIsPrivate())
      return emitCopy(load, nullptr, map);
    SmallVector<Operation *> scalars = plan.getPrivateScalars(load);
    for (uint64_t owner = 0; owner < program.getConsumers(); ++owner) {
      IRMapping values = map;
      if (!scalars.empty() || llvm::is_contained(load->getOperands(), program.getWarpgroup()))
        values.map(program.getWarpgroup(), index(load.getLoc(), owner));
      for (Operation *op : scalars)
        b.clone(*op, values);
      emitCopy(load, b.getI64IntegerAttr(owner), values);
    }
  }

  void emitProduct(AddProductOp) override {}

  void emitScalar(Operation &op) override {
    if (auto uniform = dyn_cast<UniformOp>(op))
      map.map(uniform.getResult(), get(uniform.getSource())); // one thread
    else if (auto own = dyn_cast<OwnVisitsOp>(op))
      emitVisits(own);
    else
      b.clone(op, map);
  }

  /// All of them.
  void emitVisits(OwnVisitsOp own) {
    map.map(own.getBegin(), index(own.getLoc(), 0));
    map.map(own.getEnd(), get(own.getTotal()));
  }

  /// What the next iteration works on, `taken` a while ago: the consumers are told, and the loop ends if there is none.
  void emitNext(DrawOp draw, Value taken, scf::ForOp copy) {
    Location loc = draw.getLoc();
    Value limit = get(draw.getLimit()), one = index(loc, 1);
    Value number = arith::AddIOp::create(b, loc, get(draw.getFirst()), taken);
    Value exists = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::ult, number, limit);
    Value last = arith::SubIOp::create(b, loc, limit, one);
    map.map(draw.getBody().getArgument(0), arith::MinUIOp::create(b, loc, number, last).getResult());
    for (Operation &op : draw.getBody().front().without_terminator())
      if (!plan.isOwn(&op))
        b.clone(op, map);
    auto drawn = cast<DrawnOp>(draw.getBody().front().getTerminator());
    SmallVector<Value> next;
    for (auto [result, value] : llvm::zip_equal(draw.getResults(), drawn.getValues()))
      if (!plan.isOwn(result)) {
        next.push_back(get(value));
        map.map(result, next.back());
      }
    PublishOp::create(b, loc, exists, next, getOwnNext(draw, drawn), copy.getInductionVar());
    RepeatIfOp::create(b, loc, exists);
  }

  /// What each consumer draws for itself, one after the other.
  SmallVector<Value> getOwnNext(DrawOp draw, DrawnOp drawn) {
    SmallVector<Value> next;
    if (llvm::none_of(draw.getResults(), [&](Value result) { return plan.isOwn(result); }))
      return next;
    for (uint64_t owner = 0; owner < program.getConsumers(); ++owner) {
      IRMapping values = map;
      values.map(program.getWarpgroup(), index(draw.getLoc(), owner));
      for (auto [result, value] : llvm::zip_equal(draw.getResults(), drawn.getValues()))
        if (plan.isOwn(result))
          next.push_back(flashc::cloneSlice(b, value, values,
                                            [&](Value input) { return plan.isOwn(input) ? Value() : get(input); }));
    }
    return next;
  }

  void emitBody(scf::ForOp loop, scf::ForOp copy) override {
    DrawOp draw = findDraw(loop);
    Value taken; // at once: a number comes from memory
    if (draw)
      taken = ConsumeOp::create(b, draw.getLoc(), b.getIndexType(), draw.getList(), get(draw.getPlace()));
    emit(*loop.getBody());
    if (draw)
      emitNext(draw, taken, copy);
  }
};

/// Writes the reducer: the products that are added to device memory.
class ReducerEmitter : public RoleEmitter {
public:
  using RoleEmitter::RoleEmitter;

  /// What the block has waited for it releases at its end.
  void emit(Block &block) override {
    SmallVector<Value> outer = std::exchange(held, {});
    RoleEmitter::emit(block);
    for (Value slot : held)
      ReleaseOp::create(b, slot.getLoc(), slot);
    held = std::move(outer);
  }

private:
  Value wait(Location loc, Value ring, Value count, int64_t owner) {
    RingType type = cast<RingType>(ring.getType());
    auto slot = SlotType::get(b.getContext(), type.getRows(), type.getCols(), type.getElementType());
    return WaitOp::create(b, loc, slot, ring, count, b.getI64IntegerAttr(owner));
  }

  void emitLoad(LoadOp load) override {
    if (llvm::none_of(load.getSlot().getUsers(), llvm::IsaPred<AddProductOp>))
      return;
    SmallVector<Value> &slots = loaded[load.getSlot()];
    slots.clear();
    for (uint64_t owner = 0; owner < program.getConsumers(); ++owner)
      slots.push_back(wait(load.getLoc(), load.getRing(), get(numbering.getCount(load)), owner));
    llvm::append_range(held, slots);
  }

  /// 64 rows and columns at a time, in a loop: each piece needs few registers.
  void emitProduct(AddProductOp product) override {
    Location loc = product.getLoc();
    int64_t cols = GPUTarget::of(product).getPanelCols();
    int64_t rowPanels = product.getA().getType().getDimSize(1) / cols;
    int64_t colPanels = GPUTarget::of(product).countPanels(product.getB().getType().getCols());
    SmallVector<Value> shared;
    for (uint64_t owner = 0; owner < program.getConsumers(); ++owner)
      shared.push_back(wait(loc, product.getRing(), get(numbering.getCount(product)), owner));
    auto loop = scf::ForOp::create(b, loc, index(loc, 0), index(loc, rowPanels * colPanels), index(loc, 1));
    {
      OpBuilder::InsertionGuard guard(b);
      b.setInsertionPointToStart(loop.getBody());
      Value panels = index(loc, colPanels);
      Value rowPanel = b.createOrFold<arith::DivUIOp>(loc, loop.getInductionVar(), panels);
      Value colPanel = b.createOrFold<arith::RemUIOp>(loc, loop.getInductionVar(), panels);
      Value sum = emitPiece(product, shared, rowPanel, colPanel);
      Value first = arith::DivUIOp::create(b, loc, get(product.getRow()), index(loc, kTileRows));
      Value rows = arith::AddIOp::create(b, loc, first, rowPanel);
      AtomicAddOp::create(b, loc, sum, get(product.getSums()), get(product.getBatch()), get(product.getHead()), rows,
                          colPanel);
    }
    for (Value slot : shared)
      ReleaseOp::create(b, loc, slot);
  }

  Value emitPiece(AddProductOp product, ArrayRef<Value> shared, Value rowPanel, Value colPanel) {
    Location loc = product.getLoc();
    SlotType a = cast<SlotType>(shared.front().getType());
    int64_t cols = GPUTarget::of(product).getPanelCols();
    auto panel = SlotType::get(b.getContext(), a.getRows(), cols, a.getElementType());
    RankedTensorType type = getAccType(cols, b.getF32Type());
    Value sum; // one product over the depth of all consumers
    for (auto [ofA, ofB] : llvm::zip_equal(shared, loaded.lookup(product.getB()))) {
      Value panelOfA = PanelOp::create(b, loc, panel, ofA, rowPanel);
      Value panelOfB = PanelOp::create(b, loc, panel, ofB, colPanel);
      sum = MmaAsyncOp::create(b, loc, TokenType::get(b.getContext(), type), panelOfA, panelOfB, sum, /*ones=*/Value(),
                               /*slopes=*/Value(), /*columns=*/Value(), /*transpose_a=*/true, /*transpose_b=*/false,
                               /*stage=*/0);
    }
    sum = MmaWaitOp::create(b, loc, type, sum, /*pending=*/0);
    if (product.getScale().isExactlyValue(1.0))
      return sum;
    Value scale = arith::ConstantOp::create(b, loc, DenseElementsAttr::get(type, product.getScale()));
    return arith::MulFOp::create(b, loc, sum, scale);
  }

  /// The slots of all consumers that a load has filled.
  llvm::DenseMap<Value, SmallVector<Value>> loaded;
  /// Slots to be released at the end of the block.
  SmallVector<Value> held;
};
} // namespace

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

static void makeConsumer(Region &consumer, const LoadNumbering &numbering) {
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
  waitForLastStore(consumer);
}

FailureOr<WarpSpecializeOp> tile::specializeProgram(ProgramOp program, ScheduleAttr schedule) {
  if (static_cast<int64_t>(program.getConsumers()) != schedule.getConsumers())
    return program.emitOpError() << "expected " << schedule.getConsumers() << " consumers as in the schedule, got "
                                 << program.getConsumers();
  if (!program.getGrid().empty())
    return program.emitOpError() << "expected the launch's own grid (tile-persist runs before)";
  RolePlan plan(program);
  if (failed(plan.compute()))
    return failure();
  LoadNumbering numbering(program, plan);
  OpBuilder b(program);
  auto op = WarpSpecializeOp::create(b, program.getLoc(), program.getConsumers(), schedule.getProducerRegisters(),
                                     schedule.getConsumerRegisters(), /*reducer_registers=*/IntegerAttr());
  b.setInsertionPointToStart(&op.getProducer().emplaceBlock());
  ProducerEmitter(program, plan, numbering, b).emit(program.getBody().front());
  if (plan.hasReducer()) {
    op.setReducerRegisters(getReducerRegisters(GPUTarget::of(program), schedule));
    b.setInsertionPointToStart(&op.getReducer().emplaceBlock());
    ReducerEmitter(program, plan, numbering, b).emit(program.getBody().front());
  }
  op.getConsumer().takeBody(program.getBody());
  program.erase();
  makeConsumer(op.getConsumer(), numbering);
  op.getConsumer().walk(
      [&](DrawOp draw) { expandDraw(draw, plan, op.getWarpgroup(), schedule.getEpilogue() == Epilogue::Softmax); });
  op.getConsumer().walk([&](AdvanceRingOp skip) { expandSkip(skip, numbering.getCounts(skip), op.getWarpgroup()); });
  op.getConsumer().walk([](OwnVisitsOp own) { expandOwnVisits(own); });
  return op;
}

namespace {
struct Specialize : tile::impl::SpecializeBase<Specialize> {
  using SpecializeBase::SpecializeBase;

  void runOnOperation() override {
    SmallVector<ProgramOp> programs;
    getOperation()->walk([&](ProgramOp program) { programs.push_back(program); });
    for (ProgramOp program : programs) {
      FailureOr<ScheduleAttr> schedule = getSchedule(program);
      if (failed(schedule) || failed(specializeProgram(program, *schedule)))
        signalPassFailure();
      else
        ++numSpecialized;
    }
  }
};
} // namespace
