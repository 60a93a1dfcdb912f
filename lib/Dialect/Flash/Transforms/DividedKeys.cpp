//===- DividedKeys.cpp - quotients of the key's position by captured values, as bounds on the key -----------------===//

#include "DividedKeys.h"
#include "EmitLinear.h"
#include "flashc/Dialect/Flash/IR/SortedData.h"
#include "mlir/IR/Matchers.h"

using namespace mlir;
using namespace mlir::flash;

using Predicate = arith::CmpIPredicate;

/// If `expr` is a quotient plus a constant, returns the op of the quotient. Null for other expressions, and if the
/// divisor is constant.
static arith::FloorDivSIOp matchQuotient(const LinearExpr &expr) {
  Value shifted = expr.getShifted();
  auto quotient = shifted ? shifted.getDefiningOp<arith::FloorDivSIOp>() : arith::FloorDivSIOp();
  return quotient && !matchPattern(quotient.getRhs(), m_Constant()) ? quotient : arith::FloorDivSIOp();
}

namespace {
/// The comparison `(position + rest) floordiv divisor <predicate> limit`. `position` is the key or the query. `rest`,
/// `divisor` and `limit` depend neither on the key nor on the query, with one exception: if `position` is the key,
/// `limit` may be `ofQuery` plus a constant.
struct QuotientComparison {
  BlockArgument position;
  LinearExpr rest, limit;
  Value divisor;
  Predicate predicate;
  arith::FloorDivSIOp ofQuery; // the quotient of the query by `divisor` in `limit`, or null
};

/// Rewrites the comparisons of one region.
class QuotientBounds {
public:
  explicit QuotientBounds(Region &mask) : mask(mask), query(mask.getArgument(2)), key(mask.getArgument(3)) {}

  void rewrite(arith::CmpIOp op) {
    auto match = matchSides(op.getLhs(), op.getRhs(), op.getPredicate());
    if (!match)
      match = matchSides(op.getRhs(), op.getLhs(), swapSides(op.getPredicate()));
    if (!match)
      return;
    ImplicitLocOpBuilder b(op.getLoc(), op);
    if (Value keep = emit(b, *match))
      op.replaceAllUsesWith(keep);
  }

private:
  bool isUniform(const LinearExpr &expr) const {
    return llvm::all_of(expr.getTerms(), [&](const LinearExpr::Term &term) {
      return !dependsOn(term.value, query, mask) && !dependsOn(term.value, key, mask);
    });
  }

  std::optional<QuotientComparison> matchSides(Value side, Value other, Predicate predicate) const {
    LinearExpr lhs = LinearExpr::get(side), limit = LinearExpr::get(other);
    arith::FloorDivSIOp quotient = matchQuotient(lhs);
    if (!quotient || !isUniform(LinearExpr::symbol(quotient.getRhs())))
      return std::nullopt;
    LinearExpr dividend = LinearExpr::get(quotient.getLhs());
    BlockArgument position = dividend.getCoefficient(key) == 1 ? key : query;
    LinearExpr rest = dividend.without(position);
    if (dividend.getCoefficient(position) != 1 || !isUniform(rest))
      return std::nullopt;
    limit -= LinearExpr(lhs.getConstant());
    if (isUniform(limit))
      return QuotientComparison{position, rest, limit, quotient.getRhs(), predicate, {}};
    arith::FloorDivSIOp ofQuery = matchQuotient(limit);
    bool isOfQuery = ofQuery && ofQuery.getRhs() == quotient.getRhs() && !dependsOn(ofQuery.getLhs(), key, mask);
    if (position != key || !isOfQuery)
      return std::nullopt;
    return QuotientComparison{position, rest, limit, quotient.getRhs(), predicate, ofQuery};
  }

  /// Emits the comparison as bounds on the position. Null if its predicate is unsigned. If the divisor is positive, the
  /// quotients ascend with the position; if it is negative, they descend. So the sign of the divisor decides which
  /// position is the first one with a given quotient, and which is the last one.
  Value emit(ImplicitLocOpBuilder &b, const QuotientComparison &compare) const {
    Value divisor = emitLinear(b, LinearExpr::symbol(compare.divisor));
    Value isPositive = arith::CmpIOp::create(b, Predicate::sgt, divisor, arith::ConstantIndexOp::create(b, 0));
    auto isBehind = [&](int64_t margin) { return emitEdge(b, compare, divisor, isPositive, margin, /*isEnd=*/false); };
    auto isBefore = [&](int64_t margin) { return emitEdge(b, compare, divisor, isPositive, margin, /*isEnd=*/true); };
    auto negate = [&](Value condition) -> Value {
      return arith::XOrIOp::create(b, condition, arith::ConstantOp::create(b, b.getBoolAttr(true)));
    };
    auto either = [&](Value ifPositive, Value ifNegative) {
      Value isNegative = negate(isPositive);
      Value first = arith::AndIOp::create(b, isPositive, ifPositive);
      Value second = arith::AndIOp::create(b, isNegative, ifNegative);
      return arith::OrIOp::create(b, first, second).getResult();
    };
    if (compare.predicate == Predicate::eq || compare.predicate == Predicate::ne) { // the same for both signs
      Value first = isBehind(0), last = isBefore(0), both = arith::AndIOp::create(b, first, last);
      return compare.predicate == Predicate::eq ? both : negate(both);
    }
    auto atMost = [&](bool isStrict) {
      Value before = isBefore(isStrict ? -1 : 0), behind = isBehind(isStrict ? -1 : 0);
      return either(before, behind);
    };
    auto atLeast = [&](bool isStrict) {
      Value behind = isBehind(isStrict), before = isBefore(isStrict);
      return either(behind, before);
    };
    return emitSigned(b, b.getLoc(), compare.predicate, atMost, atLeast);
  }

  /// Emits whether the position is at or after the first position whose quotient is `limit + margin`. With `isEnd`,
  /// emits whether it is at or before the last position with this quotient.
  Value emitEdge(ImplicitLocOpBuilder &b, const QuotientComparison &compare, Value divisor, Value isPositive,
                 int64_t margin, bool isEnd) const {
    LinearExpr one = LinearExpr::symbol(divisor);
    LinearExpr multiple = one * margin;
    if (arith::FloorDivSIOp ofQuery = compare.ofQuery) {
      multiple += LinearExpr::symbol(arith::MulIOp::create(b, emitLinear(b, LinearExpr::symbol(ofQuery)), divisor));
      multiple += one * compare.limit.getConstant();
    } else {
      multiple += LinearExpr::symbol(arith::MulIOp::create(b, emitLinear(b, compare.limit), divisor));
    }
    LinearExpr start = multiple - compare.rest;
    // With m = `start` and d = `divisor`, the positions with this quotient are [m, m + d) if d > 0, and [m + d + 1, m +
    // 1) if d < 0.
    Value ifPositive = emitLinear(b, isEnd ? start + one : start);
    Value ifNegative = emitLinear(b, isEnd ? start + LinearExpr(1) : start + one + LinearExpr(1));
    Value edge = arith::SelectOp::create(b, isPositive, ifPositive, ifNegative);
    return arith::CmpIOp::create(b, isEnd ? Predicate::slt : Predicate::sge, compare.position, edge);
  }

  Region &mask;
  BlockArgument query, key;
};
} // namespace

bool mlir::flash::dividesByCaptured(Region &mask) {
  return llvm::any_of(mask.getOps<arith::FloorDivSIOp>(),
                      [](arith::FloorDivSIOp op) { return !matchPattern(op.getRhs(), m_Constant()); });
}

void mlir::flash::boundDividedKeys(Region &mask) {
  QuotientBounds bounds(mask);
  SmallVector<arith::CmpIOp> compares(mask.getOps<arith::CmpIOp>());
  for (arith::CmpIOp op : compares)
    bounds.rewrite(op);
}
