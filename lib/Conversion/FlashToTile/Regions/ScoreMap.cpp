//===- ScoreMap.cpp - algebra on score maps -----------------------------------------------------------------------===//

#include "Regions/ScoreMap.h"
#include "Regions/ScoreSplit.h"
#include "flashc/Analysis/MaskProver.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/IR/Matchers.h"

using namespace mlir;
using namespace flashc;

bool flashc::isExponentFactor(double factor) { return factor >= 0x1p-60 && factor <= 0x1p20; }

static Value constant(OpBuilder &b, Location loc, double value) {
  return arith::ConstantOp::create(b, loc, b.getF32FloatAttr(static_cast<float>(value)));
}

Value flashc::scaleTerm(OpBuilder &b, tile::MapOp map, Value term, double factor) {
  Location loc = term.getLoc();
  if (factor == 1.0)
    return term;
  if (map.isSameInRow(term))
    return arith::MulFOp::create(b, loc, term, constant(b, loc, factor));
  auto product = term.getDefiningOp<arith::MulFOp>();
  if (!product || !map.getBody().isAncestor(term.getParentRegion()))
    return {};
  for (unsigned operand : {0u, 1u})
    if (Value same = product->getOperand(operand); map.isSameInRow(same)) {
      Value scaled = arith::MulFOp::create(b, loc, same, constant(b, loc, factor));
      return arith::MulFOp::create(b, loc, scaled, product->getOperand(1 - operand));
    }
  return {};
}

std::optional<double> flashc::getConstantFactor(Region &region, Value value, Value &other) {
  Operation *def = value.getDefiningOp();
  if (!isa_and_nonnull<arith::MulFOp, arith::DivFOp>(def) || !region.isAncestor(value.getParentRegion()) ||
      !value.getType().isF32())
    return std::nullopt;
  for (unsigned operand : {1u, 0u}) {
    FloatAttr constant;
    if (!matchPattern(def->getOperand(operand), m_Constant(&constant)) || (operand == 0 && isa<arith::DivFOp>(def)))
      continue;
    other = def->getOperand(1 - operand);
    double number = constant.getValueAsDouble();
    return isa<arith::DivFOp>(def) ? 1.0 / number : number;
  }
  return std::nullopt;
}

namespace {
/// Where the keys that a query sees lie: at or before the query, at or after it, or anywhere.
enum class KeyOrder { Before, Behind, Any };
} // namespace

/// Returns where the keys that `mask` keeps lie.
static KeyOrder getKeyOrder(Region &mask) {
  flash::MaskSet set = flash::readMask(mask);
  flash::MaskProver prover(set.space);
  flash::MaskExpr query = flash::MaskExpr::variable(flash::MaskSpace::Query);
  flash::MaskExpr key = flash::MaskExpr::variable(flash::MaskSpace::Key);
  auto isKept = [&](const flash::MaskExpr &natural) {
    return llvm::all_of(
        set.kept, [&](const flash::MaskConjunct &conjunct) { return prover.implies(conjunct.constraints, natural); });
  };
  return isKept(query - key) ? KeyOrder::Before : isKept(key - query) ? KeyOrder::Behind : KeyOrder::Any;
}

namespace {
class Simplifier {
public:
  Simplifier(tile::MapOp map, bool rowsAreKeys)
      : map(map), rowsAreKeys(rowsAreKeys), yield(cast<tile::YieldOp>(map.getBody().front().getTerminator())) {}

  ScoreMap run(bool canSplit, bool toProduct, Region *mask) {
    double factor = 1.0;
    if (mask)
      dropMagnitudes(*mask);
    divideByMultiplying();
    ScoreSplit split(map);
    while (takeFactor(factor) || (canSplit && split.takeTerms(factor)) || addToRawScore(factor)) {
    }
    Value slopes = toProduct ? split.takeSlopes(factor) : Value();
    map = split.finish(factor);
    mergeFactors();
    allowContraction();
    return {map, factor, slopes};
  }

  void runKeepingResult(Region *mask) {
    if (mask)
      dropMagnitudes(*mask);
    divideByMultiplying();
    mergeFactors();
    allowContraction();
  }

private:
  bool isInside(Value value) { return map.getBody().isAncestor(value.getParentRegion()); }

  std::optional<double> getFactor(Value value, Value &other) { return getConstantFactor(map.getBody(), value, other); }

  /// Returns the factor if `value` is a constant times the raw score. None otherwise.
  std::optional<double> getScale(Value value) {
    Value score;
    std::optional<double> scale = getFactor(value, score);
    return scale && score == map.getBody().getArgument(0) && isExponentFactor(*scale) ? scale : std::nullopt;
  }

  void dropMagnitudes(Region &mask);
  void divideByMultiplying();
  bool takeFactor(double &factor);
  bool addToRawScore(double &factor);
  void mergeFactors();
  void allowContraction();

  tile::MapOp map;
  bool rowsAreKeys;
  tile::YieldOp yield;
};
} // namespace

/// Returns `value`, a position or a difference of two positions, without widening casts. These casts change no value,
/// since positions are below 2^30.
static Value skipCasts(Value value) {
  auto isWide = [](Type type) { return type.isIndex() || type.getIntOrFloatBitWidth() >= 32; };
  while (isa_and_nonnull<arith::IndexCastOp, arith::ExtSIOp>(value.getDefiningOp()) && isWide(value.getType()))
    value = value.getDefiningOp()->getOperand(0);
  return value;
}

/// Replaces |i - j| and |j - i| if the mask keeps only pairs for which the difference has one sign.
void Simplifier::dropMagnitudes(Region &mask) {
  std::optional<KeyOrder> order;
  Value i = map.getBody().getArgument(1), j = map.getBody().getArgument(2);
  if (rowsAreKeys)
    std::swap(i, j);
  for (Operation &op : llvm::make_early_inc_range(map.getBody().front())) {
    Value operand = tile::getMagnitudeOperand(&op);
    auto difference = operand ? skipCasts(operand).getDefiningOp<arith::SubIOp>() : arith::SubIOp();
    if (!difference)
      continue;
    Value from = skipCasts(difference.getLhs()), subtracted = skipCasts(difference.getRhs());
    if ((from != i || subtracted != j) && (from != j || subtracted != i))
      continue;
    if (!order)
      order = getKeyOrder(mask);
    if (order == KeyOrder::Any)
      return;
    if ((from == i) != (order == KeyOrder::Before)) {
      OpBuilder b(&op);
      Value zero = arith::ConstantOp::create(b, op.getLoc(), b.getZeroAttr(operand.getType()));
      operand = arith::SubIOp::create(b, op.getLoc(), zero, operand);
    }
    op.getResult(0).replaceAllUsesWith(operand);
  }
}

/// Replaces x / y, where y is known before the loop, by x * (1 / y). The reciprocal is computed before the loop.
void Simplifier::divideByMultiplying() {
  for (auto division : llvm::make_early_inc_range(map.getBody().getOps<arith::DivFOp>())) {
    Value divisor = division.getRhs();
    if (isInside(divisor) || !division.getType().isF32() || matchPattern(divisor, m_Constant()))
      continue;
    Operation *loop = map;
    while (Operation *parent = loop->getParentOfType<scf::ForOp>()) {
      if (!cast<scf::ForOp>(parent).isDefinedOutsideOfLoop(divisor))
        break;
      loop = parent;
    }
    OpBuilder outside(loop), b(division);
    Location loc = division.getLoc();
    Value inverse = arith::DivFOp::create(outside, loc, constant(outside, loc, 1.0), divisor);
    division.replaceAllUsesWith(arith::MulFOp::create(b, loc, division.getLhs(), inverse).getResult());
    division.erase();
  }
}

/// If the score is a product with a constant, removes the constant and multiplies `factor` by it.
bool Simplifier::takeFactor(double &factor) {
  Value other;
  std::optional<double> constant = getFactor(yield.getValue(), other);
  if (!constant || !isExponentFactor(*constant) || !isExponentFactor(factor * *constant))
    return false;
  yield.getValueMutable().assign(other);
  factor *= *constant;
  return true;
}

/// Rewrites a score that is scale * s plus or minus a term. If dividing the term by the scale costs an element nothing,
/// the score becomes s plus the divided term, and `factor` gets the scale. Otherwise one instruction scales and adds.
bool Simplifier::addToRawScore(double &factor) {
  Operation *sum = yield.getValue().getDefiningOp();
  if (!isa_and_nonnull<arith::AddFOp, arith::SubFOp>(sum) || !isInside(yield.getValue()))
    return false;
  bool isDifference = isa<arith::SubFOp>(sum);
  unsigned position = isDifference || getScale(sum->getOperand(0)) ? 0 : 1;
  std::optional<double> scale = getScale(sum->getOperand(position));
  if (!scale || !isExponentFactor(factor * *scale))
    return false;
  OpBuilder b(yield);
  Location loc = sum->getLoc();
  Value score = map.getBody().getArgument(0), term = sum->getOperand(1 - position), result;
  if (Value scaled = scaleTerm(b, map, term, (isDifference ? -1.0 : 1.0) / *scale)) {
    result = arith::AddFOp::create(b, loc, score, scaled);
    factor *= *scale;
  } else {
    if (isDifference)
      term = arith::NegFOp::create(b, loc, term);
    result = math::FmaOp::create(b, loc, score, constant(b, loc, *scale), term);
  }
  yield.getValueMutable().assign(result);
  return true;
}

/// Rewrites (x * a) * b to x * (a * b) for constants a and b.
void Simplifier::mergeFactors() {
  for (Operation &op : llvm::make_early_inc_range(map.getBody().front())) {
    Value inner, innermost;
    std::optional<double> outer = op.getNumResults() == 1 ? getFactor(op.getResult(0), inner) : std::nullopt;
    std::optional<double> product = outer ? getFactor(inner, innermost) : std::nullopt;
    double merged = product ? *outer * *product : 0.0;
    if (!isExponentFactor(std::abs(merged)))
      continue;
    OpBuilder b(&op);
    Value result = arith::MulFOp::create(b, op.getLoc(), innermost, constant(b, op.getLoc(), merged));
    op.getResult(0).replaceAllUsesWith(result);
  }
}

void Simplifier::allowContraction() {
  map.getBody().walk([](arith::ArithFastMathInterface op) {
    auto flags = arith::FastMathFlags::contract;
    if (arith::FastMathFlagsAttr known = op.getFastMathFlagsAttr())
      flags = flags | known.getValue();
    if (isa<arith::AddFOp, arith::SubFOp, arith::MulFOp>(op.getOperation()))
      op->setAttr(op.getFastMathAttrName(), arith::FastMathFlagsAttr::get(op->getContext(), flags));
  });
}

void flashc::simplifyDerivativeMap(tile::MapOp map, Region *mask, bool rowsAreKeys) {
  Simplifier(map, rowsAreKeys).runKeepingResult(mask);
}

ScoreMap flashc::simplifyScoreMap(tile::MapOp map, bool canSplit, bool toProduct, Region *mask, bool rowsAreKeys) {
  return Simplifier(map, rowsAreKeys).run(canSplit, toProduct, mask);
}

//===--------------------------------------------------------------------------------------------------------------===//
// Bounds
//===--------------------------------------------------------------------------------------------------------------===//

namespace {
/// Bounds the magnitudes of values. It remembers the bounds, since ops share operands: without memory, n ops could take
/// 2^n steps.
class BoundReader {
public:
  std::optional<double> get(Value value) {
    if (auto found = known.find(value); found != known.end())
      return found->second;
    std::optional<double> bound = compute(value);
    known[value] = bound;
    return bound;
  }

private:
  std::optional<double> compute(Value value);

  DenseMap<Value, std::optional<double>> known;
};
} // namespace

std::optional<double> BoundReader::compute(Value value) {
  FloatAttr constant;
  if (matchPattern(value, m_Constant(&constant)))
    return std::abs(constant.getValueAsDouble());
  Operation *def = value.getDefiningOp();
  if (isa_and_nonnull<math::TanhOp, math::SinOp, math::CosOp, math::ErfOp>(def))
    return 1.0;
  if (isa_and_nonnull<arith::NegFOp, math::AbsFOp>(def))
    return get(def->getOperand(0));
  if (!isa_and_nonnull<arith::AddFOp, arith::SubFOp, arith::MulFOp, arith::DivFOp, arith::SelectOp>(def))
    return std::nullopt;
  unsigned count = def->getNumOperands(); // the first operand of a select is the condition
  std::optional<double> x = get(def->getOperand(count - 2)), y = get(def->getOperand(count - 1));
  if (!x || !y)
    return std::nullopt;
  if (isa<arith::SelectOp>(def))
    return std::max(*x, *y);
  if (isa<arith::MulFOp>(def))
    return *x * *y;
  if (!isa<arith::DivFOp>(def))
    return *x + *y;
  if (!matchPattern(def->getOperand(1), m_Constant(&constant)) || *y == 0.0)
    return std::nullopt;
  return *x / *y;
}

std::optional<double> flashc::getScoreBound(Region &score) {
  return BoundReader().get(score.front().getTerminator()->getOperand(0));
}

//===--------------------------------------------------------------------------------------------------------------===//
// Slopes
//===--------------------------------------------------------------------------------------------------------------===//

bool flashc::hasSlopes(Region &score, double scale) {
  MLIRContext *context = score.getContext();
  context->loadDialect<tile::TileDialect, arith::ArithDialect, math::MathDialect, scf::SCFDialect>();
  Location loc = score.getLoc();
  OwningOpRef<ModuleOp> scratch = ModuleOp::create(loc); // a kernel that contains only the map
  OpBuilder b = OpBuilder::atBlockEnd(scratch->getBody());
  Value zero = arith::ConstantIndexOp::create(b, loc, 0);
  auto type = tile::getAccType(tile::kBlockCols, b.getF32Type());
  Value scores = arith::ConstantOp::create(b, loc, cast<TypedAttr>(b.getZeroAttr(type)));
  auto loop = scf::ForOp::create(b, loc, zero, zero, zero);
  b.setInsertionPointToStart(loop.getBody());
  auto map = tile::MapOp::create(b, loc, scores, zero, loop.getInductionVar());
  Type types[] = {b.getF32Type(), b.getIndexType(), b.getIndexType()};
  Block *body = b.createBlock(&map.getBody(), {}, types, {loc, loc, loc});
  Value scaled = arith::MulFOp::create(b, loc, body->getArgument(0), constant(b, loc, scale));
  IRMapping mapping;
  mapping.map(score.getArguments(), ValueRange{scaled, zero, zero, body->getArgument(1), body->getArgument(2)});
  for (Operation &op : score.front().without_terminator())
    b.clone(op, mapping);
  tile::YieldOp::create(b, loc, mapping.lookupOrDefault(score.front().getTerminator()->getOperand(0)));
  return static_cast<bool>(simplifyScoreMap(map, /*canSplit=*/true, /*toProduct=*/true, /*mask=*/nullptr,
                                            /*rowsAreKeys=*/false)
                               .slopes);
}
