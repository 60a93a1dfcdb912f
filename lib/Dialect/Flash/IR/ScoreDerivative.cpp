//===- ScoreDerivative.cpp - derivatives of scalar code -----------------------------------------------------------===//

#include "flashc/Dialect/Flash/IR/ScoreDerivative.h"
#include "Tangent.h"
#include "mlir/Analysis/SliceAnalysis.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/IR/Iterators.h"
#include "mlir/Transforms/GreedyPatternRewriteDriver.h"
#include "mlir/Transforms/RegionUtils.h"

using namespace mlir;
using namespace mlir::flash;

//===--------------------------------------------------------------------------------------------------------------===//
// Straight lines and branches
//===--------------------------------------------------------------------------------------------------------------===//

static bool hasTangentType(Value value) { return static_cast<bool>(getTangentType(value.getType())); }

namespace {
/// Puts tangents behind the ops of a block that depend on the seed, and of the blocks in it.
class Differentiator {
public:
  Differentiator(Operation *owner, Value seed) : owner(owner) { tangents[seed] = {1.0}; }

  LogicalResult visit(Block &block);
  /// The tangent as a value, at the builder's insertion point.
  Value emit(OpBuilder &b, Value value);

private:
  Tangent get(Value value) { return tangents.lookup(value); }
  void set(Value value, Tangent tangent) {
    if (!tangent.isZero())
      tangents[value] = tangent;
  }
  bool depends(Operation &op, llvm::function_ref<bool(Value)> isActive);
  LogicalResult visitOp(Operation &op);
  LogicalResult visitBranch(scf::IfOp branch);
  LogicalResult visitLoop(scf::ForOp loop);
  SmallVector<unsigned> findActiveState(scf::ForOp loop);
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

/// Whether what is active reaches the op, or the blocks in it.
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
  if (auto branch = dyn_cast<scf::IfOp>(op))
    return visitBranch(branch);
  if (auto loop = dyn_cast<scf::ForOp>(op))
    return visitLoop(loop);
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

/// Where the branches disagree on a tangent it becomes another result.
LogicalResult Differentiator::visitBranch(scf::IfOp branch) {
  if (branch.getNumResults() == 0)
    return success();
  scf::YieldOp yields[] = {branch.thenYield(), branch.elseYield()};
  for (scf::YieldOp yield : yields)
    if (failed(visit(*yield->getBlock())))
      return failure();
  SmallVector<Type> types(branch.getResultTypes());
  SmallVector<Tangent> ofResults;
  SmallVector<unsigned> added;
  for (unsigned k = 0, e = types.size(); k < e; ++k) {
    ofResults.push_back(get(yields[0].getOperand(k)));
    if (ofResults.back() == get(yields[1].getOperand(k)))
      continue; // its values are from before the branch
    added.push_back(k);
    types.push_back(getTangentType(types[k]));
    for (scf::YieldOp yield : yields) {
      OpBuilder b(yield);
      yield.getResultsMutable().append(emit(b, yield.getOperand(k)));
    }
  }
  OpBuilder b(branch);
  auto wide = scf::IfOp::create(b, branch.getLoc(), types, branch.getCondition());
  wide.getThenRegion().takeBody(branch.getThenRegion());
  wide.getElseRegion().takeBody(branch.getElseRegion());
  ResultRange results = wide.getResults().take_front(ofResults.size());
  for (auto [k, result] : llvm::zip_equal(added, wide.getResults().drop_front(ofResults.size())))
    ofResults[k] = {1.0, result};
  for (auto [result, tangent] : llvm::zip_equal(results, ofResults))
    set(result, tangent);
  branch->replaceAllUsesWith(results);
  branch->erase();
  return success();
}

/// Which carried values of a loop may have a tangent: those into which something active may come in some iteration.
SmallVector<unsigned> Differentiator::findActiveState(scf::ForOp loop) {
  llvm::SetVector<unsigned> state;
  llvm::DenseSet<Value> active;
  auto isActive = [&](Value value) { return active.contains(value) || !get(value).isZero(); };
  for (size_t before = ~size_t(0); before != state.size();) {
    before = state.size();
    for (Operation &op : loop.getBody()->without_terminator())
      if (depends(op, isActive))
        for (Value result : llvm::make_filter_range(op.getResults(), hasTangentType))
          active.insert(result);
    for (auto [k, init, next] : llvm::enumerate(loop.getInitArgs(), loop.getYieldedValues()))
      if ((isActive(init) || isActive(next)) && state.insert(k))
        active.insert(loop.getRegionIterArg(k));
  }
  return state.takeVector();
}

/// Tangents of carried values are carried, too.
LogicalResult Differentiator::visitLoop(scf::ForOp loop) {
  SmallVector<unsigned> state = findActiveState(loop);
  IRRewriter rewriter(loop);
  auto inits = llvm::map_to_vector(state, [&](unsigned k) { return emit(rewriter, loop.getInitArgs()[k]); });
  LogicalResult visited = success();
  auto yieldTangents = [&](OpBuilder &b, Location, ArrayRef<BlockArgument> added) {
    for (auto [k, argument] : llvm::zip_equal(state, added))
      set(loop.getRegionIterArg(k), {1.0, argument});
    visited = visit(*loop.getBody());
    auto next = llvm::map_to_vector(state, [&](unsigned k) { return emit(b, loop.getYieldedValues()[k]); });
    for (unsigned k : state) // the arguments will not be, and others may come to lie where they were
      tangents.erase(loop.getRegionIterArg(k));
    return next;
  };
  auto wide = loop.replaceWithAdditionalYields(rewriter, inits, /*replaceInitOperandUsesInLoop=*/false, yieldTangents);
  if (failed(wide) || failed(visited))
    return failure();
  ResultRange results = (*wide)->getResults();
  for (auto [k, result] : llvm::zip_equal(state, results.take_back(state.size())))
    set(results[k], {1.0, result});
  return success();
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
  region.walk<WalkOrder::PostOrder, ReverseIterator>([](Operation *op) {
    if (isOpTriviallyDead(op))
      op->erase();
  });
}

/// Of branches and loops, whose values may be used no more where their tangents are.
static void dropUnusedResults(Region &region) {
  SmallVector<Operation *> ops;
  region.walk([&](Operation *op) {
    if (isa<scf::IfOp, scf::ForOp>(op))
      ops.push_back(op);
  });
  MLIRContext *context = region.getContext();
  RewritePatternSet patterns(context);
  scf::IfOp::getCanonicalizationPatterns(patterns, context);
  scf::ForOp::getCanonicalizationPatterns(patterns, context);
  GreedyRewriteConfig config;
  config.setScope(&region).enableFolding(false);
  (void)applyOpPatternsGreedily(ops, std::move(patterns), config);
}

LogicalResult mlir::flash::differentiateScore(Region &score, Region &derivative) {
  IRMapping mapping;
  score.cloneInto(&derivative, mapping);
  eraseDeadOps(derivative);
  Block &block = derivative.front();
  FailureOr<Value> tangent = differentiateIn(block, block.getArgument(0), score.getParentOp());
  if (failed(tangent)) {
    Region().takeBody(derivative);
    return failure();
  }
  block.getTerminator()->setOperand(0, *tangent);
  eraseDeadOps(derivative);
  dropUnusedResults(derivative);
  return success();
}
