//===- CallEvaluator.cpp - integers of a program, computed for one call -------------------------------------------===//
// The contents of tables are computed in TableEvaluator.cpp.
//===--------------------------------------------------------------------------------------------------------------===//

#include "CallEvaluator.h"
#include "flashc/Dialect/Flash/IR/Arguments.h"
#include "flashc/Dialect/Flash/IR/SortedData.h"
#include "mlir/Dialect/Affine/IR/AffineOps.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Bufferization/IR/Bufferization.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/Dialect/Utils/StaticValueUtils.h"
#include "mlir/Interfaces/DestinationStyleOpInterface.h"
#include "mlir/Interfaces/LoopLikeInterface.h"
#include "llvm/ADT/TypeSwitch.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace flashc;
using Number = CallEvaluator::Number;

//===--------------------------------------------------------------------------------------------------------------===//
// Loops
//===--------------------------------------------------------------------------------------------------------------===//

SmallVector<LoopCounter> flashc::getLoopCounters(Operation *op) {
  auto loop = cast<LoopLikeOpInterface>(op);
  SmallVector<LoopCounter> counters;
  for (auto [value, begin, end, step] : llvm::zip_equal(*loop.getLoopInductionVars(), *loop.getLoopLowerBounds(),
                                                        *loop.getLoopUpperBounds(), *loop.getLoopSteps()))
    counters.push_back({value, begin, end, step});
  return counters;
}

bool flashc::isComputedFrom(ValueRange values, BlockArgument counter) {
  Region &loop = *counter.getParentRegion();
  return llvm::any_of(values, [&](Value value) { return flash::dependsOn(value, counter, loop); });
}

void CallEvaluator::set(Value counter, int64_t number) {
  auto [entry, isNew] = levels.try_emplace(counter, ages.size());
  size_t own = entry->second;
  if (isNew)
    ages.push_back(0);
  else if (const Known &last = known.at(counter); last.number == number && last.age == ages[own])
    return;
  for (size_t &age : llvm::MutableArrayRef(ages).drop_front(own))
    ++age;
  known[counter] = {number, own, ages[own]};
}

std::optional<Iterations> CallEvaluator::getIterations(const LoopCounter &counter) {
  Number begin = get(counter.begin), end = get(counter.end), step = get(counter.step);
  if (!begin || !end || !step)
    return std::nullopt;
  int64_t by = std::max<int64_t>(*step, 1);
  return Iterations{*begin, by, std::max<int64_t>(llvm::divideCeilSigned(*end - *begin, by), 0)};
}

//===--------------------------------------------------------------------------------------------------------------===//
// Any value
//===--------------------------------------------------------------------------------------------------------------===//

Number CallEvaluator::get(OpFoldResult value) {
  if (std::optional<int64_t> constant = getConstantIntValue(value))
    return constant;
  return get(cast<Value>(value));
}

Number CallEvaluator::get(Value value) {
  if (auto found = known.find(value); found != known.end() && found->second.age == ages[found->second.level]) {
    level = std::max(level, found->second.level);
    return found->second.number;
  }
  size_t outer = std::exchange(level, 0);
  auto result = dyn_cast<OpResult>(value);
  Number number = result ? compute(result) : toNumber(call->getScalar(value), value.getType());
  if (number)
    known[value] = {*number, level, ages[level]};
  else if (!result)
    unknown = value;
  level = std::max(level, outer);
  return number;
}

std::optional<SmallVector<int64_t, 4>> CallEvaluator::getAll(ValueRange values) {
  SmallVector<int64_t, 4> numbers;
  for (Value value : values) {
    Number number = get(value);
    if (!number)
      return std::nullopt;
    numbers.push_back(*number);
  }
  return numbers;
}

/// Returns the bits of an element of one of the function's arrays.
std::optional<uint64_t> CallEvaluator::read(Value array, ArrayRef<int64_t> positions) {
  Value argument = flash::getRootArgument(array);
  unknown = argument ? argument : array;
  return call->read(argument, positions);
}

//===--------------------------------------------------------------------------------------------------------------===//
// Arithmetic
//===--------------------------------------------------------------------------------------------------------------===//

/// Returns the result of an integer operation. On overflow the result wraps around. Returns nullopt if the result is
/// undefined, or if the op is not supported.
static std::optional<APInt> applyOperation(Operation *op, const APInt &a, const APInt &b, unsigned bits) {
  using Result = std::optional<APInt>;
  bool isDivision = isa<arith::DivSIOp, arith::DivUIOp, arith::FloorDivSIOp, arith::CeilDivSIOp, arith::CeilDivUIOp,
                        arith::RemSIOp, arith::RemUIOp>(op);
  if (isDivision && b.isZero())
    return std::nullopt;
  return TypeSwitch<Operation *, Result>(op)
      .Case([&](arith::AddIOp) { return a + b; })
      .Case([&](arith::SubIOp) { return a - b; })
      .Case([&](arith::MulIOp) { return a * b; })
      .Case([&](arith::DivSIOp) { return a.sdiv(b); })
      .Case([&](arith::DivUIOp) { return a.udiv(b); })
      .Case([&](arith::FloorDivSIOp) { return llvm::APIntOps::RoundingSDiv(a, b, APInt::Rounding::DOWN); })
      .Case([&](arith::CeilDivSIOp) { return llvm::APIntOps::RoundingSDiv(a, b, APInt::Rounding::UP); })
      .Case([&](arith::CeilDivUIOp) { return llvm::APIntOps::RoundingUDiv(a, b, APInt::Rounding::UP); })
      .Case([&](arith::RemSIOp) { return a.srem(b); })
      .Case([&](arith::RemUIOp) { return a.urem(b); })
      .Case([&](arith::MinSIOp) { return llvm::APIntOps::smin(a, b); })
      .Case([&](arith::MaxSIOp) { return llvm::APIntOps::smax(a, b); })
      .Case([&](arith::MinUIOp) { return llvm::APIntOps::umin(a, b); })
      .Case([&](arith::MaxUIOp) { return llvm::APIntOps::umax(a, b); })
      .Case([&](arith::AndIOp) { return a & b; })
      .Case([&](arith::OrIOp) { return a | b; })
      .Case([&](arith::XOrIOp) { return a ^ b; })
      .Case([&](arith::CmpIOp op) { return APInt(1, arith::applyCmpPredicate(op.getPredicate(), a, b)); })
      .Case<arith::ExtUIOp, arith::IndexCastUIOp>([&](auto) { return a.zextOrTrunc(bits); })
      .Case<arith::ExtSIOp, arith::IndexCastOp, arith::TruncIOp>([&](auto) { return a.sextOrTrunc(bits); })
      .Default(Result());
}

static Number computeExpr(AffineExpr expr, ArrayRef<int64_t> operands, unsigned numDims) {
  if (auto constant = dyn_cast<AffineConstantExpr>(expr))
    return constant.getValue();
  if (auto dim = dyn_cast<AffineDimExpr>(expr))
    return operands[dim.getPosition()];
  if (auto symbol = dyn_cast<AffineSymbolExpr>(expr))
    return operands[numDims + symbol.getPosition()];
  auto binary = cast<AffineBinaryOpExpr>(expr);
  Number a = computeExpr(binary.getLHS(), operands, numDims), b = computeExpr(binary.getRHS(), operands, numDims);
  AffineExprKind kind = binary.getKind();
  if (!a || !b)
    return std::nullopt;
  if (kind == AffineExprKind::Add)
    return *a + *b;
  if (kind == AffineExprKind::Mul)
    return *a * *b;
  if (*b < 1)
    return std::nullopt;
  if (kind == AffineExprKind::CeilDiv)
    return llvm::divideCeilSigned(*a, *b);
  int64_t quotient = llvm::divideFloorSigned(*a, *b);
  return kind == AffineExprKind::Mod ? *a - quotient * *b : quotient;
}

/// Returns the result of an affine.apply, or the minimum or maximum of the results of an affine.min or affine.max.
static Number computeAffine(Operation *op, ArrayRef<int64_t> operands) {
  AffineMap map = cast<AffineMapAttr>(op->getAttr("map")).getValue();
  Number chosen;
  for (AffineExpr expr : map.getResults()) {
    Number number = computeExpr(expr, operands, map.getNumDims());
    if (!number)
      return std::nullopt;
    chosen = !chosen ? *number : isa<affine::AffineMaxOp>(op) ? std::max(*chosen, *number) : std::min(*chosen, *number);
  }
  return chosen;
}

static Number getInteger(Attribute constant) {
  auto integer = dyn_cast_or_null<IntegerAttr>(constant);
  return integer && integer.getValue().getBitWidth() <= 64 ? Number(integer.getValue().getSExtValue()) : std::nullopt;
}

Number CallEvaluator::compute(OpResult result) {
  Operation *op = result.getOwner();
  return TypeSwitch<Operation *, Number>(op)
      .Case<tensor::DimOp, memref::DimOp>([&](auto dimOp) {
        Number dim = get(dimOp.getDimension());
        return dim ? getExtent(dimOp.getSource(), *dim) : std::nullopt;
      })
      .Case([&](arith::SelectOp select) {
        Number condition = get(select.getCondition());
        return condition ? get(*condition ? select.getTrueValue() : select.getFalseValue()) : std::nullopt;
      })
      .Case<tensor::ExtractOp, memref::LoadOp>([&](auto read) {
        auto positions = getAll(read.getIndices());
        return positions ? load(op->getOperand(0), *positions) : std::nullopt;
      })
      .Case([&](flash::CountLeOp count) { return countElements(count); })
      .Case([&](flash::NthOp nth) { return getNth(nth); })
      .Case([&](flash::SegmentTileOp tile) { return placeTile(tile, result.getResultNumber()); })
      .Case([&](flash::TileRangeOp range) {
        std::optional<Ends> found = findEnds(range);
        return found ? Number((*found)[result.getResultNumber()]) : std::nullopt;
      })
      .Default([&](Operation *) { return computeInteger(result); });
}

Number CallEvaluator::computeInteger(OpResult result) {
  Operation *op = result.getOwner();
  auto isShort = [](Type type) { return type.isIntOrIndex() && getBitWidth(type) <= 64; };
  if (op->getNumOperands() && llvm::all_of(op->getOperandTypes(), isShort) && isShort(result.getType())) {
    auto operands = getAll(op->getOperands());
    if (!operands)
      return std::nullopt;
    if (isa<affine::AffineApplyOp, affine::AffineMinOp, affine::AffineMaxOp>(op))
      return computeAffine(op, *operands);
    auto toBits = [&](int64_t number) { return APInt(getBitWidth(op->getOperand(0).getType()), number, true, true); };
    APInt a = toBits(operands->front()), b = toBits(operands->back());
    if (std::optional<APInt> computed = applyOperation(op, a, b, getBitWidth(result.getType())))
      return computed->getSExtValue();
  }
  return getInteger(fold(result));
}

/// Returns `value` as a constant of its scalar type. Null if the value is not known.
Attribute CallEvaluator::getConstant(Value value) {
  if (value.getType().isIntOrIndex()) {
    Number number = get(value);
    return number ? makeConstant(value.getType(), *number) : nullptr;
  }
  auto result = dyn_cast<OpResult>(value);
  if (result && !isa<tensor::ExtractOp, memref::LoadOp>(result.getOwner()))
    return fold(result);
  unknown = value;
  std::optional<uint64_t> bits;
  if (!result)
    bits = call->getScalar(value);
  else if (auto positions = getAll(result.getOwner()->getOperands().drop_front()))
    bits = read(result.getOwner()->getOperand(0), *positions);
  return bits ? makeConstant(value.getType(), *bits) : nullptr;
}

/// Folds the op of `result` with constants as operands. Returns the constant, or null.
Attribute CallEvaluator::fold(OpResult result) {
  Operation *op = result.getOwner();
  SmallVector<Attribute, 4> operands;
  for (Value operand : op->getOperands()) {
    bool isScalar = operand.getType().isIntOrIndexOrFloat();
    operands.push_back(isScalar ? getConstant(operand) : nullptr);
    if (isScalar && !operands.back())
      return nullptr;
  }
  SmallVector<OpFoldResult, 1> results;
  unknown = result;
  if (op->getNumRegions() || failed(op->fold(operands, results)) || results.empty())
    return nullptr;
  OpFoldResult folded = results[result.getResultNumber()];
  return isa<Attribute>(folded) ? cast<Attribute>(folded) : getConstant(cast<Value>(folded));
}

//===--------------------------------------------------------------------------------------------------------------===//
// Extents
//===--------------------------------------------------------------------------------------------------------------===//

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

Number CallEvaluator::getExtent(Value tensor, int64_t dim) {
  auto type = cast<ShapedType>(tensor.getType());
  if (dim < 0 || dim >= type.getRank()) // the verifier allows it; the result of the tensor.dim is undefined
    return std::nullopt;
  if (!type.isDynamicDim(dim))
    return type.getDimSize(dim);
  if (Number extent = call->getExtent(tensor, dim))
    return extent;
  if (Value tied = getTiedValue(tensor))
    return getExtent(tied, dim);
  auto slice = tensor.getDefiningOp<tensor::ExtractSliceOp>();
  // Rank-reducing slices are not supported; none of flash's passes makes one.
  if (slice && slice.getType().getRank() == slice.getSourceType().getRank())
    return get(slice.getMixedSizes()[dim]);
  if (auto empty = tensor.getDefiningOp<tensor::EmptyOp>())
    return get(empty.getMixedSizes()[dim]);
  if (auto pad = tensor.getDefiningOp<tensor::PadOp>()) {
    Number source = getExtent(pad.getSource(), dim), low = get(pad.getMixedLowPad()[dim]);
    Number high = get(pad.getMixedHighPad()[dim]);
    return source && low && high ? Number(*source + *low + *high) : std::nullopt;
  }
  unknown = tensor;
  return std::nullopt;
}
