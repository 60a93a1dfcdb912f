//===- Pipeline.cpp - overlaps the stages of several tiles --------------------------------------------------------===//

#include "Utils.h"
#include "flashc/Dialect/Tile/Transforms/Passes.h"
#include "flashc/Dialect/Tile/Transforms/Transforms.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/IR/Remarks.h"

namespace mlir::tile {
#define GEN_PASS_DEF_PIPELINE
#include "flashc/Dialect/Tile/Transforms/Passes.h.inc"
} // namespace mlir::tile

using namespace mlir;
using namespace mlir::tile;

namespace {
/// Writes the prologue, the kernel (the new loop) and the epilogue of a pipeline.
class PipelineEmitter {
public:
  PipelineEmitter(const PipelinePlan &plan, OpBuilder &b)
      : plan(plan), loop(plan.loop), last(plan.numStages - 1), b(b) {}

  scf::ForOp emit() {
    Value tile = loop.getLowerBound();
    SmallVector<Value> tiles; // the tiles that have begun, the latest first
    for (int64_t stage = 0; stage < last; ++stage) {
      tiles.insert(tiles.begin(), tile);
      emitIteration(tiles, /*first=*/0);
      tile = b.createOrFold<arith::AddIOp>(loop.getLoc(), tile, loop.getStep());
    }
    scf::ForOp kernel = emitKernel(tile);
    for (int64_t stage = 1; stage <= last; ++stage) {
      tiles = getTilesBefore(loop.getUpperBound(), last + 1 - stage);
      tiles.insert(tiles.begin(), stage, Value()); // no tile begins in the epilogue
      emitIteration(tiles, stage);
    }
    for (auto [arg, result] : llvm::zip_equal(loop.getRegionIterArgs(), loop.getResults()))
      result.replaceAllUsesWith(*llvm::find_if(history[arg], [](Value value) { return value != nullptr; }));
    return kernel;
  }

private:
  /// Returns the `count` tiles before `tile`, the latest one first.
  SmallVector<Value> getTilesBefore(Value tile, int64_t count) {
    SmallVector<Value> tiles;
    for (int64_t i = 0; i < count; ++i)
      tiles.push_back(tile = b.createOrFold<arith::SubIOp>(loop.getLoc(), tile, loop.getStep()));
    return tiles;
  }

  scf::ForOp emitKernel(Value begin) {
    SmallVector<Value> inits;
    for (auto [value, ages] : plan.carried)
      for (int64_t age = 0; age < ages; ++age)
        inits.push_back(getFormer(value, age));
    auto emitBody = [&](OpBuilder &nested, Location loc, Value index, ValueRange carried) {
      OpBuilder::InsertionGuard guard(b);
      b.restoreInsertionPoint(nested.saveInsertionPoint());
      setHistory(carried);
      SmallVector<Value> tiles = getTilesBefore(index, last);
      tiles.insert(tiles.begin(), index);
      emitIteration(tiles, /*first=*/0);
      SmallVector<Value> handed;
      for (auto [value, ages] : plan.carried)
        llvm::append_range(handed, ArrayRef(history[value]).take_front(ages));
      scf::YieldOp::create(b, loc, handed);
    };
    auto kernel = scf::ForOp::create(b, loop.getLoc(), begin, loop.getUpperBound(), loop.getStep(), inits, emitBody);
    setHistory(kernel.getResults());
    return kernel;
  }

  /// Sets the history of each carried value from `values`, the values that the kernel carries. These are the histories
  /// of all carried values, one history after the other.
  void setHistory(ValueRange values) {
    for (auto [value, ages] : plan.carried) {
      history[value] = llvm::to_vector(values.take_front(ages));
      values = values.drop_front(ages);
    }
  }

  /// Returns the value that `value` had `age` iterations ago. For an iter_arg this is the value that was yielded for it
  /// in that iteration or, before the first iteration, its initial value.
  Value getFormer(Value value, size_t age) {
    ArrayRef<Value> values = history[value];
    if (age < values.size() && values[age])
      return values[age];
    return loop.getTiedLoopInit(cast<BlockArgument>(value))->get();
  }

  /// Emits one iteration: for each stage from `first` on, the steps of this stage for the tile `tiles[stage]`.
  void emitIteration(ArrayRef<Value> tiles, int64_t first) {
    maps.assign(tiles.size(), IRMapping());
    for (auto [map, tile] : llvm::zip_equal(maps, tiles))
      if (tile)
        map.map(loop.getInductionVar(), tile);
    for (auto [value, ages] : plan.carried)
      history[value].insert(history[value].begin(), Value());
    inFlight.clear();
    for (PipelinePlan::Step step : plan.getOrder(first, tiles.size() - 1))
      emitStep(step);
    for (auto [value, ages] : plan.carried)
      record(value, first);
  }

  void emitStep(PipelinePlan::Step step) {
    IRMapping &map = maps[step.stage];
    for (Value input : getInputs(step.op))
      if (!map.contains(input) && !loop.isDefinedOutsideOfLoop(input))
        map.map(input, find(input, step.stage));
    Operation *clone = b.clone(*step.op, map);
    if (isa<MmaAsyncOp>(step.op))
      inFlight.push_back(step.op);
    if (auto wait = dyn_cast<MmaWaitOp>(clone)) {
      auto *product = llvm::find(inFlight, cast<MmaWaitOp>(step.op).getToken().getDefiningOp());
      wait.setPending(inFlight.end() - product - 1);
      inFlight.erase(product);
    }
  }

  /// In the iteration that is emitted, returns the value that `stage` reads where the old loop's body reads `value`.
  Value find(Value value, int64_t stage) {
    if (loop.isDefinedOutsideOfLoop(value))
      return value;
    if (Value known = maps[stage].lookupOrNull(value))
      return known;
    int64_t age = plan.getAge(value, stage);
    // At age 0, the previous tile computes the value in this same iteration of the new loop, one stage further.
    if (auto arg = dyn_cast<BlockArgument>(value); arg && age == 0)
      if (stage + 1 < static_cast<int64_t>(maps.size()))
        return maps[stage + 1].lookup(plan.getNext(arg));
    return getFormer(value, age);
  }

  /// If this iteration runs the stage that computes `value`, adds the new value of `value` to its history.
  void record(Value value, int64_t first) {
    auto arg = dyn_cast<BlockArgument>(value);
    Value made = arg ? plan.getNext(arg) : value;
    int64_t stage = plan.getStage(made);
    if (first <= stage && stage < static_cast<int64_t>(maps.size()))
      history[value].front() = find(made, stage);
  }

  const PipelinePlan &plan;
  scf::ForOp loop;
  int64_t last;
  OpBuilder &b;
  /// For each stage, maps the loop's values to their new values in this iteration.
  SmallVector<IRMapping> maps;
  /// The history of each carried value: its new values, the one of this iteration first, then those of earlier
  /// iterations.
  llvm::DenseMap<Value, SmallVector<Value>> history;
  SmallVector<Operation *> inFlight;
};
} // namespace

scf::ForOp tile::applyPipeline(const PipelinePlan &plan) {
  OpBuilder b(plan.loop);
  scf::ForOp kernel = PipelineEmitter(plan, b).emit();
  scf::ForOp(plan.loop).erase();
  return kernel;
}

/// Computes plans for the loops with stages in kernels whose schedule says `overlap`. Reports every loop that cannot be
/// pipelined, and then fails.
static LogicalResult planLoops(Operation *root, std::vector<PipelinePlan> &plans) {
  bool isOk = true;
  auto plan = [&](scf::ForOp loop) {
    if (loop.getOps<MmaAsyncOp>().empty())
      return;
    if (!hasStages(loop)) {
      remark::missed(loop.getLoc(), remark::RemarkOpts::name("pipeline").category("tile"))
          << "all products are of stage 0";
      return;
    }
    FailureOr<PipelinePlan> plan = planPipeline(loop);
    isOk &= succeeded(plan);
    if (succeeded(plan))
      plans.push_back(*plan);
  };
  root->walk([&](ProgramOp program) {
    FailureOr<ScheduleAttr> schedule = getSchedule(program);
    isOk &= succeeded(schedule);
    if (succeeded(schedule) && schedule->getOverlap())
      program.walk(plan);
  });
  return success(isOk);
}

namespace {
struct Pipeline : tile::impl::PipelineBase<Pipeline> {
  using PipelineBase::PipelineBase;

  void runOnOperation() override {
    std::vector<PipelinePlan> plans;
    if (failed(planLoops(getOperation(), plans)))
      return signalPassFailure();
    for (const PipelinePlan &plan : plans) {
      if (printPlan)
        plan.print(llvm::outs());
      applyPipeline(plan);
      ++numPipelined;
    }
  }
};
} // namespace
