//===- Cost.cpp - what a program computes and moves, counted from its loops ---------------------------------------===//

#include "flashc/Analysis/Cost.h"
#include "LineEvaluator.h"
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
using llvm::DynamicAPInt;

void Cost::print(llvm::raw_ostream &os) const {
  os << "matmul FLOPs " << matmulFlops << ", other FLOPs " << otherFlops << ", bytes read " << bytesRead
     << ", bytes written " << bytesWritten;
}

double flashc::toDouble(const DynamicAPInt &number) {
  std::string digits;
  llvm::raw_string_ostream(digits) << number;
  return std::strtod(digits.c_str(), nullptr);
}

//===--------------------------------------------------------------------------------------------------------------===//
// Where tensors live, and what they depend on
//===--------------------------------------------------------------------------------------------------------------===//

static bool isLoop(Operation *op) { return isa<scf::ForOp, scf::ForallOp>(op); }

static bool isInLoop(Operation *op) {
  return op->getParentOfType<scf::ForOp>() || op->getParentOfType<scf::ForallOp>();
}

/// Whether loops only add to `value`, and the sum goes to device memory: each of their steps adds there.
static bool isAddedOnDevice(Value value) {
  return llvm::any_of(value.getUses(), [](OpOperand &use) {
    if (auto loop = dyn_cast<scf::ForOp>(use.getOwner()))
      return use.getOperandNumber() >= loop.getNumControlOperands() && isAddedOnDevice(loop.getTiedLoopResult(&use));
    return isa<flash::ParallelAddSliceOp>(use.getOwner());
  });
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
    return isAddedOnDevice(value);
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

/// Walks a function with lines for its loop counters (LineEvaluator.h). An op's cost is that of all iterations.
class CostCounter {
public:
  CostCounter(func::FuncOp function, ArrayRef<SmallVector<int64_t, 4>> shapes, bool oneByOne);
  FailureOr<Cost> count();

private:
  using Counter = LoopCounter;

  LogicalResult countBlock(Block &block);
  LogicalResult countOp(Operation *op);
  LogicalResult countLoop(Operation *loop);
  LogicalResult countKept(Operation *loop, ArrayRef<Counter> counters);
  LogicalResult countCounters(Operation *loop, ArrayRef<Counter> counters);
  LogicalResult countOneByOne(Operation *loop, ArrayRef<Counter> counters, const Iterations &iterations);
  LogicalResult countSlice(tensor::ExtractSliceOp slice);
  LogicalResult countCacheTile(flash::CacheTileOp tile);
  LogicalResult countWholeOperands(Operation *op);
  LogicalResult countCaptures(Operation *op, const std::optional<DynamicAPInt> &points);
  LogicalResult countLinalg(linalg::LinalgOp op);
  std::optional<DynamicAPInt> countPoints(linalg::LinalgOp op);
  std::optional<DynamicAPInt> countPoints(flash::OnlineAttentionOp op);
  std::optional<DynamicAPInt> getBytes(Value value);
  bool costDependsOn(Operation *loop, Value counter);
  unsigned getDepth(Operation *loop, ArrayRef<Counter> counters);

  /// Adds so much for every iteration, or fails without a number.
  LogicalResult add(DynamicAPInt Cost::*part, const std::optional<DynamicAPInt> &number);
  LogicalResult addBytes(DynamicAPInt Cost::*part, Value value) { return add(part, getBytes(value)); }
  /// None after a diagnostic, if the iterations are not to be split.
  template <typename T> std::optional<T> orDiagnose(Operation *op, std::optional<T> known) {
    if (!known && !evaluator.isSplitting() && !std::exchange(isDiagnosed, true))
      op->emitError("cannot count the cost: a loop bound or an extent depends on data");
    return known;
  }
  /// An extent, which is to be the same in all iterations: those of different sizes are counted apart.
  std::optional<DynamicAPInt> getExtent(Operation *op, Value tensor, int64_t dim);
  /// The product of a tensor's leading extents and `factor`.
  std::optional<DynamicAPInt> multiply(Operation *op, Value tensor, int64_t numDims,
                                       std::optional<DynamicAPInt> factor);

  func::FuncOp function;
  LineEvaluator evaluator;
  /// How many loops, one in the other, are counted at once.
  const unsigned maxLoops;
  Cost total;
  /// How often iterations that are counted stand for others.
  DynamicAPInt times = DynamicAPInt(1);
  /// Slices that are read before a loop because it does not change them.
  DenseMap<Operation *, SmallVector<tensor::ExtractSliceOp>> kept;
  DenseMap<std::pair<Operation *, Value>, bool> dependence;
  bool isDiagnosed = false;
};

} // namespace

static CallArguments makeCall(func::FuncOp function, ArrayRef<SmallVector<int64_t, 4>> shapes) {
  CallArguments call;
  for (auto [argument, shape] : llvm::zip_equal(function.getArguments(), shapes))
    call.setShape(argument, shape);
  return call;
}

CostCounter::CostCounter(func::FuncOp function, ArrayRef<SmallVector<int64_t, 4>> shapes, bool oneByOne)
    : function(function), evaluator(makeCall(function, shapes)),
      maxLoops(oneByOne ? 0 : LineEvaluator::kMaxLoops) {
  function.walk([&](tensor::ExtractSliceOp slice) {
    if (Operation *loop = getLoopThatKeeps(slice))
      kept[loop].push_back(slice);
  });
}

FailureOr<Cost> CostCounter::count() {
  if (failed(countBlock(function.getBody().front())))
    return failure();
  return total;
}

std::optional<DynamicAPInt> CostCounter::getExtent(Operation *op, Value tensor, int64_t dim) {
  std::optional<int64_t> extent = orDiagnose(op, evaluator.getNumber(evaluator.getExtent(tensor, dim)));
  return extent ? std::optional(DynamicAPInt(*extent)) : std::nullopt;
}

std::optional<DynamicAPInt> CostCounter::getBytes(Value value) {
  Operation *op = value.getDefiningOp() ? value.getDefiningOp() : function;
  return multiply(op, value, cast<ShapedType>(value.getType()).getRank(), DynamicAPInt(getElementBytes(value)));
}

std::optional<DynamicAPInt> CostCounter::multiply(Operation *op, Value tensor, int64_t numDims,
                                                  std::optional<DynamicAPInt> factor) {
  for (int64_t dim = 0; dim < numDims && factor; ++dim) {
    std::optional<DynamicAPInt> extent = getExtent(op, tensor, dim);
    factor = extent ? std::optional(*factor * *extent) : std::nullopt;
  }
  return factor;
}

LogicalResult CostCounter::add(DynamicAPInt Cost::*part, const std::optional<DynamicAPInt> &number) {
  if (number)
    total.*part += *number * times * evaluator.countPoints();
  return success(number.has_value());
}

LogicalResult CostCounter::countBlock(Block &block) {
  for (Operation &op : block)
    if (failed(countOp(&op)))
      return failure();
  return success();
}

LogicalResult CostCounter::countOp(Operation *op) {
  if (isLoop(op))
    return countLoop(op);
  if (auto terminator = dyn_cast<scf::InParallelOp>(op))
    return countBlock(*terminator.getBody());
  if (auto slice = dyn_cast<tensor::ExtractSliceOp>(op))
    return getLoopThatKeeps(slice) || !isInLoop(op) ? success() : countSlice(slice);
  if (auto insert = dyn_cast<tensor::InsertSliceOp>(op))
    return isOnDevice(insert.getDest()) ? addBytes(&Cost::bytesWritten, insert.getSource()) : success();
  if (auto insert = dyn_cast<tensor::ParallelInsertSliceOp>(op))
    return isOnDevice(insert.getDest()) ? addBytes(&Cost::bytesWritten, insert.getSource()) : success();
  if (auto tile = dyn_cast<flash::CacheTileOp>(op))
    return countCacheTile(tile);
  if (auto linalgOp = dyn_cast<linalg::LinalgOp>(op))
    return countLinalg(linalgOp);
  if (isa<scf::IfOp, scf::WhileOp, scf::ParallelOp, func::CallOp>(op))
    return op->emitError("cannot count the cost of '") << op->getName() << "'";
  if (!isa<flash::AttentionOp, flash::OnlineAttentionOp, flash::FinalizeOp, tensor::PadOp>(op))
    return success();
  auto online = dyn_cast<flash::OnlineAttentionOp>(op);
  return success(succeeded(countWholeOperands(op)) &&
                 (!online || succeeded(countCaptures(op, countPoints(online)))));
}

//===--------------------------------------------------------------------------------------------------------------===//
// Loops
//===--------------------------------------------------------------------------------------------------------------===//

LogicalResult CostCounter::countLoop(Operation *op) {
  SmallVector<Counter> counters = getLoopCounters(op);
  if (kept.contains(op) && failed(countKept(op, counters)))
    return failure();
  return countCounters(op, counters);
}

/// Slices that are read before the loop, if it has an iteration.
LogicalResult CostCounter::countKept(Operation *loop, ArrayRef<Counter> counters) {
  for (const Counter &counter : counters) {
    std::optional<Iterations> iterations = orDiagnose(loop, evaluator.getIterations(counter));
    std::optional<bool> hasAny = iterations ? evaluator.isNotLess(iterations->count, Line{1}) : std::nullopt;
    if (!hasAny || !*hasAny)
      return success(hasAny.has_value());
    // The slice's extents may not depend on this loop, but the evaluator wants a number for every counter.
    evaluator.setCounter(counter.value, iterations->begin.base);
  }
  for (tensor::ExtractSliceOp slice : kept.lookup(loop))
    if (failed(countSlice(slice)))
      return failure();
  return success();
}

/// Iterations whose costs do not differ are counted once.
LogicalResult CostCounter::countCounters(Operation *loop, ArrayRef<Counter> counters) {
  if (counters.empty())
    return countBlock(loop->getRegion(0).front());
  const Counter &counter = counters.front();
  std::optional<Iterations> iterations = orDiagnose(loop, evaluator.getIterations(counter));
  if (!iterations)
    return failure();
  bool isSum = costDependsOn(loop, counter.value) || !iterations->count.isConstant();
  unsigned needed = evaluator.getNumLoops() + std::max(getDepth(loop, counters), 1u);
  if (!isSum || needed > maxLoops)
    return countOneByOne(loop, counters, *iterations);
  return evaluator.forEachPart(*iterations, [&] {
    Cost before = total;
    LogicalResult result = countCounters(loop, counters.drop_front());
    if (failed(result))
      total = before;
    return result;
  });
}

LogicalResult CostCounter::countOneByOne(Operation *loop, ArrayRef<Counter> counters, const Iterations &iterations) {
  bool isAlike = !costDependsOn(loop, counters.front().value);
  std::optional<int64_t> count = isAlike ? evaluator.getNumber(iterations.count) : 1;
  if (!count)
    return failure();
  DynamicAPInt outer = times;
  times *= *count;
  LogicalResult result = evaluator.forEachNumber(iterations, isAlike,
                                                 [&] { return countCounters(loop, counters.drop_front()); });
  times = outer;
  return result;
}

/// How many counters there are in each other, from `counters` of `loop` on, whose iterations have different costs.
unsigned CostCounter::getDepth(Operation *loop, ArrayRef<Counter> counters) {
  unsigned inside = 0;
  for (Operation &op : loop->getRegion(0).front())
    if (isLoop(&op))
      inside = std::max(inside, getDepth(&op, getLoopCounters(&op)));
  return inside + llvm::count_if(counters, [&](const Counter &counter) { return costDependsOn(loop, counter.value); });
}

/// Whether an extent or a bound in `loop` is computed from `counter`. Slices' offsets do not matter.
bool CostCounter::costDependsOn(Operation *loop, Value counter) {
  auto [entry, isNew] = dependence.try_emplace({loop, counter}, false);
  if (!isNew)
    return entry->second;
  WalkResult result = loop->walk([&](Operation *op) {
    SmallVector<Value> values;
    if (auto slice = dyn_cast<OffsetSizeAndStrideOpInterface>(op))
      llvm::append_range(values, slice.getSizes());
    else if (isa<tensor::EmptyOp, tensor::PadOp>(op) || (isLoop(op) && op != loop))
      llvm::copy_if(op->getOperands(), std::back_inserter(values), [](Value v) { return v.getType().isIndex(); });
    return isComputedFrom(values, cast<BlockArgument>(counter)) ? WalkResult::interrupt() : WalkResult::advance();
  });
  return dependence[{loop, counter}] = result.wasInterrupted();
}

//===--------------------------------------------------------------------------------------------------------------===//
// Traffic and FLOPs of single ops
//===--------------------------------------------------------------------------------------------------------------===//

LogicalResult CostCounter::countSlice(tensor::ExtractSliceOp slice) {
  if (!isOnDevice(slice.getSource()) || isOnlyDestination(slice))
    return success();
  return addBytes(&Cost::bytesRead, slice);
}

/// Rows of a cache, in its own element type. How many are part of a sequence is not known.
LogicalResult CostCounter::countCacheTile(flash::CacheTileOp tile) {
  if (!isOnDevice(tile.getCache()))
    return success();
  return add(&Cost::bytesRead, multiply(tile, tile.getResult(), 4, DynamicAPInt(getElementBytes(tile.getCache()))));
}

/// What an op reads and writes that works on whole tensors in device memory.
LogicalResult CostCounter::countWholeOperands(Operation *op) {
  auto destination = dyn_cast<DestinationStyleOpInterface>(op);
  auto linalgOp = dyn_cast<linalg::LinalgOp>(op);
  for (OpOperand &operand : op->getOpOperands()) {
    if (!isa<ShapedType>(operand.get().getType()) || !isOnDevice(operand.get()))
      continue;
    bool isInit = destination && destination.isDpsInit(&operand);
    bool isUnread = isInit && (isa<flash::FinalizeOp>(op) || operand.get().getDefiningOp<linalg::FillOp>());
    if (isUnread || (linalgOp && !linalgOp.payloadUsesValueFromOperand(&operand)))
      continue;
    if (failed(addBytes(&Cost::bytesRead, operand.get())))
      return failure();
  }
  for (Value result : op->getResults())
    if (isa<RankedTensorType>(result.getType()) && isOnDevice(result) && !isa<flash::AttentionOp>(op) &&
        failed(addBytes(&Cost::bytesWritten, result)))
      return failure();
  return success();
}

/// Elements that a region reads from captured tensors, once for each of its `points`.
LogicalResult CostCounter::countCaptures(Operation *op, const std::optional<DynamicAPInt> &points) {
  int64_t bytes = 0;
  op->walk([&](Operation *inner) {
    if (isa<tensor::ExtractOp, memref::LoadOp>(inner) && isOnDevice(inner->getOperand(0)))
      bytes += getElementBytes(inner->getOperand(0));
  });
  return add(&Cost::bytesRead, points ? std::optional(*points * bytes) : std::nullopt);
}

LogicalResult CostCounter::countLinalg(linalg::LinalgOp op) {
  if (auto fill = dyn_cast<linalg::FillOp>(*op))
    return isInitialisation(fill) || isInLoop(fill) ? success() : countWholeOperands(op);
  std::optional<DynamicAPInt> points = countPoints(op);
  if (!points || failed(countWholeOperands(op)) || failed(countCaptures(op, points)))
    return failure();
  bool isMatmul = op.getNumReductionLoops() > 0 && !op.getBlock()->getOps<arith::MulFOp>().empty();
  return add(isMatmul ? &Cost::matmulFlops : &Cost::otherFlops, *points * countFloatOps(*op.getBlock()));
}

std::optional<DynamicAPInt> CostCounter::countPoints(linalg::LinalgOp op) {
  SmallVector<DynamicAPInt> extents(op.getNumLoops());
  for (OpOperand &operand : op->getOpOperands()) {
    AffineMap map = op.getMatchingIndexingMap(&operand);
    for (auto [index, expr] : llvm::enumerate(map.getResults()))
      if (auto dim = dyn_cast<AffineDimExpr>(expr)) {
        std::optional<DynamicAPInt> extent = getExtent(op, operand.get(), index);
        if (!extent)
          return std::nullopt;
        extents[dim.getPosition()] = *extent;
      }
  }
  DynamicAPInt points(1);
  for (const DynamicAPInt &extent : extents)
    points *= extent;
  return points;
}

std::optional<DynamicAPInt> CostCounter::countPoints(flash::OnlineAttentionOp op) {
  return multiply(op, op.getQ(), 3, getExtent(op, op.getK(), 2));
}

FailureOr<Cost> flashc::countCost(func::FuncOp function, ArrayRef<SmallVector<int64_t, 4>> shapes, bool oneByOne) {
  return CostCounter(function, shapes, oneByOne).count();
}
