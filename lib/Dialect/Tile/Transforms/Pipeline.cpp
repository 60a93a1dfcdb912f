//===- Pipeline.cpp - rotate the key loop by one product ----------------------------------------------------------===//

#include "Utils.h"
#include "flashc/Dialect/Tile/Transforms/Passes.h"
#include "flashc/Dialect/Tile/Transforms/Transforms.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/Utils/StaticValueUtils.h"
#include "mlir/IR/IRMapping.h"
#include "llvm/ADT/SetVector.h"

namespace mlir::tile {
#define GEN_PASS_DEF_PIPELINE
#include "flashc/Dialect/Tile/Transforms/Passes.h.inc"
} // namespace mlir::tile

using namespace mlir;
using namespace mlir::tile;

//===--------------------------------------------------------------------------------------------------------------===//
// The plan
//===--------------------------------------------------------------------------------------------------------------===//

static InFlightDiagnostic refuse(scf::ForOp loop) { return loop.emitOpError() << "cannot pipeline: "; }

/// The products in the loop: one of slots, one whose A is in registers.
static LogicalResult findProducts(PipelinePlan &plan) {
  int64_t numFirst = 0, numSecond = 0;
  plan.loop.getBody()->walk([&](MmaAsyncOp product) {
    bool isSecond = !isa<SlotType>(product.getA().getType());
    (isSecond ? plan.second : plan.first) = product;
    ++(isSecond ? numSecond : numFirst);
  });
  if (numFirst != 1 || numSecond != 1)
    return refuse(plan.loop) << "expected one product of slots and one of a register operand, got " << numFirst
                             << " and " << numSecond;
  auto findWait = [&](MmaAsyncOp product, MmaWaitOp &wait) -> LogicalResult {
    Value token = product.getToken();
    wait = token.hasOneUse() ? dyn_cast<MmaWaitOp>(*token.user_begin()) : nullptr;
    if (wait && wait->getBlock() == plan.loop.getBody() && product->getBlock() == plan.loop.getBody())
      return success();
    InFlightDiagnostic diag = refuse(plan.loop) << "expected products that start and end in the loop's body";
    diag.attachNote(product.getLoc()) << "this product does not";
    return diag;
  };
  return success(succeeded(findWait(plan.first, plan.firstWait)) && succeeded(findWait(plan.second, plan.secondWait)));
}

/// The second product's value must become an iter_arg, and nothing else: in the new loop it comes one tile later.
static LogicalResult findAccumulator(PipelinePlan &plan) {
  for (OpOperand &use : plan.secondWait.getResult().getUses())
    if (!isa<scf::YieldOp>(use.getOwner()) || use.getOwner()->getBlock() != plan.loop.getBody()) {
      InFlightDiagnostic diag = refuse(plan.loop) << "expected the second product to be read by the next tile only";
      diag.attachNote(use.getOwner()->getLoc()) << "this op reads it";
      return diag;
    }
  if (!plan.secondWait.getResult().hasOneUse())
    return refuse(plan.loop) << "expected the loop to carry the second product once";
  plan.accumulator = plan.secondWait.getResult().use_begin()->getOperandNumber();
  return success();
}

/// The ops of the loop that compute `value`, in `slice`, if they are scalar code that may run twice.
static LogicalResult collectScalars(const PipelinePlan &plan, Value value, SetVector<Operation *> &slice) {
  scf::ForOp loop = plan.loop;
  if (loop.isDefinedOutsideOfLoop(value) || value == loop.getInductionVar())
    return success();
  Operation *op = value.getDefiningOp();
  // Programs write no array that they read.
  bool mayRunTwice = op && (isMemoryEffectFree(op) || isa<memref::LoadOp>(op));
  if (!mayRunTwice || op->getBlock() != loop.getBody()) {
    InFlightDiagnostic diag = refuse(loop) << "expected the second product's tile to depend on the loop's index only";
    diag.attachNote(value.getLoc()) << "it depends on this value";
    return diag;
  }
  for (Value input : getInputs(op))
    if (!op->isAncestor(input.getParentBlock()->getParentOp()) && failed(collectScalars(plan, input, slice)))
      return failure();
  slice.insert(op);
  return success();
}

/// Stage 1: the second product, the load of its B, and the scalars that the load needs.
static LogicalResult planIssue(PipelinePlan &plan) {
  Value slot = plan.second.getB();
  if (!plan.loop.isDefinedOutsideOfLoop(slot)) {
    auto load = slot.getDefiningOp<LoadOp>();
    if (!load || load->getBlock() != plan.loop.getBody())
      return refuse(plan.loop) << "expected the second product to read a tile.load of the loop's body";
    if (!slot.hasOneUse()) {
      InFlightDiagnostic diag = refuse(plan.loop) << "expected the second product to be the only reader of its tile";
      diag.attachNote(load.getLoc()) << "this tile is read by others";
      return diag;
    }
    SetVector<Operation *> scalars;
    for (Value position : {load.getB(), load.getH(), load.getRow()})
      if (failed(collectScalars(plan, position, scalars)))
        return failure();
    plan.issue = scalars.takeVector();
    plan.issue.push_back(load);
  }
  plan.issue.push_back(plan.second);
  for (Value operand : {Value(plan.second.getA()), Value(plan.second.getAcc())})
    if (operand && !plan.loop.isDefinedOutsideOfLoop(operand))
      plan.crossing.push_back(operand);
  return success();
}

/// Stage 0, in the loop's order, cut where stage 1 begins and ends.
static LogicalResult planStageZero(PipelinePlan &plan) {
  llvm::SmallDenseSet<Value> late = {plan.loop.getRegionIterArg(plan.accumulator)};
  bool seenFirst = false;
  for (Operation &op : plan.loop.getBody()->without_terminator()) {
    bool isStageOne = &op == plan.second || &op == plan.secondWait || &op == plan.second.getB().getDefiningOp();
    if (isStageOne)
      continue;
    bool isLate = &op == plan.second.getA().getDefiningOp() ||
                  llvm::any_of(getInputs(&op), [&](Value input) { return late.contains(input); });
    if (isLate) {
      late.insert(op.result_begin(), op.result_end());
      if (!isMemoryEffectFree(&op) && !isa<VoteAnyOp>(op)) {
        InFlightDiagnostic diag = refuse(plan.loop) << "expected only arithmetic to depend on the second product";
        diag.attachNote(op.getLoc()) << "this op has side effects";
        return diag;
      }
    }
    (isLate ? plan.after : seenFirst ? plan.overlapped : plan.before).push_back(&op);
    seenFirst |= &op == plan.first;
  }
  return success();
}

/// A rotated loop computes its first tile before it asks whether there is one.
static LogicalResult checkTripCount(scf::ForOp loop) {
  if (getConstantIntValue(loop.getStep()) != 1)
    return refuse(loop) << "expected a step of 1";
  if (auto own = loop.getLowerBound().getDefiningOp<OwnVisitsOp>();
      own && loop.getLowerBound() == own.getBegin() && loop.getUpperBound() == own.getEnd())
    return success();
  std::optional<int64_t> lower = getConstantIntValue(loop.getLowerBound());
  std::optional<int64_t> upper = getConstantIntValue(loop.getUpperBound());
  if (auto max = loop.getUpperBound().getDefiningOp<arith::MaxSIOp>(); max && !upper)
    for (Value operand : max->getOperands())
      upper = std::max(upper, getConstantIntValue(operand));
  if (lower && upper && *lower < *upper)
    return success();
  return refuse(loop) << "expected at least one iteration (an upper bound of arith.maxsi with a constant)";
}

FailureOr<PipelinePlan> tile::planPipeline(scf::ForOp loop) {
  PipelinePlan plan;
  plan.loop = loop;
  if (failed(findProducts(plan)) || failed(findAccumulator(plan)) || failed(planIssue(plan)) ||
      failed(planStageZero(plan)) || failed(checkTripCount(loop)))
    return failure();
  return plan;
}

void PipelinePlan::print(raw_ostream &os) const {
  auto section = [&](StringRef name, StringRef tile, ArrayRef<Operation *> ops) {
    os << "  " << name << " (" << tile << "):";
    llvm::interleave(ops, os, [&](Operation *op) { os << " " << op->getName(); }, ",");
    os << "\n";
  };
  os << "pipeline:\n";
  section("before", "u", before);
  section("issue", "u - 1", issue);
  section("overlapped", "u", overlapped);
  section("wait", "u - 1", {secondWait->getResult(0).getDefiningOp()});
  section("after", "u", after);
}

//===--------------------------------------------------------------------------------------------------------------===//
// Prologue, kernel, epilogue
//===--------------------------------------------------------------------------------------------------------------===//

static void cloneAll(OpBuilder &b, ArrayRef<Operation *> ops, IRMapping &map) {
  for (Operation *op : ops)
    b.clone(*op, map);
}

/// What stage 0 hands on: the loop's other iter_args, then what stage 1 reads.
static SmallVector<Value> getCarried(const PipelinePlan &plan, ValueRange others, const IRMapping &map) {
  SmallVector<Value> carried;
  for (auto [index, value] : llvm::enumerate(others))
    if (index != plan.accumulator)
      carried.push_back(map.lookupOrDefault(value));
  for (Value value : plan.crossing)
    carried.push_back(map.lookupOrDefault(value));
  return carried;
}

/// Stage 0 of the first tile. Nothing is in flight: the ops keep the order of the loop.
static SmallVector<Value> emitPrologue(OpBuilder &b, const PipelinePlan &plan) {
  scf::ForOp loop = plan.loop;
  IRMapping map;
  map.map(loop.getInductionVar(), loop.getLowerBound());
  map.map(loop.getRegionIterArgs(), loop.getInitArgs());
  auto isStageOne = [&](Operation *op) {
    return op == plan.secondWait || (isa<LoadOp, MmaAsyncOp>(op) && llvm::is_contained(plan.issue, op));
  };
  for (Operation &op : loop.getBody()->without_terminator())
    if (!isStageOne(&op))
      b.clone(op, map);
  return getCarried(plan, loop.getYieldedValues(), map);
}

/// Maps what stage 1 of the tile at `index` reads to the last values of `carried`.
static IRMapping mapStageOne(const PipelinePlan &plan, Value index, ValueRange carried) {
  IRMapping map;
  scf::ForOp loop = plan.loop;
  map.map(loop.getInductionVar(), index);
  map.map(plan.crossing, carried.take_back(plan.crossing.size()));
  return map;
}

/// `index - step`.
static Value getPrevious(OpBuilder &b, scf::ForOp loop, Value index) {
  return b.createOrFold<arith::SubIOp>(loop.getLoc(), index, loop.getStep());
}

/// One iteration of the kernel; returns what it carries on.
static SmallVector<Value> emitKernelBody(OpBuilder &b, const PipelinePlan &plan, Value index, ValueRange carried) {
  scf::ForOp loop = plan.loop;
  IRMapping map, previous = mapStageOne(plan, getPrevious(b, loop, index), carried);
  map.map(loop.getInductionVar(), index);
  unsigned position = 0;
  for (auto [number, arg] : llvm::enumerate(loop.getRegionIterArgs()))
    if (number != plan.accumulator)
      map.map(arg, carried[position++]);
  // Reads of memory take long: those of both stages side by side, before what waits for slots.
  auto *reads = std::find_if(plan.issue.rbegin(), plan.issue.rend(), llvm::IsaPred<memref::LoadOp>).base();
  ArrayRef<Operation *> early(plan.issue.begin(), reads);
  cloneAll(b, early, previous);
  cloneAll(b, plan.before, map);
  cloneAll(b, ArrayRef(plan.issue).drop_front(early.size()), previous);
  cloneAll(b, plan.overlapped, map);
  map.lookup(plan.firstWait->getResult(0)).getDefiningOp<MmaWaitOp>().setPending(1);
  b.clone(*plan.secondWait, previous);
  map.map(loop.getRegionIterArg(plan.accumulator), previous.lookup(plan.secondWait->getResult(0)));
  cloneAll(b, plan.after, map);
  return getCarried(plan, loop.getYieldedValues(), map);
}

/// Stage 1 of the last tile; returns the accumulator.
static Value emitEpilogue(OpBuilder &b, const PipelinePlan &plan, ValueRange carried) {
  scf::ForOp loop = plan.loop;
  IRMapping map = mapStageOne(plan, getPrevious(b, loop, loop.getUpperBound()), carried);
  cloneAll(b, plan.issue, map);
  return b.clone(*plan.secondWait, map)->getResult(0);
}

scf::ForOp tile::applyPipeline(const PipelinePlan &plan) {
  scf::ForOp loop = plan.loop;
  OpBuilder b(loop);
  SmallVector<Value> inits = emitPrologue(b, plan);
  Value second = b.createOrFold<arith::AddIOp>(loop.getLoc(), loop.getLowerBound(), loop.getStep());
  auto kernel = scf::ForOp::create(b, loop.getLoc(), second, loop.getUpperBound(), loop.getStep(), inits,
                                   [&](OpBuilder &nested, Location loc, Value index, ValueRange carried) {
                                     scf::YieldOp::create(nested, loc, emitKernelBody(nested, plan, index, carried));
                                   });
  Value accumulator = emitEpilogue(b, plan, kernel.getResults());
  unsigned position = 0;
  for (auto [number, result] : llvm::enumerate(loop.getResults()))
    result.replaceAllUsesWith(number == plan.accumulator ? accumulator : kernel.getResult(position++));
  loop.erase();
  return kernel;
}

//===--------------------------------------------------------------------------------------------------------------===//
// The pass
//===--------------------------------------------------------------------------------------------------------------===//

/// Plans for the loops that start a product with an operand in registers, in kernels that ask for it. Reports every
/// loop that cannot be rotated before it fails.
static LogicalResult planLoops(Operation *root, std::vector<PipelinePlan> &plans) {
  bool isOk = true;
  auto plan = [&](scf::ForOp loop) {
    if (llvm::none_of(loop.getOps<MmaAsyncOp>(),
                      [](MmaAsyncOp product) { return hasEncoding<OperandAAttr>(product.getA().getType()); }))
      return;
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
