//===- ScoreDerivative.cpp - derivatives of scalar code -----------------------------------------------------------===//

#include "flashc/Dialect/Flash/IR/ScoreDerivative.h"
#include "Tangent.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/Transforms/GreedyPatternRewriteDriver.h"
#include "mlir/Transforms/RegionUtils.h"

using namespace mlir;
using namespace mlir::flash;

//===--------------------------------------------------------------------------------------------------------------===//
// Straight-line code
//===--------------------------------------------------------------------------------------------------------------===//

static bool hasTangentType(Value value) { return static_cast<bool>(getTangentType(value.getType())); }

namespace {
/// Visits a block and its nested blocks. After each op that depends on the seed, adds the code of the op's tangents.
class Differentiator {
public:
  Differentiator(Operation *owner, Value seed) : owner(owner) { tangents[seed] = {1.0}; }

  LogicalResult visit(Block &block);
  /// Emits the tangent of `value` as one value, at the insertion point of `b`.
  Value emit(OpBuilder &b, Value value);

private:
  Tangent get(Value value) { return tangents.lookup(value); }
  void set(Value value, Tangent tangent) {
    if (!tangent.isZero())
      tangents[value] = tangent;
  }
  bool depends(Operation &op, llvm::function_ref<bool(Value)> isActive);
  LogicalResult visitOp(Operation &op);
  LogicalResult visitBranch(Operation *branch);
  LogicalResult visitLoop(LoopLikeOpInterface loop);
  SmallVector<SmallVector<unsigned>> findActive(LoopLikeOpInterface loop, ArrayRef<Block *> blocks);
  /// Emits the tangents of those elements of `values` whose positions are listed in `which`. `append` emits them before
  /// `terminator`, and makes them additional operands of `terminator`.
  SmallVector<Value> emit(OpBuilder &b, ValueRange values, ArrayRef<unsigned> which);
  void append(Operation *terminator, ValueRange values, ArrayRef<unsigned> which);
  LogicalResult refuse(Operation &op);

  Operation *owner;
  DenseMap<Value, Tangent> tangents;
};
} // namespace

Value Differentiator::emit(OpBuilder &b, Value value) {
  return TangentCode(value.getLoc(), b, getTangentType(value.getType())).emit(get(value));
}

LogicalResult Differentiator::refuse(Operation &op) {
  InFlightDiagnostic diag = owner->emitOpError() << "expected a score that has a derivative";
  diag.attachNote(op.getLoc()) << "'" << op.getName() << "' has none";
  return failure();
}

/// Whether `op`, or an op in its regions, uses a value for which `isActive` holds.
bool Differentiator::depends(Operation &op, llvm::function_ref<bool(Value)> isActive) {
  llvm::SetVector<Value> inputs(op.operand_begin(), op.operand_end());
  getUsedValuesDefinedAbove(op.getRegions(), inputs);
  return llvm::any_of(inputs, isActive);
}

LogicalResult Differentiator::visit(Block &block) {
  for (Operation &op : llvm::make_early_inc_range(block.without_terminator()))
    if (depends(op, [&](Value value) { return !get(value).isZero(); }) && failed(visitOp(op)))
      return failure();
  return success();
}

LogicalResult Differentiator::visitOp(Operation &op) {
  if (isa<scf::IfOp, scf::IndexSwitchOp, scf::ExecuteRegionOp>(op))
    return visitBranch(&op);
  if (isa<scf::ForOp, scf::WhileOp>(op))
    return visitLoop(cast<LoopLikeOpInterface>(op));
  OpBuilder b(op.getContext());
  b.setInsertionPointAfter(&op);
  FailureOr<SmallVector<Tangent>> found = applyDerivativeRule(b, &op, [&](Value value) { return get(value); });
  if (failed(found))
    return refuse(op);
  for (auto [result, tangent] : llvm::zip_equal(op.getResults(), *found))
    set(result, tangent);
  return success();
}

//===--------------------------------------------------------------------------------------------------------------===//
// Control flow
//===--------------------------------------------------------------------------------------------------------------===//

/// Recreates `op` with additional operands and results. The regions of `op` move into the new op.
static Operation *widenOp(Operation *op, ValueRange operands, TypeRange types) {
  SmallVector<Value> allOperands(op->getOperands());
  llvm::append_range(allOperands, operands);
  SmallVector<Type> allTypes(op->getResultTypes());
  llvm::append_range(allTypes, types);
  Operation *wide =
      Operation::create(op->getLoc(), op->getName(), allTypes, allOperands, op->getDiscardableAttrDictionary(),
                        op->getPropertiesStorage(), BlockRange(), op->getNumRegions());
  OpBuilder(op).insert(wide);
  for (auto [from, to] : llvm::zip_equal(op->getRegions(), wide->getRegions()))
    to.takeBody(from);
  op->replaceAllUsesWith(wide->getResults().take_front(op->getNumResults()));
  op->erase();
  return wide;
}

static SmallVector<Type> getTangentTypes(ValueRange values, ArrayRef<unsigned> which) {
  return llvm::map_to_vector(which, [&](unsigned k) { return getTangentType(values[k].getType()); });
}

SmallVector<Value> Differentiator::emit(OpBuilder &b, ValueRange values, ArrayRef<unsigned> which) {
  return llvm::map_to_vector(which, [&](unsigned k) { return emit(b, values[k]); });
}

void Differentiator::append(Operation *terminator, ValueRange values, ArrayRef<unsigned> which) {
  OpBuilder b(terminator);
  terminator->insertOperands(terminator->getNumOperands(), emit(b, values, which));
}

/// Visits an op such as scf.if, each region of which yields the op's results. If the regions yield different tangents
/// of a result, the op gets another result for the tangent.
LogicalResult Differentiator::visitBranch(Operation *branch) {
  SmallVector<Operation *> yields;
  for (Region &region : branch->getRegions()) {
    if (region.empty()) // the else of an scf.if without results
      continue;
    if (!region.hasOneBlock())
      return refuse(*branch);
    if (failed(visit(region.front())))
      return failure();
    yields.push_back(region.front().getTerminator());
  }
  SmallVector<Tangent> tangents;
  SmallVector<unsigned> added;
  for (unsigned k = 0, e = branch->getNumResults(); k < e; ++k) {
    tangents.push_back(get(yields[0]->getOperand(k)));
    bool isCommon = llvm::all_of(yields, [&](Operation *yield) { return get(yield->getOperand(k)) == tangents[k]; });
    // A tangent that several regions share is computed before the op, so it can be used after the op, too. The tangent
    // of an op's only region may be computed inside of the region.
    if (!isCommon || (yields.size() == 1 && !tangents[k].isZero()))
      added.push_back(k);
  }
  for (Operation *yield : yields)
    append(yield, yield->getOperands(), added);
  Operation *wide = widenOp(branch, {}, getTangentTypes(branch->getResults(), added));
  for (auto [k, result] : llvm::zip_equal(added, wide->getResults().take_back(added.size())))
    tangents[k] = {1.0, result};
  for (auto [k, tangent] : llvm::enumerate(tangents))
    set(wide->getResult(k), tangent);
  return success();
}

/// Returns the arguments of `block` that are carried values, where `block` is a block of scf.for or scf.while. Each
/// block passes such values to the next block, and the last block passes them to the first. The loop's results are the
/// values that the first block passes.
static ValueRange getCarried(Block *block) {
  return ValueRange(block->getArguments()).drop_front(isa<scf::ForOp>(block->getParentOp()) ? 1 : 0);
}

static ValueRange getPassed(Block *block) {
  Operation *terminator = block->getTerminator();
  return ValueRange(terminator->getOperands()).drop_front(isa<scf::ConditionOp>(terminator) ? 1 : 0);
}

/// Returns, for each block, the positions of those carried values that may have a nonzero tangent in some iteration.
SmallVector<SmallVector<unsigned>> Differentiator::findActive(LoopLikeOpInterface loop, ArrayRef<Block *> blocks) {
  llvm::SetVector<Value> active;
  auto isActive = [&](Value value) { return active.contains(value) || !get(value).isZero(); };
  auto pass = [&](ValueRange values, Block *block) {
    for (auto [value, argument] : llvm::zip_equal(values, getCarried(block)))
      if (isActive(value))
        active.insert(argument);
  };
  pass(loop.getInits(), blocks.front());
  for (size_t before = ~size_t(0); before != active.size();) {
    before = active.size();
    for (auto [n, block] : llvm::enumerate(blocks)) {
      for (Operation &op : block->without_terminator())
        if (depends(op, isActive))
          active.insert_range(llvm::make_filter_range(op.getResults(), hasTangentType));
      pass(getPassed(block), blocks[(n + 1) % blocks.size()]);
    }
  }
  return llvm::map_to_vector(blocks, [&](Block *block) {
    SmallVector<unsigned> which;
    for (auto [k, argument] : llvm::enumerate(getCarried(block)))
      if (active.contains(argument))
        which.push_back(k);
    return which;
  });
}

/// Visits a loop. The tangents of its carried values become additional carried values.
LogicalResult Differentiator::visitLoop(LoopLikeOpInterface loop) {
  auto blocks = llvm::map_to_vector(loop->getRegions(), [](Region &region) { return &region.front(); });
  SmallVector<SmallVector<unsigned>> active = findActive(loop, blocks);
  OpBuilder b(loop);
  SmallVector<Value> inits = emit(b, loop.getInits(), active.front());
  bool isVisited = true;
  for (auto [block, which] : llvm::zip_equal(blocks, active)) {
    for (unsigned k : which) {
      Value carried = getCarried(block)[k];
      set(carried, {1.0, block->addArgument(getTangentType(carried.getType()), carried.getLoc())});
    }
    isVisited &= succeeded(visit(*block));
  }
  for (auto [n, block] : llvm::enumerate(blocks))
    append(block->getTerminator(), getPassed(block), active[(n + 1) % blocks.size()]);
  Operation *wide = widenOp(loop, inits, getTangentTypes(loop->getResults(), active.back()));
  for (auto [k, result] : llvm::zip_equal(active.back(), wide->getResults().take_back(active.back().size())))
    set(wide->getResult(k), {1.0, result});
  return success(isVisited);
}

//===--------------------------------------------------------------------------------------------------------------===//
// Regions
//===--------------------------------------------------------------------------------------------------------------===//

static FailureOr<Value> differentiateIn(Block &block, Value seed, Operation *owner) {
  Differentiator differentiator(owner, seed);
  if (failed(differentiator.visit(block)))
    return failure();
  OpBuilder b(block.getTerminator());
  return differentiator.emit(b, block.getTerminator()->getOperand(0));
}

FailureOr<Value> mlir::flash::differentiate(Block &block, Value seed) {
  return differentiateIn(block, seed, block.getParentOp());
}

static void eraseDeadOps(Region &region) {
  IRRewriter rewriter(region.getContext());
  (void)runRegionDCE(rewriter, region);
}

/// Drops results of scf.if that are not used. There are such results because the derivative may use a result's tangent
/// without the result itself.
static void dropUnusedResults(Region &region) {
  SmallVector<Operation *> branches;
  region.walk([&](scf::IfOp branch) { branches.push_back(branch); });
  RewritePatternSet patterns(region.getContext());
  scf::IfOp::getCanonicalizationPatterns(patterns, region.getContext());
  GreedyRewriteConfig config;
  config.setScope(&region).enableFolding(false); // folding takes constants out of the region
  (void)applyOpPatternsGreedily(branches, std::move(patterns), config);
}

LogicalResult mlir::flash::differentiateScore(Region &score, Region &derivative) {
  return differentiateScore(score, score.getArgument(0), derivative);
}

LogicalResult mlir::flash::differentiateScore(Region &score, Value seed, Region &derivative) {
  IRMapping mapping;
  score.cloneInto(&derivative, mapping);
  if (isa<BlockArgument>(seed))
    eraseDeadOps(derivative); // dead ops may have no derivative
  Block &block = derivative.front();
  FailureOr<Value> tangent = differentiateIn(block, mapping.lookup(seed), score.getParentOp());
  if (failed(tangent)) {
    Region().takeBody(derivative);
    return failure();
  }
  block.getTerminator()->setOperand(0, *tangent);
  eraseDeadOps(derivative);
  dropUnusedResults(derivative);
  return success();
}
