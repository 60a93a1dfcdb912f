//===- ScoreSplit.cpp - terms of a score that are affine in the column --------------------------------------------===//

#include "Regions/ScoreSplit.h"
#include "Regions/ScoreMap.h"
#include "flashc/Support/CloneSlice.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/IR/Matchers.h"

using namespace mlir;
using namespace flashc;

//===--------------------------------------------------------------------------------------------------------------===//
// Terms
//===--------------------------------------------------------------------------------------------------------------===//

std::optional<ScoreSplit::Slopes> ScoreSplit::getSlopes(Value value) {
  if (auto found = known.find(value); found != known.end())
    return found->second;
  std::optional<Slopes> slopes = computeSlopes(value);
  if (slopes && slopes->size() > kMostSlopes)
    slopes.reset();
  known[value] = slopes;
  return slopes;
}

std::optional<ScoreSplit::Slopes> ScoreSplit::computeSlopes(Value value) {
  if (!value.getType().isF32())
    return std::nullopt;
  if (map.isSameInRow(value))
    return Slopes();
  Operation *def = value.getDefiningOp();
  if (auto convert = dyn_cast_or_null<arith::SIToFPOp>(def)) {
    std::optional<tile::MapOp::Linear> linear = map.getLinear(convert.getIn());
    return linear ? std::optional(Slopes{{static_cast<double>(linear->j), {}}}) : std::nullopt;
  }
  if (isa_and_nonnull<arith::MulFOp, arith::DivFOp>(def))
    return getSlopesOfProduct(def);
  if (!isa_and_nonnull<arith::AddFOp, arith::SubFOp, arith::NegFOp>(def))
    return std::nullopt;
  std::optional<Slopes> result = getSlopes(def->getOperand(0));
  std::optional<Slopes> second =
      isa<arith::NegFOp>(def) ? std::exchange(result, Slopes()) : getSlopes(def->getOperand(1));
  if (!result || !second)
    return std::nullopt;
  for (Slope &slope : *second) {
    slope.constant *= isa<arith::AddFOp>(def) ? 1.0 : -1.0;
    result->push_back(std::move(slope));
  }
  return result;
}

/// Returns the slopes of `product` if it is a product with a value that is constant in the row, or a quotient by a
/// constant. None otherwise.
std::optional<ScoreSplit::Slopes> ScoreSplit::getSlopesOfProduct(Operation *product) {
  bool isQuotient = isa<arith::DivFOp>(product), isSecond = isQuotient || map.isSameInRow(product->getOperand(1));
  Value factor = product->getOperand(isSecond);
  FloatAttr constant;
  bool isConstant = matchPattern(factor, m_Constant(&constant));
  if (!map.isSameInRow(factor) || (isQuotient && !isConstant))
    return std::nullopt;
  std::optional<Slopes> slopes = getSlopes(product->getOperand(1 - isSecond));
  if (!slopes)
    return std::nullopt;
  for (Slope &slope : *slopes) {
    if (!isConstant)
      slope.factors.push_back(factor);
    else if (isQuotient)
      slope.constant /= constant.getValueAsDouble();
    else
      slope.constant *= constant.getValueAsDouble();
  }
  return slopes;
}

/// Returns `value` without the terms that can be taken out of it, and adds these to `terms`. Null if nothing is left.
Value ScoreSplit::takeFrom(Value value, double factor) {
  if (std::optional<Slopes> slopes = getSlopes(value)) {
    terms.push_back({value, std::move(*slopes), factor});
    return {};
  }
  Operation *sum = value.getDefiningOp();
  if (!isa_and_nonnull<arith::AddFOp, arith::SubFOp>(sum) || !isInside(value) || ++numSums > kMostSums)
    return value;
  bool isDifference = isa<arith::SubFOp>(sum);
  Value lhs = takeFrom(sum->getOperand(0), factor);
  Value rhs = takeFrom(sum->getOperand(1), isDifference ? -factor : factor);
  if (lhs == sum->getOperand(0) && rhs == sum->getOperand(1))
    return value;
  OpBuilder b(yield);
  if (!lhs && isDifference)
    return arith::NegFOp::create(b, sum->getLoc(), rhs);
  if (!lhs || !rhs)
    return lhs ? lhs : rhs;
  return isDifference ? arith::SubFOp::create(b, sum->getLoc(), lhs, rhs).getResult()
                      : arith::AddFOp::create(b, sum->getLoc(), lhs, rhs).getResult();
}

bool ScoreSplit::takeTerms(double factor) {
  known.clear();
  numSums = 0;
  Value value = yield.getValue();
  if (getSlopes(value)) // no part of the score depends on s
    return false;
  yield.getValueMutable().assign(takeFrom(value, factor));
  return yield.getValue() != value;
}

//===--------------------------------------------------------------------------------------------------------------===//
// The split map
//===--------------------------------------------------------------------------------------------------------------===//

/// Emits a constant of f32 or, if `type` is a tile, of a tile of f32.
static Value constant(OpBuilder &b, Location loc, Type type, double value) {
  TypedAttr number = b.getF32FloatAttr(static_cast<float>(value));
  if (auto tile = dyn_cast<RankedTensorType>(type))
    number = DenseElementsAttr::get(tile, cast<Attribute>(number));
  return arith::ConstantOp::create(b, loc, number);
}

static Value addTo(OpBuilder &b, Value sum, Value value) {
  return sum ? arith::AddFOp::create(b, value.getLoc(), sum, value).getResult() : value;
}

/// Emits the sum of all slopes. `get` returns the factors of a slope, which have type `type`. Null if the sum is 0, or
/// if `get` returns null.
Value ScoreSplit::emitSlope(OpBuilder &b, Type type, double factor, llvm::function_ref<Value(Value)> get) {
  Value sum;
  Location loc = map.getLoc();
  for (const Term &term : terms)
    for (const Slope &slope : term.slopes) {
      double number = slope.constant * term.factor / factor;
      if (number == 0.0)
        continue;
      Value product;
      if (slope.factors.empty() || number != 1.0)
        product = constant(b, loc, type, number);
      for (Value value : slope.factors) {
        Value other = get(value);
        if (!other)
          return {};
        product = product ? arith::MulFOp::create(b, loc, other, product).getResult() : other;
      }
      sum = addTo(b, sum, product);
    }
  return sum;
}

/// Emits a value that is constant in a row as a tile with one value for each row. Null if it is not known before the
/// loop.
Value ScoreSplit::emitOfRows(OpBuilder &b, Value value) {
  Block &body = map.getBody().front();
  auto argument = dyn_cast<BlockArgument>(value);
  if (argument && argument.getOwner() == &body && argument.getArgNumber() > 2)
    return map.getRows()[argument.getArgNumber() - 3];
  auto loop = map->getParentOfType<scf::ForOp>();
  auto rows = tile::RowsOp::create(b, map.getLoc(), tile::getRowType(b.getF32Type()), map.getRow());
  OpBuilder::InsertionGuard guard(b);
  Block *block = b.createBlock(&rows.getBody(), {}, {b.getIndexType()}, {map.getLoc()});
  IRMapping mapping;
  mapping.map(body.getArgument(1), block->getArgument(0));
  Value copy = cloneSlice(
      b, value, mapping, [&](Value end) { return !isInside(end) && loop.isDefinedOutsideOfLoop(end) ? end : Value(); });
  if (!copy) {
    rows.erase();
    return {};
  }
  tile::YieldOp::create(b, map.getLoc(), copy);
  return rows.getResult();
}

Value ScoreSplit::takeSlopes(double factor) {
  auto loop = map->getParentOfType<scf::ForOp>();
  if (!loop || yield.getValue() != map.getBody().getArgument(0))
    return {};
  OpBuilder b(loop);
  Value slopes =
      emitSlope(b, tile::getRowType(b.getF32Type()), factor, [&](Value value) { return emitOfRows(b, value); });
  isSlopeTaken = static_cast<bool>(slopes);
  return slopes;
}

/// Clones the code of `value` with `first` in place of j, and adds the clone to `mapping`.
static Value cloneAtFirst(OpBuilder &b, tile::MapOp map, Value value, IRMapping &mapping) {
  if (Value known = mapping.lookupOrNull(value))
    return known;
  if (map.isSameInRow(value))
    return value;
  for (Value operand : value.getDefiningOp()->getOperands())
    cloneAtFirst(b, map, operand, mapping);
  return b.clone(*value.getDefiningOp(), mapping)->getResult(0);
}

Value ScoreSplit::emitOffset(OpBuilder &b, Value first, double factor) {
  IRMapping mapping;
  mapping.map(map.getBody().getArgument(2), first);
  Value sum;
  for (const Term &term : terms) {
    double number = term.factor / factor;
    Value scaled = scaleTerm(b, map, term.value, number);
    Value value = cloneAtFirst(b, map, scaled ? scaled : term.value, mapping);
    if (!scaled)
      value = arith::MulFOp::create(b, value.getLoc(), value, constant(b, value.getLoc(), b.getF32Type(), number));
    sum = addTo(b, sum, value);
  }
  return sum;
}

tile::MapOp ScoreSplit::finish(double factor) {
  if (terms.empty())
    return map;
  OpBuilder b(yield);
  Location loc = map.getLoc();
  // If the product of Q and K adds the slope, a term without its slope is the same at every column of the tile, so it
  // is computed at the tile's first column. Otherwise it is computed at the thread's first column.
  Value key = map.getBody().getArgument(2), first = map.getCol();
  if (!isSlopeTaken)
    first = tile::FirstColumnOp::create(b, loc, key);
  yield.getOffsetMutable().assign(emitOffset(b, first, factor));
  Value slope = isSlopeTaken ? Value() : emitSlope(b, b.getF32Type(), factor, [](Value value) { return value; });
  if (slope) {
    Value inThread = arith::SubIOp::create(b, loc, key, first);
    Value column =
        arith::SIToFPOp::create(b, loc, b.getF32Type(), arith::IndexCastOp::create(b, loc, b.getI32Type(), inThread));
    yield.getValueMutable().assign(math::FmaOp::create(b, loc, slope, column, yield.getValue()));
  }
  b.setInsertionPoint(map);
  auto split = tile::MapOp::create(b, loc, map.getSource().getType(), tile::getLanePartialType(b.getContext()),
                                   map.getSource(), map.getRows(), map.getRow(), map.getCol());
  split.getBody().takeBody(map.getBody());
  map.erase();
  return map = split;
}
