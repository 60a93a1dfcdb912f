//===- IndexEvaluator.cpp - index arithmetic with numbers ---------------------------------------------------------===//

#include "IndexEvaluator.h"
#include "flashc/Dialect/Flash/IR/Flash.h"
#include "mlir/Dialect/Affine/IR/AffineOps.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Bufferization/IR/Bufferization.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/Dialect/Utils/StaticValueUtils.h"
#include "mlir/IR/Matchers.h"
#include "mlir/Interfaces/DestinationStyleOpInterface.h"
#include "llvm/ADT/TypeSwitch.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace flashc;

Value flashc::getTiedValue(Value tensor) {
  if (auto argument = dyn_cast<BlockArgument>(tensor)) {
    Operation *parent = argument.getOwner()->getParentOp();
    if (auto loop = dyn_cast<scf::ForOp>(parent))
      if (OpOperand *init = loop.getTiedLoopInit(argument))
        return init->get();
    if (auto forall = dyn_cast<scf::ForallOp>(parent); forall && argument.getArgNumber() >= forall.getRank())
      return forall.getOutputs()[argument.getArgNumber() - forall.getRank()];
    return nullptr;
  }
  auto result = cast<OpResult>(tensor);
  return TypeSwitch<Operation *, Value>(result.getOwner())
      .Case<scf::ForOp>([&](auto loop) { return loop.getInitArgs()[result.getResultNumber()]; })
      .Case<scf::ForallOp>([&](auto forall) { return forall.getOutputs()[result.getResultNumber()]; })
      .Case<DestinationStyleOpInterface>([&](auto op) { return op.getTiedOpOperand(result)->get(); })
      .Case<tensor::CastOp, flash::AssumeSortedOp>([](auto op) { return op.getSource(); })
      .Case<bufferization::ToTensorOp>([](auto op) { return op.getBuffer(); })
      .Default(nullptr);
}

std::optional<int64_t> IndexEvaluator::get(OpFoldResult value) const {
  if (std::optional<int64_t> constant = getConstantIntValue(value))
    return constant;
  return get(cast<Value>(value));
}

std::optional<int64_t> IndexEvaluator::get(Value value) const {
  if (auto found = counters.find(value); found != counters.end())
    return found->second;
  APInt constant;
  if (matchPattern(value, m_ConstantInt(&constant)))
    return constant.getSExtValue();
  Operation *op = value.getDefiningOp();
  return op ? evaluate(op) : std::nullopt;
}

/// `expr` with numbers for its dimensions and symbols.
static int64_t evaluateExpr(AffineExpr expr, ArrayRef<int64_t> operands, unsigned numDims) {
  if (auto constant = dyn_cast<AffineConstantExpr>(expr))
    return constant.getValue();
  if (auto dim = dyn_cast<AffineDimExpr>(expr))
    return operands[dim.getPosition()];
  if (auto symbol = dyn_cast<AffineSymbolExpr>(expr))
    return operands[numDims + symbol.getPosition()];
  auto binary = cast<AffineBinaryOpExpr>(expr);
  int64_t lhs = evaluateExpr(binary.getLHS(), operands, numDims);
  int64_t rhs = evaluateExpr(binary.getRHS(), operands, numDims);
  switch (binary.getKind()) {
  case AffineExprKind::Add:
    return lhs + rhs;
  case AffineExprKind::Mul:
    return lhs * rhs;
  case AffineExprKind::Mod:
    return lhs - llvm::divideFloorSigned(lhs, rhs) * rhs;
  case AffineExprKind::FloorDiv:
    return llvm::divideFloorSigned(lhs, rhs);
  default:
    return llvm::divideCeilSigned(lhs, rhs);
  }
}

std::optional<int64_t> IndexEvaluator::evaluateAffine(Operation *op) const {
  AffineMap map = cast<AffineMapAttr>(op->getAttr("map")).getValue();
  SmallVector<int64_t, 8> operands;
  for (Value operand : op->getOperands()) {
    std::optional<int64_t> value = get(operand);
    if (!value)
      return std::nullopt;
    operands.push_back(*value);
  }
  SmallVector<int64_t, 4> results;
  for (AffineExpr expr : map.getResults())
    results.push_back(evaluateExpr(expr, operands, map.getNumDims()));
  return isa<affine::AffineMinOp>(op) ? *llvm::min_element(results) : *llvm::max_element(results);
}

std::optional<int64_t> IndexEvaluator::evaluate(Operation *op) const {
  if (isa<affine::AffineApplyOp, affine::AffineMinOp, affine::AffineMaxOp>(op))
    return evaluateAffine(op);
  if (isa<tensor::DimOp, memref::DimOp>(op)) {
    std::optional<int64_t> dim = get(op->getOperand(1));
    return dim ? getExtent(op->getOperand(0), *dim) : std::nullopt;
  }
  if (auto cast = dyn_cast<arith::IndexCastOp>(op))
    return get(cast.getIn());
  if (op->getNumOperands() != 2)
    return std::nullopt;
  std::optional<int64_t> a = get(op->getOperand(0)), b = get(op->getOperand(1));
  if (!a || !b)
    return std::nullopt;
  return TypeSwitch<Operation *, std::optional<int64_t>>(op)
      .Case<arith::AddIOp>([&](auto) { return *a + *b; })
      .Case<arith::SubIOp>([&](auto) { return *a - *b; })
      .Case<arith::MulIOp>([&](auto) { return *a * *b; })
      .Case<arith::MinSIOp>([&](auto) { return std::min(*a, *b); })
      .Case<arith::MaxSIOp>([&](auto) { return std::max(*a, *b); })
      .Case<arith::FloorDivSIOp>([&](auto) -> std::optional<int64_t> {
        return *b > 0 ? std::optional(llvm::divideFloorSigned(*a, *b)) : std::nullopt;
      })
      .Case<arith::CeilDivSIOp>([&](auto) -> std::optional<int64_t> {
        return *b > 0 ? std::optional(llvm::divideCeilSigned(*a, *b)) : std::nullopt;
      })
      .Default(std::nullopt);
}

std::optional<int64_t> IndexEvaluator::getExtent(Value tensor, int64_t dim) const {
  auto type = cast<ShapedType>(tensor.getType());
  if (!type.isDynamicDim(dim))
    return type.getDimSize(dim);
  if (auto found = shapes.find(tensor); found != shapes.end())
    return found->second[dim];
  if (Value tied = getTiedValue(tensor))
    return getExtent(tied, dim);
  if (auto slice = tensor.getDefiningOp<tensor::ExtractSliceOp>()) {
    // Rank-reducing slices drop unit sizes only; none of flash's passes makes one.
    if (slice.getType().getRank() == slice.getSourceType().getRank())
      return get(slice.getMixedSizes()[dim]);
  } else if (auto empty = tensor.getDefiningOp<tensor::EmptyOp>()) {
    return get(empty.getMixedSizes()[dim]);
  } else if (auto pad = tensor.getDefiningOp<tensor::PadOp>()) {
    std::optional<int64_t> low = get(pad.getMixedLowPad()[dim]), high = get(pad.getMixedHighPad()[dim]);
    std::optional<int64_t> source = getExtent(pad.getSource(), dim);
    if (low && high && source)
      return *low + *source + *high;
  }
  return std::nullopt;
}

std::optional<int64_t> IndexEvaluator::getNumElements(Value tensor) const {
  int64_t count = 1;
  for (int64_t dim = 0, rank = cast<ShapedType>(tensor.getType()).getRank(); dim < rank; ++dim) {
    std::optional<int64_t> extent = getExtent(tensor, dim);
    if (!extent)
      return std::nullopt;
    count *= *extent;
  }
  return count;
}
