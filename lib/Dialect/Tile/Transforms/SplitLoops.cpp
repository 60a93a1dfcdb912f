//===- SplitLoops.cpp - splits loops so that tile.outside is known ------------------------------------------------===//

#include "flashc/Dialect/Tile/Transforms/Passes.h"
#include "flashc/Dialect/Tile/Transforms/Transforms.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Utils/StaticValueUtils.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/IR/Remarks.h"

namespace mlir::tile {
#define GEN_PASS_DEF_SPLITLOOPS
#include "flashc/Dialect/Tile/Transforms/Passes.h.inc"
} // namespace mlir::tile

using namespace mlir;
using namespace mlir::tile;

static LogicalResult miss(OutsideOp outside, StringRef reason) {
  remark::missed(outside.getLoc(), remark::RemarkOpts::name("split-loops").category("tile")) << reason;
  return failure();
}

/// Returns the tile.outside ops in `loop` whose index is the loop's index.
static SmallVector<OutsideOp> getOutsideOps(scf::ForOp loop) {
  SmallVector<OutsideOp> found;
  loop.walk([&](OutsideOp outside) {
    if (outside.getIndex() == loop.getInductionVar())
      found.push_back(outside);
  });
  return found;
}

/// Whether `a <= b` is known to hold.
static bool isKnownLE(Value a, Value b) {
  std::optional<int64_t> x = getConstantIntValue(a), y = getConstantIntValue(b);
  return a == b || (x && y && *x <= *y);
}

/// Emits max(low, min(value, high)), without parts that are known to have no effect. The order of max and min does not
/// matter: if high < low, every loop that the result bounds is empty.
static Value clamp(OpBuilder &b, Value value, Value low, Value high) {
  Location loc = value.getLoc();
  if (isKnownLE(value, low) || low == high)
    return low;
  if (isKnownLE(high, value))
    return high;
  Value least = arith::MinSIOp::create(b, loc, value, high);
  return arith::MaxSIOp::create(b, loc, low, least);
}

/// Returns the upper bound of `loop`. If the bound is the maximum of a value and of a constant that is at most the
/// lower bound, returns the value instead, since the maximum adds no iterations. (`tile-pipeline` needed the maximum
/// for the tile that its prologue computes.)
static Value getEnd(scf::ForOp loop) {
  auto max = loop.getUpperBound().getDefiningOp<arith::MaxSIOp>();
  if (max && isKnownLE(max.getRhs(), loop.getLowerBound()))
    return max.getLhs();
  if (max && isKnownLE(max.getLhs(), loop.getLowerBound()))
    return max.getRhs();
  return loop.getUpperBound();
}

/// Moves the ops of the region that `condition` selects before `branch`, and erases `branch`.
static void inlineBranch(scf::IfOp branch, bool condition) {
  Region &region = condition ? branch.getThenRegion() : branch.getElseRegion();
  if (!region.empty()) {
    Block &block = region.front();
    branch.replaceAllUsesWith(cast<scf::YieldOp>(block.getTerminator()).getResults());
    block.getTerminator()->erase();
    branch->getBlock()->getOperations().splice(Block::iterator(branch), block.getOperations());
  }
  branch.erase();
}

/// Replaces each tile.outside in `loop` that has the bounds of `outside` by the constant `isOutside`.
static void replaceOutside(scf::ForOp loop, OutsideOp outside, bool isOutside) {
  for (OutsideOp other : getOutsideOps(loop)) {
    if (other.getLower() != outside.getLower() || other.getUpper() != outside.getUpper())
      continue;
    for (Operation *user : llvm::make_early_inc_range(other->getUsers()))
      if (auto branch = dyn_cast<scf::IfOp>(user))
        inlineBranch(branch, isOutside);
    OpBuilder b(other);
    if (!other->use_empty())
      other.replaceAllUsesWith(arith::ConstantOp::create(b, other.getLoc(), b.getBoolAttr(isOutside)).getResult());
    other.erase();
  }
}

FailureOr<SmallVector<scf::ForOp>> tile::splitLoop(scf::ForOp loop, OutsideOp outside) {
  if (getConstantIntValue(loop.getStep()) != 1)
    return miss(outside, "the loop's step is not 1");
  if (!loop.isDefinedOutsideOfLoop(outside.getLower()) || !loop.isDefinedOutsideOfLoop(outside.getUpper()))
    return miss(outside, "the bounds change inside the loop");
  OpBuilder b(loop);
  Value begin = loop.getLowerBound(), end = getEnd(loop);
  Value lower = clamp(b, outside.getLower(), begin, end);
  // If the interval is empty, every index is outside.
  bool isEmpty = isKnownLE(outside.getUpper(), outside.getLower());
  Value upper = isEmpty ? lower : clamp(b, outside.getUpper(), lower, end);

  struct Part {
    Value begin, end;
    bool isOutside;
  };
  SmallVector<scf::ForOp> parts;
  SmallVector<Value> state(loop.getInitArgs());
  for (const Part &part : {Part{begin, lower, true}, Part{lower, upper, false}, Part{upper, end, true}}) {
    if (isKnownLE(part.end, part.begin))
      continue;
    auto copy = cast<scf::ForOp>(b.clone(*loop));
    copy.setLowerBound(part.begin);
    copy.setUpperBound(part.end);
    copy.getInitArgsMutable().assign(state);
    state.assign(copy.result_begin(), copy.result_end());
    replaceOutside(copy, outside, part.isOutside);
    parts.push_back(copy);
  }
  loop->replaceAllUsesWith(state);
  loop.erase();
  return parts;
}

namespace {
struct SplitLoops : tile::impl::SplitLoopsBase<SplitLoops> {
  using SplitLoopsBase::SplitLoopsBase;

  void runOnOperation() override {
    // Inner loops are split first, since the worklist is processed from its end.
    SmallVector<scf::ForOp> worklist;
    getOperation()->walk([&](WarpSpecializeOp op) {
      op.getConsumer().walk<WalkOrder::PreOrder>([&](scf::ForOp loop) { worklist.push_back(loop); });
    });
    while (!worklist.empty())
      split(worklist.pop_back_val(), worklist);
  }

  /// Splits `loop` at the first of its tile.outside ops at which it can be split. Adds the parts to `worklist`, since a
  /// part may have further tile.outside ops.
  void split(scf::ForOp loop, SmallVectorImpl<scf::ForOp> &worklist) {
    for (OutsideOp outside : getOutsideOps(loop)) {
      FailureOr<SmallVector<scf::ForOp>> parts = splitLoop(loop, outside);
      if (failed(parts))
        continue;
      worklist.append(*parts);
      ++numSplit;
      return;
    }
  }
};
} // namespace
