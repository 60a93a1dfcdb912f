//===- ExpandAffine.cpp - affine ops as arith ---------------------------------------------------------------------===//

#include "ExpandAffine.h"
#include "mlir/Dialect/Affine/IR/AffineOps.h"
#include "mlir/Dialect/Affine/Utils.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Utils/StaticValueUtils.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;

/// Emits an expression as arith. Quotients by powers of two become shifts, which round down. Other quotients become
/// divisions. A division rounds towards zero, and its correction makes eight operations of a quotient, but most of
/// these are before the loop over keys.
static Value expandExpr(OpBuilder &b, Location loc, AffineExpr expr, ValueRange dims, ValueRange symbols) {
  auto binary = dyn_cast<AffineBinaryOpExpr>(expr);
  if (!binary)
    return affine::expandAffineExpr(b, loc, expr, dims, symbols);
  Value lhs = expandExpr(b, loc, binary.getLHS(), dims, symbols);
  Value rhs = expandExpr(b, loc, binary.getRHS(), dims, symbols);
  AffineExprKind kind = expr.getKind();
  std::optional<int64_t> divisor = getConstantIntValue(rhs);
  bool isQuotient = kind == AffineExprKind::FloorDiv || kind == AffineExprKind::CeilDiv;
  if (!isQuotient || !divisor || *divisor < 1 || !llvm::isPowerOf2_64(*divisor))
    return affine::expandAffineExpr(
        b, loc,
        getAffineBinaryOpExpr(kind, b.getAffineDimExpr(0), divisor ? binary.getRHS() : b.getAffineSymbolExpr(0)), lhs,
        divisor ? ValueRange() : ValueRange(rhs));
  if (kind == AffineExprKind::CeilDiv) {
    Value rest = arith::ConstantIndexOp::create(b, loc, *divisor - 1);
    lhs = b.createOrFold<arith::AddIOp>(loc, lhs, rest);
  }
  Value bits = arith::ConstantIndexOp::create(b, loc, llvm::Log2_64(*divisor));
  return b.createOrFold<arith::ShRSIOp>(loc, lhs, bits);
}

Value flashc::expandAffine(OpBuilder &b, Operation *op, ValueRange operands) {
  AffineMap map;
  bool isMin = isa<affine::AffineMinOp>(op);
  if (auto apply = dyn_cast<affine::AffineApplyOp>(op))
    map = apply.getAffineMap();
  else if (isMin)
    map = cast<affine::AffineMinOp>(op).getAffineMap();
  else if (auto max = dyn_cast<affine::AffineMaxOp>(op))
    map = max.getAffineMap();
  else
    return {};
  SmallVector<Value> results = llvm::map_to_vector(map.getResults(), [&](AffineExpr expr) {
    return expandExpr(b, op->getLoc(), expr, operands.take_front(map.getNumDims()),
                      operands.drop_front(map.getNumDims()));
  });
  Value value = results[0];
  for (Value other : ArrayRef(results).drop_front())
    value = isMin ? b.createOrFold<arith::MinSIOp>(op->getLoc(), value, other)
                  : b.createOrFold<arith::MaxSIOp>(op->getLoc(), value, other);
  return value;
}
