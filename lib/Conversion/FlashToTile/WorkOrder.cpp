//===- WorkOrder.cpp - in which order a persistent kernel works ---------------------------------------------------===//

#include "WorkOrder.h"
#include "mlir/Dialect/Affine/IR/AffineOps.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/Dialect/Utils/StaticValueUtils.h"
#include "mlir/Transforms/RegionUtils.h"
#include "llvm/ADT/SetVector.h"

using namespace mlir;
using namespace flashc;

namespace {
/// What a bound of a loop over keys hangs on, in the parallel loop.
class BoundInfo {
public:
  BoundInfo(const AttentionPlan &plan, OpFoldResult bound) : plan(plan) {
    if (auto value = dyn_cast<Value>(bound))
      visit(value);
  }

  bool dependsOn(Value position) const { return isa<BlockArgument>(position) && seen.contains(position); }
  /// Reads an array.
  bool reads = false;
  /// Rounds the query's position to something longer than a tile, or asks where it is.
  bool jumps = false;

private:
  /// Elements, or a search in them: whatever is done with an array but asking for its extents.
  static bool hasArray(Operation *op) {
    return !isa<tensor::DimOp, memref::DimOp>(op) && llvm::any_of(op->getOperandTypes(), llvm::IsaPred<ShapedType>);
  }

  /// Whether `value` hangs on the query's position.
  bool visit(Value value) {
    if (auto [known, isNew] = seen.try_emplace(value, value == plan.query.position); !isNew)
      return known->second;
    Operation *op = value.getDefiningOp();
    if (!op || isa<tensor::DimOp, memref::DimOp>(op))
      return seen[value];
    reads |= op->walk([](Operation *nested) {
                   return hasArray(nested) ? WalkResult::interrupt() : WalkResult::advance();
                 }).wasInterrupted();
    llvm::SetVector<Value> inputs(op->operand_begin(), op->operand_end());
    getUsedValuesDefinedAbove(op->getRegions(), inputs);
    bool depends = false;
    for (Value input : inputs)
      depends |= visit(input);
    jumps |= depends && makesJumps(op);
    return seen[value] = depends;
  }

  bool isLong(std::optional<int64_t> divisor) const {
    return !divisor || *divisor > std::max(plan.qTile, plan.kvTile);
  }

  /// Whether the result of `op` jumps where its operands do not: a choice, or a division by more than a tile. Rounding to
  /// tiles makes steps that even out.
  bool makesJumps(Operation *op) const {
    if (isa<arith::CmpIOp>(op) || op->getNumRegions() > 0)
      return true;
    if (isa<arith::DivSIOp, arith::DivUIOp, arith::FloorDivSIOp, arith::CeilDivSIOp, arith::CeilDivUIOp, arith::RemSIOp,
            arith::RemUIOp>(op))
      return isLong(getConstantIntValue(op->getOperand(1)));
    AffineMap map;
    if (auto apply = dyn_cast<affine::AffineApplyOp>(op))
      map = apply.getAffineMap();
    else if (auto min = dyn_cast<affine::AffineMinOp>(op))
      map = min.getAffineMap();
    else if (auto max = dyn_cast<affine::AffineMaxOp>(op))
      map = max.getAffineMap();
    bool result = false;
    if (map)
      map.walkExprs([&](AffineExpr expr) {
        auto binary = dyn_cast<AffineBinaryOpExpr>(expr);
        bool isDivision = binary && (binary.getKind() == AffineExprKind::FloorDiv ||
                                     binary.getKind() == AffineExprKind::CeilDiv ||
                                     binary.getKind() == AffineExprKind::Mod);
        auto divisor = isDivision ? dyn_cast<AffineConstantExpr>(binary.getRHS()) : AffineConstantExpr();
        result |= isDivision && isLong(divisor ? std::optional(divisor.getValue()) : std::nullopt);
      });
    return result;
  }

  const AttentionPlan &plan;
  llvm::DenseMap<Value, bool> seen;
};
} // namespace

std::string flashc::whyUnsorted(const AttentionPlan &plan) {
  bool beginMoves = false, beginJumps = false, endJumps = false;
  for (auto [index, segment] : llvm::enumerate(plan.segments)) {
    BoundInfo begin(plan, segment.begin), end(plan, segment.end);
    for (const BoundInfo *bound : {&begin, &end}) {
      if (bound->reads)
        return "the bounds of the keys read an array";
      if (bound->dependsOn(plan.batch.position) || bound->dependsOn(plan.head.position))
        return "the bounds of the keys differ between heads or batches";
    }
    // Where a loop begins as the one before it ends, only that one's end counts; the last one's, that is.
    bool isFirst = index == 0 || !isEqualConstantIntOrValue(segment.begin, plan.segments[index - 1].end);
    bool isLast = index + 1 == plan.segments.size() ||
                  !isEqualConstantIntOrValue(segment.end, plan.segments[index + 1].begin);
    beginMoves |= isFirst && begin.dependsOn(plan.query.position);
    beginJumps |= isFirst && begin.jumps;
    endJumps |= isLast && end.jumps;
  }
  if (beginJumps || (endJumps && beginMoves))
    return "the bounds of the keys jump between queries";
  return "";
}
