//===- PipelinePlan.cpp - the stages of a loop's ops, and their order ---------------------------------------------===//

#include "Utils.h"
#include "flashc/Dialect/Tile/Transforms/Transforms.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/Utils/StaticValueUtils.h"
#include "llvm/ADT/DenseSet.h"

using namespace mlir;
using namespace mlir::tile;

using Step = PipelinePlan::Step;

static InFlightDiagnostic refuse(scf::ForOp loop) { return loop.emitOpError() << "cannot pipeline: "; }

//===--------------------------------------------------------------------------------------------------------------===//
// The stages of values
//===--------------------------------------------------------------------------------------------------------------===//

/// Returns `value` if it is an iter_arg of the loop, otherwise null.
static BlockArgument getIterArg(scf::ForOp loop, Value value) {
  auto arg = dyn_cast<BlockArgument>(value);
  return arg && arg.getOwner() == loop.getBody() && arg != loop.getInductionVar() ? arg : BlockArgument();
}

Value PipelinePlan::getNext(BlockArgument iterArg) const {
  scf::ForOp loop = this->loop;
  return loop.getTiedLoopYieldedValue(iterArg)->get();
}

int64_t PipelinePlan::getStage(Value value) const { return stages.lookup(value.getDefiningOp()); }

int64_t PipelinePlan::getAge(Value value, int64_t stage) const {
  if (BlockArgument arg = getIterArg(loop, value))
    return stage + 1 - getStage(getNext(arg));
  Operation *op = value.getDefiningOp();
  return !stages.contains(op) || scalars.contains(op) ? 0 : stage - stages.lookup(op);
}

SmallVector<Step> PipelinePlan::getSteps(int64_t stage) const {
  SetVector<Operation *> ops;
  auto insert = [&](Operation *op, auto &insert) -> void {
    for (Value input : getInputs(op))
      if (Operation *scalar = input.getDefiningOp(); scalars.contains(scalar))
        insert(scalar, insert);
    ops.insert(op);
  };
  scf::ForOp loop = this->loop;
  for (Operation &op : loop.getBody()->without_terminator())
    if (stages.lookup(&op) == stage)
      insert(&op, insert);
  return llvm::map_to_vector(ops, [&](Operation *op) { return Step{op, stage}; });
}

//===--------------------------------------------------------------------------------------------------------------===//
// The order of steps
//===--------------------------------------------------------------------------------------------------------------===//

namespace {
/// Lists the steps of one iteration that runs the stages from `first` to `last`. First come, stage by stage, the steps
/// up to the last product that precedes the stage's first wait. The other steps follow. There is one exception: if no
/// step of a wait's own stage reads the value of the wait, the wait comes after all steps that do not depend on it.
class StepLister {
public:
  StepLister(const PipelinePlan &plan, int64_t first, int64_t last) : plan(plan) {
    SmallVector<Step> reads, heads, rests;
    for (int64_t stage = first; stage <= last; ++stage) {
      SmallVector<Step> steps = plan.getSteps(stage);
      ArrayRef<Step> head = ArrayRef(steps).take_front(getHeadSize(steps));
      llvm::append_range(rests, ArrayRef(steps).drop_front(head.size()));
      // Reads of memory take long. So in the stages after `first`, the steps up to the last read come before all waits
      // for slots.
      auto isRead = [](Step step) { return isa<memref::LoadOp>(step.op); };
      ArrayRef<Step> early(head.begin(), std::find_if(head.rbegin(), head.rend(), isRead).base());
      llvm::append_range(stage == first ? heads : reads, early);
      llvm::append_range(heads, head.drop_front(early.size()));
    }
    for (ArrayRef<Step> part : {reads, heads, rests})
      llvm::append_range(waiting, part);
    for (Step step : waiting)
      open.insert({step.op, step.stage});
  }

  SmallVector<Step> list() {
    while (!waiting.empty()) {
      while (listReady([&](Step step) { return !isLazy(step); }))
        ;
      auto *lazy = llvm::find_if(waiting, [&](Step step) { return isReady(step); });
      if (lazy == waiting.end())
        break;
      close(*lazy);
      waiting.erase(lazy);
    }
    assert(waiting.empty() && "a step waits for its own stage's, or for a later stage's");
    return listed;
  }

private:
  /// Returns the number of steps up to the last product that is issued before the stage's first wait.
  static size_t getHeadSize(ArrayRef<Step> steps) {
    ArrayRef<Step> begin = steps.take_until([](Step step) { return isa<MmaWaitOp>(step.op); });
    while (!begin.empty() && !isa<MmaAsyncOp>(begin.back().op))
      begin = begin.drop_back();
    return begin.size();
  }

  void close(Step step) {
    listed.push_back(step);
    open.erase({step.op, step.stage});
  }

  bool listReady(llvm::function_ref<bool(Step)> mayRun) {
    SmallVector<Step> left;
    for (Step step : waiting)
      if (mayRun(step) && isReady(step))
        close(step);
      else
        left.push_back(step);
    std::swap(waiting, left);
    return waiting.size() < left.size();
  }

  /// Whether `step` waits for a product whose value no op of its own stage reads.
  bool isLazy(Step step) const {
    auto isOther = [&](Operation *user) {
      Operation *reader = step.op->getBlock()->findAncestorOpInBlock(*user);
      return !plan.stages.contains(reader) || plan.stages.lookup(reader) != step.stage;
    };
    return isa<MmaWaitOp>(step.op) && llvm::all_of(step.op->getUsers(), isOther);
  }

  bool isOpen(Operation *op, int64_t stage) const { return op && open.contains({op, stage}); }

  bool isReady(Step step) const {
    for (Value input : getInputs(step.op)) {
      BlockArgument arg = getIterArg(plan.loop, input);
      bool isMissing =
          arg ? plan.getAge(arg, step.stage) == 0 && isOpen(plan.getNext(arg).getDefiningOp(), step.stage + 1)
              : isOpen(input.getDefiningOp(), step.stage);
      if (isMissing)
        return false;
    }
    // The step is not ready while the product of an earlier tile may still read the registers that the step writes.
    return llvm::none_of(step.op->getUsers(), [&](Operation *user) {
      auto product = dyn_cast<MmaAsyncOp>(user);
      return product && product.getA().getDefiningOp() == step.op && plan.getStage(product.getToken()) > step.stage &&
             isOpen(product.getWait(), plan.getStage(product.getToken()));
    });
  }

  const PipelinePlan &plan;
  SmallVector<Step> waiting, listed;
  llvm::DenseSet<std::pair<Operation *, int64_t>> open;
};
} // namespace

SmallVector<Step> PipelinePlan::getOrder(int64_t first, int64_t last) const {
  return StepLister(*this, first, last).list();
}

//===--------------------------------------------------------------------------------------------------------------===//
// The plan
//===--------------------------------------------------------------------------------------------------------------===//

/// Checks that every product ends in the iteration that starts it, since the loop does not carry tokens.
static LogicalResult checkProducts(scf::ForOp loop) {
  WalkResult result = loop.getBody()->walk([&](MmaAsyncOp product) {
    MmaWaitOp wait = product.getWait();
    if (wait && wait->getBlock() == loop.getBody() && product->getBlock() == loop.getBody())
      return WalkResult::advance();
    InFlightDiagnostic diag = refuse(loop) << "expected products that start and end in the loop's body";
    diag.attachNote(product.getLoc()) << "this product does not";
    return WalkResult::interrupt();
  });
  return failure(result.wasInterrupted());
}

/// Finds the ops that depend only on the loop's index and on values from outside of the loop. Reads of memory may be
/// among these ops, since programs write no array that they read.
static void findScalars(PipelinePlan &plan) {
  for (Operation &op : plan.loop.getBody()->without_terminator()) {
    auto isKnown = [&](Value input) {
      return plan.loop.isDefinedOutsideOfLoop(input) || input == plan.loop.getInductionVar() ||
             plan.scalars.contains(input.getDefiningOp());
    };
    if ((isMemoryEffectFree(&op) || isa<memref::LoadOp>(op)) && llvm::all_of(getInputs(&op), isKnown))
      plan.scalars.insert(&op);
  }
}

namespace {
/// Assigns a stage to each op of a loop's body.
class StageAssigner {
public:
  explicit StageAssigner(PipelinePlan &plan) : plan(plan), loop(plan.loop) {}

  void run() {
    while (assignEarliest())
      ;
    for (LoadOp load : loop.getOps<LoadOp>())
      assignByUsers(load);
    for (auto [op, stage] : plan.stages)
      plan.numStages = std::max(plan.numStages, stage + 1);
  }

private:
  /// Returns the first stage that can read `value`.
  int64_t getReadable(Value value) const {
    if (BlockArgument arg = getIterArg(loop, value)) {
      Value next = plan.getNext(arg);
      return next.getDefiningOp() ? std::max<int64_t>(0, getReadable(next) - 1) : 0;
    }
    auto wait = value.getDefiningOp<MmaWaitOp>();
    return wait ? std::max<int64_t>(plan.getStage(value), wait.getReadStage()) : plan.getStage(value);
  }

  int64_t getEarliest(Operation &op) const {
    if (auto product = dyn_cast<MmaAsyncOp>(op))
      return product.getStage();
    if (auto wait = dyn_cast<MmaWaitOp>(op))
      return wait.getToken().getDefiningOp<MmaAsyncOp>().getStage();
    int64_t stage = 0;
    for (Value input : getInputs(&op))
      stage = std::max(stage, getReadable(input));
    return stage;
  }

  /// Assigns the earliest possible stage to each op. Returns whether a stage has changed.
  bool assignEarliest() {
    bool hasChanged = false;
    for (Operation &op : loop.getBody()->without_terminator()) {
      int64_t stage = getEarliest(op);
      auto [entry, isNew] = plan.stages.try_emplace(&op, stage);
      hasChanged |= isNew || entry->second != stage;
      entry->second = stage;
    }
    return hasChanged;
  }

  /// Assigns a stage to `load`: the first stage that reads the loaded tile.
  void assignByUsers(LoadOp load) {
    int64_t first = std::numeric_limits<int64_t>::max();
    for (Operation *user : load->getUsers())
      if (Operation *reader = loop.getBody()->findAncestorOpInBlock(*user); plan.stages.contains(reader))
        first = std::min(first, plan.stages.lookup(reader));
    if (!load->use_empty())
      plan.stages[load] = first;
  }

  PipelinePlan &plan;
  scf::ForOp loop;
};
} // namespace

/// Checks that no op reads a value of a later stage.
static LogicalResult checkStages(const PipelinePlan &plan) {
  for (int64_t stage = 0; stage < plan.numStages; ++stage)
    for (Step step : plan.getSteps(stage))
      for (Value input : getInputs(step.op))
        if (plan.getAge(input, stage) < 0) {
          InFlightDiagnostic diag = refuse(plan.loop)
                                    << "expected ops to read only what earlier stages, or their own, compute";
          diag.attachNote(step.op->getLoc()) << "this op of stage " << stage << " reads a later stage's value";
          return diag;
        }
  return success();
}

/// Checks the plan's order: an op with side effects comes before all ops that came after it in the same stage.
static LogicalResult checkEffects(const PipelinePlan &plan) {
  llvm::DenseMap<int64_t, Operation *> latest;
  for (Step step : plan.kernel) {
    if (isArithmetic(step.op) || isa<MmaAsyncOp, MmaWaitOp>(step.op)) {
      Operation *&last = latest[step.stage];
      last = !last || last->isBeforeInBlock(step.op) ? step.op : last;
      continue;
    }
    Operation *last = latest.lookup(step.stage);
    if (!last || last->isBeforeInBlock(step.op))
      continue;
    InFlightDiagnostic diag = refuse(plan.loop) << "expected only arithmetic to wait for a later stage's product";
    diag.attachNote(step.op->getLoc()) << "this op has side effects";
    return diag;
  }
  return success();
}

/// Checks that the loop has at least as many tiles as the prologue computes, since the prologue has no branches.
static LogicalResult checkTripCount(const PipelinePlan &plan) {
  scf::ForOp loop = plan.loop;
  if (getConstantIntValue(loop.getStep()) != 1)
    return refuse(loop) << "expected a step of 1";
  int64_t least = plan.numStages - 1;
  if (auto own = loop.getLowerBound().getDefiningOp<OwnVisitsOp>();
      own && loop.getLowerBound() == own.getBegin() && loop.getUpperBound() == own.getEnd() && least == 1)
    return success();
  std::optional<int64_t> lower = getConstantIntValue(loop.getLowerBound());
  std::optional<int64_t> upper = getConstantIntValue(loop.getUpperBound());
  if (auto max = loop.getUpperBound().getDefiningOp<arith::MaxSIOp>(); max && !upper)
    for (Value operand : max->getOperands())
      upper = std::max(upper, getConstantIntValue(operand));
  if (lower && upper && *upper - *lower >= least)
    return success();
  return refuse(loop) << "expected a trip count of at least " << least
                      << " (an upper bound of arith.maxsi with a constant)";
}

/// Computes the new loop's iter_args: first the iter_args that the first stage yields, then the values that later
/// stages read.
static void planCarried(PipelinePlan &plan) {
  scf::ForOp loop = plan.loop;
  for (BlockArgument arg : loop.getRegionIterArgs())
    if (plan.getStage(plan.getNext(arg)) == 0)
      plan.carried[arg] = 1;
  auto read = [&](Value value, int64_t stage) {
    if (int64_t age = plan.getAge(value, stage); age > 0)
      plan.carried[value] = std::max(plan.carried[value], age);
  };
  for (int64_t stage = 0; stage < plan.numStages; ++stage)
    for (Step step : plan.getSteps(stage))
      for (Value input : getInputs(step.op))
        read(input, stage);
  for (Value next : loop.getYieldedValues())
    read(next, plan.getStage(next));
  for (BlockArgument arg : loop.getRegionIterArgs())
    plan.carried.try_emplace(arg, 0);
}

bool tile::hasStages(scf::ForOp loop) {
  return llvm::any_of(loop.getOps<MmaAsyncOp>(), [](MmaAsyncOp product) { return product.getStage() > 0; }) ||
         llvm::any_of(loop.getOps<MmaWaitOp>(), [](MmaWaitOp wait) { return wait.getReadStage() > 0; });
}

FailureOr<PipelinePlan> tile::planPipeline(scf::ForOp loop) {
  PipelinePlan plan;
  plan.loop = loop;
  if (failed(checkProducts(loop)))
    return failure();
  findScalars(plan);
  StageAssigner(plan).run();
  if (failed(checkStages(plan)))
    return failure();
  plan.kernel = plan.getOrder(0, plan.numStages - 1);
  if (failed(checkEffects(plan)) || failed(checkTripCount(plan)))
    return failure();
  planCarried(plan);
  return plan;
}

void PipelinePlan::print(raw_ostream &os) const {
  os << "pipeline of " << numStages << " stages:";
  int64_t stage = -1;
  for (Step step : kernel) {
    bool isSame = step.stage == std::exchange(stage, step.stage);
    if (!isSame)
      os << "\n  tile u" << (stage ? " - " + std::to_string(stage) : "") << ":";
    os << (isSame ? ", " : " ") << step.op->getName();
  }
  os << "\n";
}
