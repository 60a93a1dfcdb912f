//===- FlashIndex.cpp - indices that count from the end -----------------------------------------------------------===//

#include "flashc/Dialect/Flash/IR/FlashIndex.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/Dialect/Utils/StaticValueUtils.h"
#include "mlir/IR/OpImplementation.h"
#include "mlir/IR/PatternMatch.h"

using namespace mlir;
using namespace mlir::flash;

#define GET_OP_CLASSES
#include "flashc/Dialect/Flash/IR/FlashIndexOps.cpp.inc"

void mlir::flash::expandWrapIndex(RewriterBase &rewriter, WrapIndexOp op, bool isNatural) {
  if (isNatural)
    return rewriter.replaceOp(op, op.getIndex());
  OpBuilder::InsertionGuard guard(rewriter);
  rewriter.setInsertionPoint(op);
  Location loc = op.getLoc();
  Value zero = arith::ConstantIndexOp::create(rewriter, loc, 0);
  Value isNegative = arith::CmpIOp::create(rewriter, loc, arith::CmpIPredicate::slt, op.getIndex(), zero);
  Value fromEnd = arith::AddIOp::create(rewriter, loc, op.getIndex(), op.getExtent());
  rewriter.replaceOpWithNewOp<arith::SelectOp>(op, isNegative, fromEnd, op.getIndex());
}

static bool isExtent(Value value) {
  return getConstantIntValue(value) || isa_and_nonnull<tensor::DimOp, memref::DimOp>(value.getDefiningOp());
}

Value mlir::flash::matchWrappedIndex(Value value) {
  auto select = value.getDefiningOp<arith::SelectOp>();
  auto isNegative = select ? select.getCondition().getDefiningOp<arith::CmpIOp>() : arith::CmpIOp();
  auto fromEnd = select ? select.getTrueValue().getDefiningOp<arith::AddIOp>() : arith::AddIOp();
  if (!isNegative || !fromEnd)
    return {};
  Value index = select.getFalseValue();
  bool isWrapped = isNegative.getPredicate() == arith::CmpIPredicate::slt && isNegative.getLhs() == index &&
                   isConstantIntValue(isNegative.getRhs(), 0) &&
                   ((fromEnd.getLhs() == index && isExtent(fromEnd.getRhs())) ||
                    (fromEnd.getRhs() == index && isExtent(fromEnd.getLhs())));
  return isWrapped ? index : Value();
}
