//===- LineOperations.cpp - what operations do to lines -----------------------------------------------------------===//

#include "LineEvaluator.h"
#include "flashc/Dialect/Flash/IR/Arguments.h"
#include "mlir/Dialect/Affine/IR/AffineOps.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Bufferization/IR/Bufferization.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/Dialect/Utils/StaticValueUtils.h"
#include "mlir/Interfaces/DestinationStyleOpInterface.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace flashc;

//===--------------------------------------------------------------------------------------------------------------===//
// Any value
//===--------------------------------------------------------------------------------------------------------------===//

static std::optional<Line> toLine(std::optional<int64_t> number) {
  return number ? std::optional(Line{*number}) : std::nullopt;
}

std::optional<int64_t> flashc::getInteger(Attribute constant) {
  auto integer = dyn_cast_or_null<IntegerAttr>(constant);
  return integer && integer.getValue().getBitWidth() <= 64 ? std::optional(integer.getValue().getSExtValue())
                                                           : std::nullopt;
}

std::optional<Line> LineEvaluator::get(OpFoldResult value) {
  if (std::optional<int64_t> constant = getConstantIntValue(value))
    return Line{*constant};
  return get(cast<Value>(value));
}

std::optional<Line> LineEvaluator::get(Value value) {
  for (const Loop &loop : ArrayRef(loops).take_front(numLoops))
    if (value == loop.counter)
      return loop.value;
  if (auto found = arguments.find(value); found != arguments.end())
    return found->second;
  if (auto found = known.find(value); found != known.end())
    return found->second;
  auto result = dyn_cast<OpResult>(value);
  std::optional<Line> line = result ? compute(result) : toLine(getInteger(call->getScalar(value)));
  if (line)
    known[value] = *line;
  else if (!result)
    unknown = value;
  return line;
}

std::optional<SmallVector<Line, 4>> LineEvaluator::getAll(ValueRange values) {
  SmallVector<Line, 4> lines;
  for (Value value : values) {
    std::optional<Line> line = get(value);
    if (!line)
      return std::nullopt;
    lines.push_back(*line);
  }
  return lines;
}

std::optional<int64_t> LineEvaluator::getNumber(const std::optional<Line> &line) {
  if (line && line->isConstant())
    return line->base;
  if (line)
    splitInHalves();
  return std::nullopt;
}

std::optional<SmallVector<int64_t, 4>> LineEvaluator::getNumbers(ValueRange values) {
  SmallVector<int64_t, 4> numbers;
  for (Value value : values) {
    std::optional<int64_t> number = getNumber(get(value));
    if (!number)
      return std::nullopt;
    numbers.push_back(*number);
  }
  return numbers;
}

std::optional<Line> LineEvaluator::compute(OpResult result) {
  using Lines = std::optional<Line>;
  Operation *op = result.getOwner();
  return TypeSwitch<Operation *, Lines>(op)
      .Case<tensor::DimOp, memref::DimOp>([&](auto dimOp) -> Lines {
        std::optional<int64_t> dim = getNumber(get(dimOp.getDimension()));
        return dim ? getExtent(dimOp.getSource(), *dim) : std::nullopt;
      })
      .Case([&](arith::SelectOp select) -> Lines {
        std::optional<int64_t> condition = getNumber(get(select.getCondition()));
        return condition ? get(*condition ? select.getTrueValue() : select.getFalseValue()) : std::nullopt;
      })
      .Case([&](tensor::ExtractOp extract) -> Lines {
        auto table = extract.getTensor().getDefiningOp<flash::RowTableOp>();
        auto place = table ? getAll(extract.getIndices()) : std::nullopt;
        return table ? place ? computeRow(table, *place) : std::nullopt : toLine(getInteger(evaluate(result)));
      })
      .Case([&](flash::CountLeOp count) { return computeSearch(count); })
      .Case([&](flash::NthOp nth) { return computeNth(nth); })
      .Case([&](flash::TileRangeOp range) { return computeTileRange(range, result.getResultNumber()); })
      .Case([&](flash::SegmentTileOp tile) { return computeSegmentTile(tile, result.getResultNumber()); })
      .Default([&](Operation *) -> Lines {
        auto operands = op->getOperandTypes();
        if (!llvm::all_of(operands, [](Type type) { return type.isIntOrIndex(); }))
          return toLine(getInteger(evaluate(result)));
        auto lines = getAll(op->getOperands());
        if (!lines)
          return std::nullopt;
        // That is also how an operation on its own result's range wraps around.
        if (llvm::all_of(*lines, [](const Line &line) { return line.isConstant(); }))
          return toLine(getInteger(fold(result)));
        return computeArithmetic(op, *lines);
      });
}

//===--------------------------------------------------------------------------------------------------------------===//
// Constants of any type
//===--------------------------------------------------------------------------------------------------------------===//

/// The same in all iterations; null: split, or not known.
Attribute LineEvaluator::getConstant(Value value) {
  if (value.getType().isIntOrIndex()) {
    std::optional<int64_t> number = getNumber(get(value));
    return number ? makeConstant(value.getType(), *number) : nullptr;
  }
  if (auto result = dyn_cast<OpResult>(value))
    return evaluate(result);
  unknown = value;
  return call->getScalar(value);
}

Attribute LineEvaluator::evaluate(OpResult result) {
  Operation *op = result.getOwner();
  if (!isa<tensor::ExtractOp, memref::LoadOp>(op))
    return fold(result);
  auto positions = getNumbers(op->getOperands().drop_front());
  return positions ? load(op->getOperand(0), *positions) : nullptr;
}

/// The element of one of the function's arrays.
Attribute LineEvaluator::read(Value array, ArrayRef<int64_t> positions) {
  Value argument = flash::getRootArgument(array);
  unknown = argument ? argument : array;
  return call->read(argument, positions);
}

/// What the op's own folding makes of constants.
Attribute LineEvaluator::fold(OpResult result) {
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

std::optional<Line> LineEvaluator::getExtent(Value tensor, int64_t dim) {
  auto type = cast<ShapedType>(tensor.getType());
  if (dim < 0 || dim >= type.getRank()) // of a tensor.dim: undefined, and no error to the verifier
    return std::nullopt;
  if (!type.isDynamicDim(dim))
    return Line{type.getDimSize(dim)};
  if (std::optional<int64_t> extent = call->getExtent(tensor, dim))
    return Line{*extent};
  if (Value tied = getTiedValue(tensor))
    return getExtent(tied, dim);
  auto slice = tensor.getDefiningOp<tensor::ExtractSliceOp>();
  // Rank-reducing slices drop unit sizes only; none of flash's passes makes one.
  if (slice && slice.getType().getRank() == slice.getSourceType().getRank())
    return get(slice.getMixedSizes()[dim]);
  if (auto empty = tensor.getDefiningOp<tensor::EmptyOp>())
    return get(empty.getMixedSizes()[dim]);
  if (auto pad = tensor.getDefiningOp<tensor::PadOp>()) {
    std::optional<Line> sum = getExtent(pad.getSource(), dim);
    for (OpFoldResult padding : {pad.getMixedLowPad()[dim], pad.getMixedHighPad()[dim]}) {
      std::optional<Line> line = sum ? get(padding) : std::nullopt;
      sum = line ? add(*sum, *line) : std::nullopt;
    }
    return sum;
  }
  unknown = tensor;
  return std::nullopt;
}

//===--------------------------------------------------------------------------------------------------------------===//
// Arithmetic
//===--------------------------------------------------------------------------------------------------------------===//

/// Unsigned operations are those of signed integers where nothing is negative, nor looks so.
static bool isUnsigned(Operation *op) {
  if (auto compare = dyn_cast<arith::CmpIOp>(op))
    return compare.getPredicate() >= arith::CmpIPredicate::ult;
  return isa<arith::DivUIOp, arith::CeilDivUIOp, arith::RemUIOp, arith::MinUIOp, arith::MaxUIOp, arith::ExtUIOp,
             arith::IndexCastUIOp>(op);
}

/// Operations that round towards zero do it downwards where nothing is negative.
static bool isTruncating(Operation *op) { return isa<arith::DivSIOp, arith::RemSIOp>(op); }

std::optional<Line> LineEvaluator::computeArithmetic(Operation *op, ArrayRef<Line> operands) {
  bool hasNegative = llvm::any_of(operands, [&](const Line &line) { return getRange(line).low < 0; });
  if (hasNegative && (isUnsigned(op) || isTruncating(op))) {
    splitInHalves();
    return std::nullopt;
  }
  using Lines = std::optional<Line>;
  auto divideBy = [&](bool isCeil) { return computeQuotient(operands[0], operands[1], isCeil); };
  Lines line =
      TypeSwitch<Operation *, Lines>(op)
          .Case<affine::AffineApplyOp, affine::AffineMinOp, affine::AffineMaxOp>(
              [&](Operation *) { return computeAffine(op, operands); })
          .Case([&](arith::AddIOp) { return add(operands[0], operands[1]); })
          .Case([&](arith::SubIOp) { return add(operands[0], operands[1], -1); })
          .Case([&](arith::MulIOp) { return multiply(operands[0], operands[1]); })
          .Case<arith::DivSIOp, arith::DivUIOp, arith::FloorDivSIOp>([&](Operation *) { return divideBy(false); })
          .Case<arith::CeilDivSIOp, arith::CeilDivUIOp>([&](Operation *) { return divideBy(true); })
          .Case<arith::RemSIOp, arith::RemUIOp>([&](Operation *) { return computeRemainder(operands[0], operands[1]); })
          .Case<arith::MinSIOp, arith::MinUIOp>([&](Operation *) { return getLesser(operands[0], operands[1], false); })
          .Case<arith::MaxSIOp, arith::MaxUIOp>([&](Operation *) { return getLesser(operands[0], operands[1], true); })
          .Case([&](arith::CmpIOp compare) { return computeComparison(compare.getPredicate(), operands); })
          .Case<arith::IndexCastOp, arith::IndexCastUIOp, arith::ExtSIOp, arith::ExtUIOp, arith::TruncIOp>(
              [&](Operation *) { return operands[0]; })
          .Default([&](Operation *) { return splitInHalves(), std::nullopt; });
  return line ? narrow(widen(*line), getBitWidth(op->getResult(0).getType())) : std::nullopt;
}

std::optional<Line> LineEvaluator::multiply(const Line &a, const Line &b) {
  if (!a.isConstant() && !b.isConstant()) {
    splitInHalves();
    return std::nullopt;
  }
  return b.isConstant() ? add({}, a, b.base) : add({}, b, a.base);
}

std::optional<Line> LineEvaluator::computeQuotient(const Line &a, const Line &b, bool isCeil) {
  if (b.isConstant() && b.base > 0)
    return divide(a, b.base, isCeil);
  splitInHalves();
  return std::nullopt;
}

std::optional<Line> LineEvaluator::computeRemainder(const Line &a, const Line &b) {
  std::optional<Line> quotient = computeQuotient(a, b, /*isCeil=*/false);
  return quotient ? add(a, *quotient, -b.base) : std::nullopt;
}

std::optional<Line> LineEvaluator::getLesser(const Line &a, const Line &b, bool isGreater) {
  std::optional<bool> isFirstGreater = isNotLess(a, b);
  if (!isFirstGreater)
    return std::nullopt;
  return *isFirstGreater == isGreater ? a : b;
}

std::optional<Line> LineEvaluator::computeComparison(arith::CmpIPredicate predicate, ArrayRef<Line> operands) {
  using P = arith::CmpIPredicate;
  const Line &a = operands[0], &b = operands[1];
  bool isLess = llvm::is_contained({P::slt, P::ult, P::sge, P::uge}, predicate);
  bool isEquality = predicate == P::eq || predicate == P::ne;
  // a >= b, or b >= a; both where they are equal.
  std::optional<bool> holds = isLess || isEquality ? isNotLess(a, b) : isNotLess(b, a);
  if (holds && *holds && isEquality)
    holds = isNotLess(b, a);
  if (!holds)
    return std::nullopt;
  bool isInverted = llvm::is_contained({P::slt, P::ult, P::sgt, P::ugt, P::ne}, predicate);
  return Line{*holds != isInverted ? -1 : 0};
}

//===--------------------------------------------------------------------------------------------------------------===//
// Affine maps
//===--------------------------------------------------------------------------------------------------------------===//

std::optional<Line> LineEvaluator::computeExpr(AffineExpr expr, ArrayRef<Line> operands, unsigned numDims) {
  if (auto constant = dyn_cast<AffineConstantExpr>(expr))
    return Line{constant.getValue()};
  if (auto dim = dyn_cast<AffineDimExpr>(expr))
    return operands[dim.getPosition()];
  if (auto symbol = dyn_cast<AffineSymbolExpr>(expr))
    return operands[numDims + symbol.getPosition()];
  auto binary = cast<AffineBinaryOpExpr>(expr);
  std::optional<Line> a = computeExpr(binary.getLHS(), operands, numDims);
  std::optional<Line> b = a ? computeExpr(binary.getRHS(), operands, numDims) : std::nullopt;
  if (!b)
    return std::nullopt;
  switch (binary.getKind()) {
  case AffineExprKind::Add:
    return add(*a, *b);
  case AffineExprKind::Mul:
    return multiply(*a, *b);
  case AffineExprKind::Mod:
    return computeRemainder(*a, *b);
  default:
    return computeQuotient(*a, *b, binary.getKind() == AffineExprKind::CeilDiv);
  }
}

std::optional<Line> LineEvaluator::computeAffine(Operation *op, ArrayRef<Line> operands) {
  AffineMap map = cast<AffineMapAttr>(op->getAttr("map")).getValue();
  std::optional<Line> result;
  for (AffineExpr expr : map.getResults()) {
    std::optional<Line> line = computeExpr(expr, operands, map.getNumDims());
    if (line && result)
      line = getLesser(*result, *line, isa<affine::AffineMaxOp>(op));
    if (!line)
      return std::nullopt;
    result = line;
  }
  return result;
}
