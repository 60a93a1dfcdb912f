//===- LinearExpr.cpp - a linear combination of SSA values --------------------------------------------------------===//

#include "flashc/Analysis/LinearExpr.h"
#include "mlir/Dialect/Affine/IR/AffineOps.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/Matchers.h"

using namespace mlir;
using namespace mlir::flash;

/// Whether two values are known to be equal.
static bool isSame(Value a, Value b) {
  if (a == b)
    return true;
  auto dimA = a.getDefiningOp<tensor::DimOp>(), dimB = b.getDefiningOp<tensor::DimOp>();
  return dimA && dimB && dimA.getSource() == dimB.getSource() && dimA.getConstantIndex() &&
         dimA.getConstantIndex() == dimB.getConstantIndex();
}

LinearExpr LinearExpr::symbol(Value value) {
  LinearExpr expr;
  expr.terms.push_back({value, 1});
  return expr;
}

/// Sums of positions and a few constants of at most this size do not overflow. Sums with larger constants may.
static constexpr int64_t kMaxConstant = int64_t(1) << 32;

namespace {
/// Reads sums. Several ops may use one value: without a cache, reading n ops could take 2^n steps.
class SumReader {
public:
  LinearExpr get(Value value);
  std::optional<LinearExpr> get(AffineExpr expr, unsigned numDims, ValueRange operands);

private:
  LinearExpr compute(Value value, Operation *op);

  llvm::SmallDenseMap<Value, LinearExpr, 4> known;
};
} // namespace

// If isSmall(x) and isFactor(y), the product of x and y fits 64 bits.
static bool isSmall(int64_t number) { return -kMaxConstant <= number && number <= kMaxConstant; }
static bool isFactor(int64_t number) { return -kMaxConstant / 4 <= number && number <= kMaxConstant / 4; }

static bool isSmall(const LinearExpr &expr) {
  return isSmall(expr.getConstant()) &&
         llvm::all_of(expr.getTerms(), [](const LinearExpr::Term &term) { return isSmall(term.coefficient); });
}

LinearExpr SumReader::get(Value value) {
  APInt constant;
  if (matchPattern(value, m_ConstantInt(&constant)) && constant.getSignificantBits() <= 64 &&
      std::abs(constant.getSExtValue() >> 1) <= kMaxConstant / 2)
    return LinearExpr(constant.getSExtValue());
  Operation *op = value.getDefiningOp();
  bool isNarrow = isa<IntegerType>(value.getType()) && value.getType().getIntOrFloatBitWidth() < 32;
  if (!op || isNarrow)
    return LinearExpr::symbol(value);
  if (auto found = known.find(value); found != known.end())
    return found->second;
  LinearExpr expr = compute(value, op);
  if (!isSmall(expr))
    expr = LinearExpr::symbol(value);
  known.insert({value, expr});
  return expr;
}

LinearExpr SumReader::compute(Value value, Operation *op) {
  if (isa<arith::AddIOp>(op))
    return get(op->getOperand(0)) + get(op->getOperand(1));
  if (isa<arith::SubIOp>(op))
    return get(op->getOperand(0)) - get(op->getOperand(1));
  if (isa<arith::IndexCastOp, arith::ExtSIOp>(op))
    return get(op->getOperand(0));
  if (isa<arith::MulIOp>(op)) {
    LinearExpr lhs = get(op->getOperand(0)), rhs = get(op->getOperand(1));
    if (auto factor = rhs.getConstantValue(); factor && isFactor(*factor))
      return lhs *= *factor;
    if (auto factor = lhs.getConstantValue(); factor && isFactor(*factor))
      return rhs *= *factor;
  }
  APInt shift;
  if (isa<arith::ShLIOp>(op) && matchPattern(op->getOperand(1), m_ConstantInt(&shift)) && shift.ult(31))
    return get(op->getOperand(0)) * (int64_t(1) << shift.getZExtValue());
  if (auto apply = dyn_cast<affine::AffineApplyOp>(op))
    if (auto expr = get(apply.getAffineMap().getResult(0), apply.getAffineMap().getNumDims(), apply.getMapOperands()))
      return *expr;
  return LinearExpr::symbol(value);
}

LinearExpr LinearExpr::get(Value value) { return SumReader().get(value); }

LinearExpr LinearExpr::get(OpFoldResult value) {
  if (auto constant = getConstantIntValue(value))
    return LinearExpr(*constant);
  return get(cast<Value>(value));
}

std::optional<LinearExpr> SumReader::get(AffineExpr expr, unsigned numDims, ValueRange operands) {
  if (auto constant = dyn_cast<AffineConstantExpr>(expr))
    return LinearExpr(constant.getValue());
  if (auto dim = dyn_cast<AffineDimExpr>(expr))
    return get(operands[dim.getPosition()]);
  if (auto symbol = dyn_cast<AffineSymbolExpr>(expr))
    return get(operands[numDims + symbol.getPosition()]);
  auto binary = cast<AffineBinaryOpExpr>(expr);
  auto lhs = get(binary.getLHS(), numDims, operands), rhs = get(binary.getRHS(), numDims, operands);
  if (!lhs || !rhs)
    return std::nullopt;
  if (expr.getKind() == AffineExprKind::Add)
    return *lhs + *rhs;
  if (auto factor = rhs->getConstantValue(); factor && isFactor(*factor) && expr.getKind() == AffineExprKind::Mul)
    return *lhs * *factor;
  return std::nullopt;
}

std::optional<LinearExpr> LinearExpr::get(AffineExpr expr, unsigned numDims, ValueRange operands) {
  return SumReader().get(expr, numDims, operands);
}

LinearExpr &LinearExpr::operator*=(int64_t factor) {
  constant *= factor;
  for (Term &term : terms)
    term.coefficient *= factor;
  if (factor == 0)
    terms.clear();
  return *this;
}

LinearExpr &LinearExpr::add(const LinearExpr &other, int64_t factor) {
  constant += factor * other.constant;
  for (const Term &term : other.terms) {
    Term *mine = llvm::find_if(terms, [&](const Term &t) { return isSame(t.value, term.value); });
    if (mine == terms.end())
      terms.push_back({term.value, factor * term.coefficient});
    else if ((mine->coefficient += factor * term.coefficient) == 0)
      terms.erase(mine);
  }
  return *this;
}

std::optional<int64_t> LinearExpr::getConstantValue() const {
  if (!terms.empty())
    return std::nullopt;
  return constant;
}

int64_t LinearExpr::getCoefficient(Value value) const {
  for (const Term &term : terms)
    if (isSame(term.value, value))
      return term.coefficient;
  return 0;
}

LinearExpr LinearExpr::without(Value value) const { return *this - symbol(value) * getCoefficient(value); }
