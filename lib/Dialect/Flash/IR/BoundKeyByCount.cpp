//===- BoundKeyByCount.cpp - comparisons of counts up to the key become bounds on the key -------------------------===//

#include "flashc/Dialect/Flash/IR/SortedData.h"
#include "mlir/Dialect/Utils/StaticValueUtils.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"
#include "mlir/IR/PatternMatch.h"

using namespace mlir;
using namespace mlir::flash;

namespace {
/// If `op` is in a mask region, returns the region. Null for other ops.
Region *getMaskRegion(Operation *op) {
  while (op && !isa_and_nonnull<ScoresOpInterface>(op->getParentOp()))
    op = op->getParentOp();
  if (!op)
    return nullptr;
  Region &mask = op->getParentOp()->getRegion(1);
  return op->getParentRegion() == &mask ? &mask : nullptr;
}

} // namespace

bool mlir::flash::dependsOn(Value value, BlockArgument argument, Region &region) {
  SmallVector<Value> worklist{value};
  llvm::SmallDenseSet<Operation *> seen;
  while (!worklist.empty()) {
    Value next = worklist.pop_back_val();
    if (next == argument)
      return true;
    Operation *op = next.getDefiningOp();
    if (!op || !region.isAncestor(op->getParentRegion()) || !seen.insert(op).second)
      continue;
    if (op->getNumRegions() > 0)
      return true;
    llvm::append_range(worklist, op->getOperands());
  }
  return false;
}

bool mlir::flash::isComputedFrom(Value value, Region &region, function_ref<bool(Value)> isLeaf,
                                 DenseMap<Value, bool> &known) {
  if (auto found = known.find(value); found != known.end())
    return found->second;
  Operation *op = value.getDefiningOp();
  auto compute = [&] {
    if (!op || !region.isAncestor(op->getParentRegion()))
      return isLeaf(value);
    bool onlyReads = isMemoryEffectFree(op) || hasSingleEffect<MemoryEffects::Read>(op);
    return onlyReads && op->getNumRegions() == 0 && llvm::all_of(op->getOperands(), [&](Value operand) {
             return isComputedFrom(operand, region, isLeaf, known);
           });
  };
  bool result = compute();
  return known[value] = result;
}

namespace {
/// The comparison `count + shift <predicate> limit`. `count` counts the elements up to the key's position, and `limit`
/// does not depend on the key's position.
struct CountComparison {
  CountLeOp count;
  int64_t shift = 0;
  Value limit;
  arith::CmpIPredicate predicate;
};

std::optional<CountComparison> matchCount(Value side, Value limit, arith::CmpIPredicate predicate, Region &mask) {
  BlockArgument key = mask.getArguments().back();
  int64_t shift = 0;
  Operation *op = side.getDefiningOp();
  if (isa_and_nonnull<arith::AddIOp, arith::SubIOp>(op)) {
    std::optional<int64_t> constant = getConstantIntValue(op->getOperand(1));
    if (!constant)
      return std::nullopt;
    shift = isa<arith::AddIOp>(op) ? *constant : -*constant;
    op = op->getOperand(0).getDefiningOp();
  }
  auto count = dyn_cast_or_null<CountLeOp>(op);
  auto isInvariant = [&](Value value) { return !dependsOn(value, key, mask); };
  if (!count || count.getValue() != key || !isInvariant(limit) || !llvm::all_of(count.getIndices(), isInvariant))
    return std::nullopt;
  return CountComparison{count, shift, limit, predicate};
}
} // namespace

arith::CmpIPredicate mlir::flash::swapSides(arith::CmpIPredicate predicate) {
  using P = arith::CmpIPredicate;
  static constexpr P kSwapped[] = {P::eq, P::ne, P::sgt, P::sge, P::slt, P::sle};
  return predicate < P::ult ? kSwapped[unsigned(predicate)] : predicate;
}

Value mlir::flash::emitSigned(OpBuilder &b, Location loc, arith::CmpIPredicate predicate,
                              function_ref<Value(bool isStrict)> atMost, function_ref<Value(bool isStrict)> atLeast) {
  using P = arith::CmpIPredicate;
  if (predicate == P::sle || predicate == P::slt)
    return atMost(predicate == P::slt);
  if (predicate == P::sge || predicate == P::sgt)
    return atLeast(predicate == P::sgt);
  if (predicate == P::eq) {
    Value behind = atLeast(false), before = atMost(false);
    return arith::AndIOp::create(b, loc, behind, before);
  }
  if (predicate != P::ne)
    return Value();
  Value before = atMost(true), behind = atLeast(true);
  return arith::OrIOp::create(b, loc, before, behind);
}

/// Emits bounds on the key's position that are equivalent to the comparison. Null if its predicate is unsigned.
static Value emitBounds(OpBuilder &builder, Location loc, const CountComparison &compare) {
  ImplicitLocOpBuilder b(loc, builder);
  CountLeOp count = compare.count;
  Value key = count.getValue();
  // Compares the key with the element that has index `limit - shift + offset`.
  auto bound = [&](arith::CmpIPredicate predicate, int64_t offset) -> Value {
    if (count.getStrict())
      predicate = predicate == arith::CmpIPredicate::slt ? arith::CmpIPredicate::sle : arith::CmpIPredicate::sgt;
    Value position = compare.limit;
    if (int64_t sum = offset - compare.shift; sum != 0)
      position = arith::AddIOp::create(b, position, arith::ConstantIndexOp::create(b, sum));
    Value element = NthOp::create(b, b.getIndexType(), position, count.getSorted(), count.getIndices());
    return arith::CmpIOp::create(b, predicate, key, element);
  };
  // Let nth(c) be the element number c. Then `count <= c` is equivalent to `key < nth(c)`. So `count >= c`, the
  // opposite of `count <= c - 1`, is equivalent to `key >= nth(c - 1)`.
  return emitSigned(
      b, loc, compare.predicate, [&](bool isStrict) { return bound(arith::CmpIPredicate::slt, isStrict ? -1 : 0); },
      [&](bool isStrict) { return bound(arith::CmpIPredicate::sge, isStrict ? 0 : -1); });
}

Value mlir::flash::boundKeyByCount(OpBuilder &b, arith::CmpIOp op, Region &mask) {
  if (!op.getLhs().getType().isIndex())
    return Value();
  auto match = matchCount(op.getLhs(), op.getRhs(), op.getPredicate(), mask);
  if (!match)
    match = matchCount(op.getRhs(), op.getLhs(), swapSides(op.getPredicate()), mask);
  return match ? emitBounds(b, op.getLoc(), *match) : Value();
}

namespace {
struct BoundKeyByCount : OpRewritePattern<arith::CmpIOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(arith::CmpIOp op, PatternRewriter &rewriter) const override {
    Region *mask = getMaskRegion(op);
    Value keep = mask ? boundKeyByCount(rewriter, op, *mask) : Value();
    if (!keep)
      return rewriter.notifyMatchFailure(op, "no signed comparison of a count of the key's position in a mask");
    rewriter.replaceOp(op, keep);
    return success();
  }
};
} // namespace

void CountLeOp::getCanonicalizationPatterns(RewritePatternSet &patterns, MLIRContext *context) {
  patterns.add<BoundKeyByCount>(context);
}
