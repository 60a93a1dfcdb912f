//===- Cost.cpp - what a program computes and moves, counted from its loops ---------------------------------------===//

#include "flashc/Analysis/Cost.h"
#include "IndexEvaluator.h"
#include "flashc/Dialect/Flash/IR/Flash.h"
#include "mlir/Dialect/Bufferization/IR/Bufferization.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "llvm/Support/raw_ostream.h"

using namespace mlir;
using namespace flashc;

Cost &Cost::operator+=(const Cost &other) {
  matmulFlops += other.matmulFlops;
  otherFlops += other.otherFlops;
  bytesRead += other.bytesRead;
  bytesWritten += other.bytesWritten;
  return *this;
}

Cost Cost::operator*(int64_t times) const {
  return {matmulFlops * times, otherFlops * times, bytesRead * times, bytesWritten * times};
}

void Cost::print(llvm::raw_ostream &os) const {
  os << "matmul FLOPs " << matmulFlops << ", other FLOPs " << otherFlops << ", bytes read " << bytesRead
     << ", bytes written " << bytesWritten;
}

//===--------------------------------------------------------------------------------------------------------------===//
// Where tensors live, and what they depend on
//===--------------------------------------------------------------------------------------------------------------===//

static bool isLoop(Operation *op) { return isa<scf::ForOp, scf::ForallOp>(op); }

static bool isInLoop(Operation *op) {
  return op->getParentOfType<scf::ForOp>() || op->getParentOfType<scf::ForallOp>();
}

/// Whether a tensor or memref is in device memory (see Cost.h).
static bool isOnDevice(Value value) {
  if (isa<BlockArgument>(value)) {
    Value init = getTiedValue(value);
    return init ? isOnDevice(init) : isa<func::FuncOp>(value.getParentBlock()->getParentOp());
  }
  Operation *op = value.getDefiningOp();
  if (isLoop(op) ||
      isa<tensor::InsertSliceOp, tensor::CastOp, bufferization::ToTensorOp, flash::AssumeSortedOp>(op))
    return isOnDevice(getTiedValue(value));
  if (isInLoop(op))
    return false;
  auto slice = dyn_cast<tensor::ExtractSliceOp>(op);
  return !slice || isOnDevice(slice.getSource());
}

/// Whether the index or tensor `value` changes from one iteration of `loop` to the next.
static bool changesIn(Value value, Operation *loop) {
  if (auto argument = dyn_cast<BlockArgument>(value))
    return loop->isAncestor(argument.getOwner()->getParentOp());
  Operation *op = value.getDefiningOp();
  return loop->isProperAncestor(op) &&
         llvm::any_of(op->getOperands(), [&](Value operand) { return changesIn(operand, loop); });
}

/// The outermost loop in which `slice` stays the same all the time, or null. A thread block keeps nothing for another,
/// so that the search ends at a parallel loop.
static Operation *getLoopThatKeeps(tensor::ExtractSliceOp slice) {
  Operation *keeper = nullptr;
  for (Operation *loop = slice->getParentOp(); isa<scf::ForOp>(loop); loop = loop->getParentOp()) {
    if (llvm::any_of(slice->getOperands(), [&](Value operand) { return changesIn(operand, loop); }))
      break;
    keeper = loop;
  }
  return keeper;
}

/// Whether `value` is only ever written over: the destination of ops that do not read it.
static bool isOnlyDestination(Value value) {
  return llvm::all_of(value.getUses(), [](OpOperand &use) {
    if (isa<flash::FinalizeOp>(use.getOwner()))
      return use.getOperandNumber() >= 3;
    auto linalgOp = dyn_cast<linalg::LinalgOp>(use.getOwner());
    return linalgOp && linalgOp.isDpsInit(&use) && !linalgOp.payloadUsesValueFromOperand(&use);
  });
}

/// Whether `fill` only initialises accumulators of the ops that follow.
static bool isInitialisation(linalg::FillOp fill) {
  return llvm::all_of(fill->getUses(), [](OpOperand &use) {
    auto op = dyn_cast<DestinationStyleOpInterface>(use.getOwner());
    return op && op.isDpsInit(&use);
  });
}

static int64_t getElementBytes(Value value) {
  Type type = getElementTypeOrSelf(value.getType());
  return type.isIndex() ? 8 : (type.getIntOrFloatBitWidth() + 7) / 8;
}

static int64_t countFloatOps(Block &body) {
  int64_t count = 0;
  body.walk([&](Operation *op) {
    bool isArithmetic = isa<arith::AddFOp, arith::SubFOp, arith::MulFOp, arith::DivFOp, arith::MaximumFOp,
                            arith::MinimumFOp, arith::MaxNumFOp, arith::MinNumFOp, arith::NegFOp>(op);
    bool isFunction = op->getDialect() && op->getDialect()->getNamespace() == "math" && op->getNumResults() == 1 &&
                      isa<FloatType>(op->getResult(0).getType());
    count += isArithmetic || isFunction;
  });
  return count;
}

//===--------------------------------------------------------------------------------------------------------------===//
// Counting
//===--------------------------------------------------------------------------------------------------------------===//

namespace {

/// Walks a function with numbers for its loop counters.
class CostCounter {
public:
  CostCounter(func::FuncOp function, ArrayRef<SmallVector<int64_t, 4>> shapes);
  FailureOr<Cost> count();

private:
  Cost countBlock(Block &block);
  Cost countOp(Operation *op);
  Cost countLoop(Operation *loop, ArrayRef<Value> counters, ArrayRef<OpFoldResult> lower, ArrayRef<OpFoldResult> upper,
                 ArrayRef<OpFoldResult> steps);
  Cost countIterations(Operation *loop, ArrayRef<Value> counters, ArrayRef<std::array<int64_t, 3>> ranges);
  Cost countSlice(tensor::ExtractSliceOp slice);
  Cost countWholeOperands(Operation *op);
  Cost countCaptures(Operation *op, int64_t points);
  Cost countLinalg(linalg::LinalgOp op);
  int64_t countPoints(linalg::LinalgOp op);
  int64_t countPoints(flash::OnlineAttentionOp op);
  int64_t getBytes(Value value);
  bool costDependsOn(Operation *loop, Value counter);

  /// The number, or 0 after a diagnostic.
  template <typename T> int64_t number(Operation *op, T value) { return orDiagnose(op, evaluator.get(value)); }
  int64_t orDiagnose(Operation *op, std::optional<int64_t> value);

  func::FuncOp function;
  IndexEvaluator evaluator;
  /// Slices that are read before a loop because it does not change them.
  DenseMap<Operation *, SmallVector<tensor::ExtractSliceOp>> kept;
  DenseMap<std::pair<Operation *, Value>, bool> dependence;
  bool hasFailed = false;
};

} // namespace

CostCounter::CostCounter(func::FuncOp function, ArrayRef<SmallVector<int64_t, 4>> shapes) : function(function) {
  for (auto [argument, shape] : llvm::zip_equal(function.getArguments(), shapes))
    evaluator.setShape(argument, shape);
  function.walk([&](tensor::ExtractSliceOp slice) {
    if (Operation *loop = getLoopThatKeeps(slice))
      kept[loop].push_back(slice);
  });
}

FailureOr<Cost> CostCounter::count() {
  Cost cost = countBlock(function.getBody().front());
  if (hasFailed)
    return failure();
  return cost;
}

int64_t CostCounter::orDiagnose(Operation *op, std::optional<int64_t> value) {
  if (value)
    return *value;
  if (!hasFailed)
    op->emitError("cannot count the cost: a loop bound or an extent depends on data");
  hasFailed = true;
  return 0;
}

int64_t CostCounter::getBytes(Value value) {
  Operation *op = value.getDefiningOp();
  return orDiagnose(op ? op : function, evaluator.getNumElements(value)) * getElementBytes(value);
}

Cost CostCounter::countBlock(Block &block) {
  Cost cost;
  for (Operation &op : block)
    if (!hasFailed)
      cost += countOp(&op);
  return cost;
}

Cost CostCounter::countOp(Operation *op) {
  if (auto loop = dyn_cast<scf::ForOp>(op))
    return countLoop(op, loop.getInductionVar(), OpFoldResult(loop.getLowerBound()), OpFoldResult(loop.getUpperBound()),
                     OpFoldResult(loop.getStep()));
  if (auto forall = dyn_cast<scf::ForallOp>(op))
    return countLoop(op, forall.getInductionVars(), forall.getMixedLowerBound(), forall.getMixedUpperBound(),
                     forall.getMixedStep());
  if (auto terminator = dyn_cast<scf::InParallelOp>(op))
    return countBlock(*terminator.getBody());
  if (auto slice = dyn_cast<tensor::ExtractSliceOp>(op))
    return getLoopThatKeeps(slice) || !isInLoop(op) ? Cost() : countSlice(slice);
  if (auto insert = dyn_cast<tensor::InsertSliceOp>(op))
    return isOnDevice(insert.getDest()) ? Cost{0, 0, 0, getBytes(insert.getSource())} : Cost();
  if (auto insert = dyn_cast<tensor::ParallelInsertSliceOp>(op))
    return isOnDevice(insert.getDest()) ? Cost{0, 0, 0, getBytes(insert.getSource())} : Cost();
  if (auto linalgOp = dyn_cast<linalg::LinalgOp>(op))
    return countLinalg(linalgOp);
  Cost cost;
  if (isa<flash::AttentionOp, flash::OnlineAttentionOp, flash::FinalizeOp, tensor::PadOp>(op))
    cost = countWholeOperands(op);
  if (auto online = dyn_cast<flash::OnlineAttentionOp>(op))
    cost += countCaptures(op, countPoints(online));
  if (isa<scf::IfOp, scf::WhileOp, scf::ParallelOp, func::CallOp>(op)) {
    op->emitError("cannot count the cost of '") << op->getName() << "'";
    hasFailed = true;
  }
  return cost;
}

//===--------------------------------------------------------------------------------------------------------------===//
// Loops
//===--------------------------------------------------------------------------------------------------------------===//

Cost CostCounter::countLoop(Operation *loop, ArrayRef<Value> counters, ArrayRef<OpFoldResult> lower,
                            ArrayRef<OpFoldResult> upper, ArrayRef<OpFoldResult> steps) {
  SmallVector<std::array<int64_t, 3>> ranges;
  for (auto [first, last, step] : llvm::zip_equal(lower, upper, steps))
    ranges.push_back({number(loop, first), number(loop, last), std::max<int64_t>(number(loop, step), 1)});
  bool isEmpty = llvm::any_of(ranges, [](auto range) { return range[0] >= range[1]; });
  if (hasFailed || isEmpty)
    return Cost();
  Cost cost;
  for (tensor::ExtractSliceOp slice : kept.lookup(loop)) {
    // The slice's extents may not depend on this loop, but the evaluator wants a number for every counter.
    for (auto [counter, range] : llvm::zip_equal(counters, ranges))
      evaluator.setCounter(counter, range[0]);
    cost += countSlice(slice);
  }
  cost += countIterations(loop, counters, ranges);
  return cost;
}

/// Counts iterations one by one only if they differ.
Cost CostCounter::countIterations(Operation *loop, ArrayRef<Value> counters, ArrayRef<std::array<int64_t, 3>> ranges) {
  if (counters.empty())
    return countBlock(loop->getRegion(0).front());
  auto [first, last, step] = ranges.front();
  auto countAt = [&](int64_t value) {
    evaluator.setCounter(counters.front(), value);
    return countIterations(loop, counters.drop_front(), ranges.drop_front());
  };
  if (!costDependsOn(loop, counters.front()))
    return countAt(first) * llvm::divideCeil(last - first, step);
  Cost cost;
  for (int64_t value = first; value < last && !hasFailed; value += step)
    cost += countAt(value);
  return cost;
}

/// Whether an extent or a bound in `loop` is computed from `counter`. Slices' offsets do not matter.
bool CostCounter::costDependsOn(Operation *loop, Value counter) {
  auto [entry, isNew] = dependence.try_emplace({loop, counter}, false);
  if (!isNew)
    return entry->second;
  WalkResult result = loop->walk([&](Operation *op) {
    SmallVector<Value> values;
    if (auto slice = dyn_cast<tensor::ExtractSliceOp>(op))
      llvm::append_range(values, slice.getSizes());
    else if (auto insert = dyn_cast<OffsetSizeAndStrideOpInterface>(op))
      llvm::append_range(values, insert.getSizes());
    else if (isa<scf::ForOp>(op) && op != loop)
      values.assign(op->operand_begin(), op->operand_begin() + 3);
    else if (isa<scf::ForallOp>(op) && op != loop)
      llvm::copy_if(op->getOperands(), std::back_inserter(values), [](Value v) { return v.getType().isIndex(); });
    else if (isa<tensor::EmptyOp, tensor::PadOp>(op))
      llvm::copy_if(op->getOperands(), std::back_inserter(values), [](Value v) { return v.getType().isIndex(); });
    return isComputedFrom(values, counter, loop) ? WalkResult::interrupt() : WalkResult::advance();
  });
  return dependence[{loop, counter}] = result.wasInterrupted();
}

//===--------------------------------------------------------------------------------------------------------------===//
// Traffic and FLOPs of single ops
//===--------------------------------------------------------------------------------------------------------------===//

Cost CostCounter::countSlice(tensor::ExtractSliceOp slice) {
  if (!isOnDevice(slice.getSource()) || isOnlyDestination(slice))
    return Cost();
  return {0, 0, getBytes(slice), 0};
}

/// What an op reads and writes that works on whole tensors in device memory.
Cost CostCounter::countWholeOperands(Operation *op) {
  Cost cost;
  auto destination = dyn_cast<DestinationStyleOpInterface>(op);
  auto linalgOp = dyn_cast<linalg::LinalgOp>(op);
  for (OpOperand &operand : op->getOpOperands()) {
    if (!isa<ShapedType>(operand.get().getType()) || !isOnDevice(operand.get()))
      continue;
    bool isInit = destination && destination.isDpsInit(&operand);
    bool isUnread = isInit && (isa<flash::FinalizeOp>(op) || operand.get().getDefiningOp<linalg::FillOp>());
    if (isUnread || (linalgOp && !linalgOp.payloadUsesValueFromOperand(&operand)))
      continue;
    cost.bytesRead += getBytes(operand.get());
  }
  for (Value result : op->getResults())
    if (isa<RankedTensorType>(result.getType()) && isOnDevice(result))
      cost.bytesWritten += isa<flash::AttentionOp>(op) ? 0 : getBytes(result);
  return cost;
}

/// Elements that a region reads from captured tensors, once for each of its `points`.
Cost CostCounter::countCaptures(Operation *op, int64_t points) {
  Cost cost;
  op->walk([&](Operation *inner) {
    if (isa<tensor::ExtractOp, memref::LoadOp>(inner) && isOnDevice(inner->getOperand(0)))
      cost.bytesRead += points * getElementBytes(inner->getOperand(0));
  });
  return cost;
}

Cost CostCounter::countLinalg(linalg::LinalgOp op) {
  if (auto fill = dyn_cast<linalg::FillOp>(*op))
    return isInitialisation(fill) ? Cost() : countWholeOperands(op);
  int64_t points = countPoints(op);
  Cost cost = countWholeOperands(op);
  cost += countCaptures(op, points);
  int64_t flops = points * countFloatOps(*op.getBlock());
  bool isMatmul = op.getNumReductionLoops() > 0 && !op.getBlock()->getOps<arith::MulFOp>().empty();
  (isMatmul ? cost.matmulFlops : cost.otherFlops) += flops;
  return cost;
}

int64_t CostCounter::countPoints(linalg::LinalgOp op) {
  SmallVector<int64_t> extents(op.getNumLoops(), 0);
  for (OpOperand &operand : op->getOpOperands()) {
    AffineMap map = op.getMatchingIndexingMap(&operand);
    for (auto [index, expr] : llvm::enumerate(map.getResults()))
      if (auto dim = dyn_cast<AffineDimExpr>(expr))
        extents[dim.getPosition()] = orDiagnose(op, evaluator.getExtent(operand.get(), index));
  }
  int64_t points = 1;
  for (int64_t extent : extents)
    points *= extent;
  return points;
}

int64_t CostCounter::countPoints(flash::OnlineAttentionOp op) {
  int64_t points = 1;
  for (int64_t dim = 0; dim < 3; ++dim)
    points *= orDiagnose(op, evaluator.getExtent(op.getQ(), dim));
  return points * orDiagnose(op, evaluator.getExtent(op.getK(), 2));
}

FailureOr<Cost> flashc::countCost(func::FuncOp function, ArrayRef<SmallVector<int64_t, 4>> shapes) {
  return CostCounter(function, shapes).count();
}
