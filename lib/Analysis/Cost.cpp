//===- Cost.cpp - what a program computes and moves, counted from its loops ---------------------------------------===//

#include "flashc/Analysis/Cost.h"
#include "CallEvaluator.h"
#include "flashc/Dialect/Flash/IR/Flash.h"
#include "mlir/Dialect/Bufferization/IR/Bufferization.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "llvm/Support/ScopedPrinter.h"

using namespace mlir;
using namespace flashc;
using llvm::DynamicAPInt;

static constexpr DynamicAPInt Cost::*kParts[] = {&Cost::matmulFlops, &Cost::otherFlops, &Cost::bytesRead,
                                                 &Cost::bytesWritten};

Cost &Cost::operator+=(const Cost &other) {
  for (DynamicAPInt Cost::*part : kParts)
    this->*part += other.*part;
  return *this;
}

Cost Cost::operator*(int64_t times) const {
  Cost product = *this;
  for (DynamicAPInt Cost::*part : kParts)
    product.*part *= DynamicAPInt(times);
  return product;
}

void Cost::print(llvm::raw_ostream &os) const {
  os << "matmul FLOPs " << matmulFlops << ", other FLOPs " << otherFlops << ", bytes read " << bytesRead
     << ", bytes written " << bytesWritten;
}

double flashc::toDouble(const DynamicAPInt &number) { return std::strtod(llvm::to_string(number).c_str(), nullptr); }

//===--------------------------------------------------------------------------------------------------------------===//
// Where tensors live, and what they depend on
//===--------------------------------------------------------------------------------------------------------------===//

/// If iterations of a loop must be counted one by one, the loop may have at most this number of iterations.
static constexpr int64_t kMaxIterations = int64_t(1) << 17;

static bool isLoop(Operation *op) { return isa<scf::ForOp, scf::ForallOp>(op); }

static bool isInLoop(Operation *op) {
  return op->getParentOfType<scf::ForOp>() || op->getParentOfType<scf::ForallOp>();
}

/// Whether `value` is a sum that loops carry and that goes to device memory at the end. Each step is then counted as an
/// addition in device memory.
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
  if (isLoop(op) || isa<tensor::InsertSliceOp, tensor::CastOp, bufferization::ToTensorOp, flash::AssumeSortedOp>(op))
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

/// Returns the outermost loop in which `slice` never changes, or null. The search ends at a parallel loop: a thread
/// block cannot keep a slice for another thread block.
static Operation *getLoopThatKeeps(tensor::ExtractSliceOp slice) {
  Operation *keeper = nullptr;
  for (Operation *loop = slice->getParentOp(); isa<scf::ForOp>(loop); loop = loop->getParentOp()) {
    if (llvm::any_of(slice->getOperands(), [&](Value operand) { return changesIn(operand, loop); }))
      break;
    keeper = loop;
  }
  return keeper;
}

/// Whether all uses of `value` are destinations of ops that do not read it.
static bool isOnlyDestination(Value value) {
  return llvm::all_of(value.getUses(), [](OpOperand &use) {
    if (isa<flash::FinalizeOp>(use.getOwner()))
      return use.getOperandNumber() >= 3;
    auto linalgOp = dyn_cast<linalg::LinalgOp>(use.getOwner());
    return linalgOp && linalgOp.isDpsInit(&use) && !linalgOp.payloadUsesValueFromOperand(&use);
  });
}

/// Whether all uses of `fill` are initial values of accumulators.
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
  using Size = std::optional<DynamicAPInt>;
  /// What changes in a loop's body between iterations; later enumerators include earlier ones.
  enum class Change { Nothing, Sizes, Bounds };

  LogicalResult countBlock(Block &block);
  LogicalResult countOp(Operation *op);
  LogicalResult countLoop(Operation *loop);
  LogicalResult countKept(Operation *loop, ArrayRef<LoopCounter> counters);
  LogicalResult countCounters(Operation *loop, ArrayRef<LoopCounter> counters);
  FailureOr<Cost> countIteration(Operation *loop, ArrayRef<LoopCounter> counters, int64_t counter);
  LogicalResult countSlice(tensor::ExtractSliceOp slice);
  LogicalResult countCacheTile(flash::CacheTileOp tile);
  LogicalResult countWholeOperands(Operation *op);
  LogicalResult countCaptures(Operation *op, const Size &points);
  LogicalResult countLinalg(linalg::LinalgOp op);
  Size countPoints(linalg::LinalgOp op);
  Size countPoints(flash::OnlineAttentionOp op);
  Size getBytes(Value value);
  Change findChange(Operation *loop, Value counter);

  /// Adds `number` to the part of the total that `part` selects. Fails if there is no number.
  LogicalResult add(DynamicAPInt Cost::*part, const Size &number);
  LogicalResult addBytes(DynamicAPInt Cost::*part, Value value) { return add(part, getBytes(value)); }
  /// Returns `known`, or nullopt after a diagnostic.
  template <typename T> std::optional<T> orDiagnose(Operation *op, std::optional<T> known) {
    if (!known)
      op->emitError("cannot count the cost: a loop bound or an extent depends on data");
    return known;
  }
  Size getExtent(Operation *op, Value tensor, int64_t dim);
  /// Returns the product of `factor` and the first `numDims` extents of `tensor`.
  Size multiply(Operation *op, Value tensor, int64_t numDims, Size factor);

  func::FuncOp function;
  CallEvaluator evaluator;
  Cost total;
  /// For each loop, the slices that it never changes; they are read once, before the loop.
  DenseMap<Operation *, SmallVector<tensor::ExtractSliceOp>> kept;
  DenseMap<std::pair<Operation *, Value>, Change> changes;
};

} // namespace

static CallArguments makeCall(func::FuncOp function, ArrayRef<SmallVector<int64_t, 4>> shapes) {
  CallArguments call;
  for (auto [argument, shape] : llvm::zip_equal(function.getArguments(), shapes))
    call.setShape(argument, shape);
  return call;
}

CostCounter::CostCounter(func::FuncOp function, ArrayRef<SmallVector<int64_t, 4>> shapes)
    : function(function), evaluator(makeCall(function, shapes)) {
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
  std::optional<int64_t> extent = orDiagnose(op, evaluator.getExtent(tensor, dim));
  return extent ? std::optional(DynamicAPInt(*extent)) : std::nullopt;
}

std::optional<DynamicAPInt> CostCounter::getBytes(Value value) {
  Operation *op = value.getDefiningOp() ? value.getDefiningOp() : function;
  return multiply(op, value, cast<ShapedType>(value.getType()).getRank(), DynamicAPInt(getElementBytes(value)));
}

std::optional<DynamicAPInt> CostCounter::multiply(Operation *op, Value tensor, int64_t numDims, Size factor) {
  for (int64_t dim = 0; dim < numDims && factor; ++dim) {
    std::optional<DynamicAPInt> extent = getExtent(op, tensor, dim);
    factor = extent ? std::optional(*factor * *extent) : std::nullopt;
  }
  return factor;
}

LogicalResult CostCounter::add(DynamicAPInt Cost::*part, const std::optional<DynamicAPInt> &number) {
  if (number)
    total.*part += *number;
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
  return success(succeeded(countWholeOperands(op)) && (!online || succeeded(countCaptures(op, countPoints(online)))));
}

//===--------------------------------------------------------------------------------------------------------------===//
// Loops
//===--------------------------------------------------------------------------------------------------------------===//

LogicalResult CostCounter::countLoop(Operation *op) {
  SmallVector<LoopCounter> counters = getLoopCounters(op);
  if (kept.contains(op) && failed(countKept(op, counters)))
    return failure();
  return countCounters(op, counters);
}

/// Counts reads of the slices that are read once, before `loop`. Counts nothing if the loop has no iteration.
LogicalResult CostCounter::countKept(Operation *loop, ArrayRef<LoopCounter> counters) {
  for (const LoopCounter &counter : counters) {
    std::optional<Iterations> iterations = orDiagnose(loop, evaluator.getIterations(counter));
    if (!iterations || iterations->count == 0)
      return success(iterations.has_value());
  }
  for (tensor::ExtractSliceOp slice : kept.lookup(loop))
    if (failed(countSlice(slice)))
      return failure();
  return success();
}

FailureOr<Cost> CostCounter::countIteration(Operation *loop, ArrayRef<LoopCounter> counters, int64_t counter) {
  evaluator.set(counters.front().value, counter);
  Cost outer = std::exchange(total, Cost());
  LogicalResult result = countCounters(loop, counters.drop_front());
  Cost own = std::exchange(total, outer);
  if (failed(result))
    return failure();
  return own;
}

/// Multiplies the cost of one iteration by the number of iterations that are equal. If nothing changes from one
/// iteration to the next, all iterations are equal. If only the sizes of tiles change, all are equal except for the
/// last one, whose tile may be cut. If the bounds of inner loops change, counts each iteration by itself.
LogicalResult CostCounter::countCounters(Operation *loop, ArrayRef<LoopCounter> counters) {
  if (counters.empty())
    return countBlock(loop->getRegion(0).front());
  std::optional<Iterations> iterations = orDiagnose(loop, evaluator.getIterations(counters.front()));
  if (!iterations)
    return failure();
  auto [begin, step, count] = *iterations;
  Change change = findChange(loop, counters.front().value);
  if (change == Change::Bounds && count > kMaxIterations)
    return loop->emitError("expected at most ") << kMaxIterations << " iterations to count one by one, got " << count;
  for (int64_t k = 0, times; k < count; k += times) {
    times = change == Change::Nothing ? count : change == Change::Sizes && k == 0 ? std::max<int64_t>(count - 1, 1) : 1;
    FailureOr<Cost> cost = countIteration(loop, counters, begin + k * step);
    if (failed(cost))
      return failure();
    total += *cost * times;
  }
  return success();
}

/// Returns what changes as `counter` changes: the extents of tensors, or the bounds of inner loops. Offsets of slices
/// do not matter.
CostCounter::Change CostCounter::findChange(Operation *loop, Value counter) {
  auto [entry, isNew] = changes.try_emplace({loop, counter}, Change::Nothing);
  if (!isNew)
    return entry->second;
  Change change = Change::Nothing;
  loop->walk([&](Operation *op) {
    SmallVector<Value> values;
    if (auto slice = dyn_cast<OffsetSizeAndStrideOpInterface>(op))
      llvm::append_range(values, slice.getSizes());
    else if (isa<tensor::EmptyOp, tensor::PadOp>(op) || (isLoop(op) && op != loop))
      llvm::copy_if(op->getOperands(), std::back_inserter(values), [](Value v) { return v.getType().isIndex(); });
    if (isComputedFrom(values, cast<BlockArgument>(counter)))
      change = std::max(change, isLoop(op) ? Change::Bounds : Change::Sizes);
  });
  return changes[{loop, counter}] = change;
}

//===--------------------------------------------------------------------------------------------------------------===//
// Traffic and FLOPs of single ops
//===--------------------------------------------------------------------------------------------------------------===//

LogicalResult CostCounter::countSlice(tensor::ExtractSliceOp slice) {
  if (!isOnDevice(slice.getSource()) || isOnlyDestination(slice))
    return success();
  return addBytes(&Cost::bytesRead, slice);
}

/// Counts the read of a cache tile, in the element type of the cache. Tiles count as a whole, because the lengths of
/// sequences are data.
LogicalResult CostCounter::countCacheTile(flash::CacheTileOp tile) {
  if (!isOnDevice(tile.getCache()))
    return success();
  return add(&Cost::bytesRead, multiply(tile, tile.getResult(), 4, DynamicAPInt(getElementBytes(tile.getCache()))));
}

/// Counts the reads and writes of an op that works on whole tensors in device memory.
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

/// Counts the elements of captured tensors that a region reads. The region runs once for each of `points`.
LogicalResult CostCounter::countCaptures(Operation *op, const Size &points) {
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

FailureOr<Cost> flashc::countCost(func::FuncOp function, ArrayRef<SmallVector<int64_t, 4>> shapes) {
  return CostCounter(function, shapes).count();
}
