//===- Prefetch.cpp - starts the loads of a warp iterations ahead -------------------------------------------------===//

#include "flashc/Dialect/Tile/IR/Tile.h"
#include "flashc/Dialect/Tile/Transforms/Passes.h"
#include "flashc/Support/CloneSlice.h"
#include "mlir/Analysis/SliceAnalysis.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"

namespace mlir::tile {
#define GEN_PASS_DEF_PREFETCH
#include "flashc/Dialect/Tile/Transforms/Passes.h.inc"
} // namespace mlir::tile

using namespace mlir;
using namespace mlir::tile;

namespace {
/// Prefetches the loads of one loop.
class Prefetcher {
public:
  explicit Prefetcher(scf::ForOp loop) : loop(loop), b(loop.getLoc(), loop.getContext()) {}

  LogicalResult run();

private:
  LogicalResult findLoads();
  Value emitAfter(Value position, int64_t iterations);
  SmallVector<Value> emitReads(Value position);
  void emitCopies(Value position, ValueRange numbers, Value count);
  Value isInside(Value position);

  scf::ForOp loop;
  ImplicitLocOpBuilder b;
  /// The loads of the loop, each a tile.load or a tile.load_rows.
  SmallVector<Operation *> loads;
  /// The reads of memory from which positions of loads are computed, such as the numbers of pages.
  SmallVector<Operation *> reads;
  int64_t stages = 0;
};
} // namespace

static TypedValue<RingType> getRing(Operation *load) {
  auto box = dyn_cast<LoadOp>(load);
  return box ? box.getRing() : cast<LoadRowsOp>(load).getRing();
}

/// Returns the operands that say where a load reads. These operands may be computed in the loop.
static SmallVector<Value> getPlaces(Operation *load) {
  if (auto box = dyn_cast<LoadOp>(load))
    return {box.getB(), box.getH(), box.getRow()};
  auto rows = cast<LoadRowsOp>(load);
  SmallVector<Value> places{rows.getB(), rows.getH(), rows.getRow(), rows.getLimit()};
  if (rows.getBegin())
    places.push_back(rows.getBegin());
  return places;
}

LogicalResult Prefetcher::findLoads() {
  for (Operation &op : *loop.getBody())
    if (isa<LoadOp, LoadRowsOp>(op))
      loads.push_back(&op);
  for (Operation *load : loads) {
    int64_t ofRing = getRing(load).getType().getStages();
    if (stages && ofRing != stages)
      return load->emitOpError() << "expected all rings of the loop to have equally many stages, got " << stages
                                 << " and " << ofRing;
    stages = ofRing;
    llvm::SetVector<Operation *> slice;
    BackwardSliceOptions options;
    options.omitBlockArguments = true;
    options.filter = [&](Operation *op) { return op->getBlock() == loop.getBody(); };
    for (Value place : getPlaces(load)) {
      (void)getBackwardSlice(place, &slice, options);
      if (Operation *op = place.getDefiningOp(); op && op->getBlock() == loop.getBody())
        slice.insert(op);
      if (is_contained(loop.getRegionIterArgs(), place))
        return load->emitOpError() << "expected a place that is known iterations ahead";
    }
    for (Operation *op : slice) {
      for (Value operand : op->getOperands())
        if (is_contained(loop.getRegionIterArgs(), operand))
          return load->emitOpError() << "expected a place that is known iterations ahead";
      if (isa<memref::LoadOp, ReadPagesOp>(op) && !is_contained(reads, op))
        reads.push_back(op);
    }
  }
  return success();
}

Value Prefetcher::emitAfter(Value position, int64_t iterations) {
  for (int64_t i = 0; i < iterations; ++i)
    position = b.createOrFold<arith::AddIOp>(position, loop.getStep());
  return position;
}

Value Prefetcher::isInside(Value position) {
  return arith::CmpIOp::create(b, arith::CmpIPredicate::slt, position, loop.getUpperBound());
}

/// Returns `value` if it is defined outside of the loop, otherwise null.
static Value getOutside(scf::ForOp loop, Value value) { return loop.isDefinedOutsideOfLoop(value) ? value : Value(); }

/// Emits the reads for the iteration at `position`. Even if the loop has no such iteration, the indices of these reads
/// are inside of their arrays.
SmallVector<Value> Prefetcher::emitReads(Value position) {
  IRMapping mapping;
  mapping.map(loop.getInductionVar(), position);
  SmallVector<Value> numbers;
  for (Operation *read : reads)
    numbers.push_back(
        flashc::cloneSlice(b, read->getResult(0), mapping, [&](Value value) { return getOutside(loop, value); }));
  return numbers;
}

/// Starts all loads of the iteration at `position`, if the loop has one. The loads get the number `count` in their
/// rings.
void Prefetcher::emitCopies(Value position, ValueRange numbers, Value count) {
  auto exists = scf::IfOp::create(b, TypeRange(), isInside(position), /*addElseBlock=*/false);
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(exists.thenBlock());
  IRMapping mapping;
  mapping.map(loop.getInductionVar(), position);
  for (auto [read, number] : llvm::zip_equal(reads, numbers))
    mapping.map(read->getResult(0), number);
  auto get = [&](Value value) {
    return flashc::cloneSlice(b, value, mapping, [&](Value leaf) { return getOutside(loop, leaf); });
  };
  for (Operation *load : loads) {
    SmallVector<Value> places = llvm::map_to_vector(getPlaces(load), get);
    if (auto box = dyn_cast<LoadOp>(load)) {
      CopyAsyncOp::create(b, box.getMap(), places[0], places[1], places[2], box.getRing(), count,
                          /*owner=*/IntegerAttr());
      continue;
    }
    auto rows = cast<LoadRowsOp>(load);
    CopyRowsOp::create(b, rows.getSource(), places[0], places[1], places[2], rows.getSizeAttr(),
                       rows.getBegin() ? places[4] : Value(), places[3], rows.getRing(), count);
  }
}

LogicalResult Prefetcher::run() {
  if (failed(findLoads()))
    return failure();
  if (loads.empty())
    return success();
  b.setInsertionPoint(loop);
  auto index = [&](int64_t value) -> Value { return arith::ConstantIndexOp::create(b, value); };
  for (int64_t stage = 0; stage < stages; ++stage) {
    Value position = emitAfter(loop.getLowerBound(), stage);
    emitCopies(position, emitReads(position), index(stage));
  }
  SmallVector<Value> more = emitReads(emitAfter(loop.getLowerBound(), stages));
  more.insert(more.begin(), index(0));
  size_t numCarried = loop.getNumRegionIterArgs();
  IRRewriter rewriter(loop.getContext());
  rewriter.setInsertionPoint(loop);
  auto yieldMore = [&](OpBuilder &nested, Location, ArrayRef<BlockArgument> arguments) {
    OpBuilder::InsertionGuard guard(b);
    b.restoreInsertionPoint(nested.saveInsertionPoint());
    Value count = arguments.front(), next = emitAfter(loop.getInductionVar(), stages);
    emitCopies(next, ValueRange(SmallVector<Value>(arguments.drop_front())),
               arith::AddIOp::create(b, count, index(stages)));
    SmallVector<Value> yielded{arith::AddIOp::create(b, count, index(1))};
    llvm::append_range(yielded, emitReads(emitAfter(next, 1)));
    return yielded;
  };
  // The new loop takes the ops of the old loop's body, so that `loads` and `reads` stay valid.
  auto replaced = loop.replaceWithAdditionalYields(rewriter, more, /*replaceInitOperandUsesInLoop=*/false, yieldMore);
  if (failed(replaced))
    return failure();
  loop = cast<scf::ForOp>(replaced->getOperation());
  Value count = loop.getRegionIterArgs()[numCarried];
  for (Operation *load : loads) {
    b.setInsertionPoint(load);
    Value slot = WaitOp::create(b, load->getResult(0).getType(), getRing(load), count);
    load->getResult(0).replaceAllUsesWith(slot);
    load->erase();
  }
  return success();
}

namespace {
struct Prefetch : tile::impl::PrefetchBase<Prefetch> {
  void runOnOperation() override {
    bool isOk = true;
    getOperation()->walk([&](WarpProgramOp program) {
      program.walk([&](scf::ForOp loop) { isOk &= succeeded(Prefetcher(loop).run()); });
      if (!isOk)
        return;
      program.walk([&](Operation *load) {
        if (!isa<LoadOp, LoadRowsOp>(load))
          return;
        load->emitOpError() << "expected to stand directly in a loop of its tile.warp_program";
        isOk = false;
      });
    });
    if (!isOk)
      signalPassFailure();
  }
};
} // namespace
