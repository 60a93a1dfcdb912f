//===- LineOperations.cpp - what operations do to lines -----------------------------------------------------------===//

#include "LineEvaluator.h"
#include "mlir/Dialect/Affine/IR/AffineOps.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/Dialect/Utils/StaticValueUtils.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace flashc;

static unsigned getBitWidth(Type type) { return type.isInteger() ? type.getIntOrFloatBitWidth() : 64; }

//===--------------------------------------------------------------------------------------------------------------===//
// Any value
//===--------------------------------------------------------------------------------------------------------------===//

static std::optional<Line> toLine(std::optional<int64_t> number) {
  return number ? std::optional(Line{*number}) : std::nullopt;
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
  auto result = dyn_cast<OpResult>(value);
  if (!result || isSingle())
    return toLine(numbers.get(value));
  if (auto found = known.find(value); found != known.end())
    return found->second;
  std::optional<Line> line = compute(result);
  if (line)
    known[value] = *line;
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

std::optional<Line> LineEvaluator::getExtent(Value tensor, int64_t dim) {
  std::optional<SmallVector<OpFoldResult, 3>> terms = numbers.getExtentTerms(tensor, dim);
  std::optional<Line> sum = terms ? std::optional(Line()) : std::nullopt;
  for (OpFoldResult term : terms.value_or(SmallVector<OpFoldResult, 3>())) {
    std::optional<Line> line = get(term);
    sum = sum && line ? add(*sum, *line) : std::nullopt;
  }
  return sum;
}

/// What only numbers go into is a number; that is also how an operation on its own result's range wraps around.
std::optional<Line> LineEvaluator::compute(OpResult result) {
  using Lines = std::optional<Line>;
  Operation *op = result.getOwner();
  auto getNumber = [&](auto value) -> std::optional<int64_t> { // the same in all iterations, or the space is split
    Lines line = get(value);
    if (line && line->isConstant())
      return line->base;
    if (line)
      splitInHalves();
    return std::nullopt;
  };
  return TypeSwitch<Operation *, Lines>(op)
      .Case<tensor::DimOp, memref::DimOp>([&](auto dimOp) -> Lines {
        std::optional<int64_t> dim = getNumber(dimOp.getDimension());
        return dim ? getExtent(dimOp.getSource(), *dim) : std::nullopt;
      })
      .Case<arith::SelectOp>([&](arith::SelectOp select) -> Lines {
        std::optional<int64_t> condition = getNumber(select.getCondition());
        return condition ? get(*condition ? select.getTrueValue() : select.getFalseValue()) : std::nullopt;
      })
      .Case<tensor::ExtractOp, memref::LoadOp>([&](auto read) -> Lines {
        auto indices = getAll(read.getIndices());
        auto table = read->getOperand(0).template getDefiningOp<flash::RowTableOp>();
        return indices && table ? computeRow(table, *indices) : computeOther(result);
      })
      .Case([&](flash::CountLeOp count) { return computeSearch(count); })
      .Case([&](flash::SegmentTileOp tile) { return computeSegmentTile(tile, result.getResultNumber()); })
      .Default([&](Operation *) -> Lines {
        auto operands = op->getOperandTypes();
        if (!llvm::all_of(operands, [](Type type) { return type.isIntOrIndex(); }))
          return computeOther(result);
        auto lines = getAll(op->getOperands());
        if (!lines)
          return std::nullopt;
        if (llvm::all_of(*lines, [](const Line &line) { return line.isConstant(); }))
          return toLine(numbers.get(result));
        return computeArithmetic(op, *lines);
      });
}

/// The value is the same in all iterations if its operands are.
std::optional<Line> LineEvaluator::computeOther(OpResult result) {
  for (Value operand : result.getOwner()->getOperands()) {
    bool isScalar = operand.getType().isIntOrIndex();
    std::optional<Line> line = isScalar ? get(operand) : Line();
    if (!line)
      return std::nullopt;
    if (!line->isConstant() || (!isScalar && mayChange(operand))) {
      splitInHalves();
      return std::nullopt;
    }
  }
  return toLine(numbers.get(result));
}

/// Whether an array or a float is computed inside of the loops, from their counters or by a region that may use them.
bool LineEvaluator::mayChange(Value value) const {
  return llvm::any_of(ArrayRef(loops).take_front(numLoops), [&](const Loop &loop) {
    Value counter = loop.counter;
    Operation *owner = counter.getParentBlock()->getParentOp(), *op = value.getDefiningOp();
    return isComputedFrom(value, counter, owner) || (op && op->getNumRegions() && owner->isAncestor(op));
  });
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

//===--------------------------------------------------------------------------------------------------------------===//
// Searches and tables
//===--------------------------------------------------------------------------------------------------------------===//

/// A search ascends with what it searches for, whatever the array holds: where two searches part, the one for more has
/// counted a step that is longer than all that the other can still count. So it is constant where it is at both ends.
std::optional<Line> LineEvaluator::computeSearch(flash::CountLeOp op) {
  std::optional<Line> value = get(op.getValue());
  auto indices = value ? getAll(op.getIndices()) : std::nullopt;
  if (!indices)
    return std::nullopt;
  if (llvm::all_of(*indices, [](const Line &line) { return line.isConstant(); })) {
    Range range = getRange(*value);
    std::optional<int64_t> first = numbers.countElements(op, range.low), last = numbers.countElements(op, range.high);
    if (!first || !last)
      return std::nullopt;
    if (*first == *last)
      return Line{*first};
  }
  splitInHalves();
  return std::nullopt;
}

/// Like IndexEvaluator: the segment is found by a search, which ascends with the tile's number.
std::optional<Line> LineEvaluator::computeSegmentTile(flash::SegmentTileOp op, unsigned result) {
  std::optional<Line> tile = get(op.getTile()), length = tile ? get(op.getLength()) : std::nullopt;
  auto indices = length ? getAll(op.getIndices()) : std::nullopt;
  if (!indices)
    return std::nullopt;
  if (length->isConstant() && llvm::all_of(*indices, [](const Line &line) { return line.isConstant(); })) {
    Range range = getRange(*tile);
    auto first = numbers.findSegment(op, range.low), last = numbers.findSegment(op, range.high);
    if (!first || !last)
      return std::nullopt;
    if (first->number == last->number)
      return placeTile(op, *tile, *first, length->base, result);
  }
  splitInHalves();
  return std::nullopt;
}

/// Like IndexEvaluator::evaluateSegmentTile, of tiles of one segment.
std::optional<Line> LineEvaluator::placeTile(flash::SegmentTileOp op, const Line &tile,
                                             const IndexEvaluator::Segment &segment, int64_t length, unsigned result) {
  if (result == 2)
    return Line{segment.number};
  int64_t size = op.getTileSize(), firstTile = segment.begin / size + segment.number;
  std::optional<Line> begin = add(Line{segment.begin - firstTile * size}, tile, size);
  begin = begin ? getLesser(*begin, Line{segment.end}, /*isGreater=*/false) : std::nullopt;
  if (!begin)
    return std::nullopt;
  if (result == 1) {
    std::optional<Line> left = add(Line{segment.end}, *begin, -1);
    return left ? getLesser(*left, Line{size}, /*isGreater=*/false) : std::nullopt;
  }
  begin = getLesser(*begin, Line{length - 1}, /*isGreater=*/false);
  return begin ? getLesser(*begin, Line{0}, /*isGreater=*/true) : std::nullopt;
}

std::optional<Line> LineEvaluator::computeRow(flash::RowTableOp op, ArrayRef<Line> place) {
  LineEvaluator inside(*this);
  inside.known.clear();
  for (auto [argument, position] : llvm::zip_equal(op.getBody().getArguments(), place)) {
    inside.numbers.setCounter(argument, position.base);
    inside.arguments[argument] = position;
  }
  std::optional<Line> value = inside.get(op.getValue());
  split = inside.split;
  numbers.setUnknown(inside.getUnknown());
  return value;
}
