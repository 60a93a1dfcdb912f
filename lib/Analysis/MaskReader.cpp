//===- MaskReader.cpp - a mask region as a union of conjunctions --------------------------------------------------===//

#include "MaskAlgebra.h"
#include "flashc/Dialect/Flash/IR/SortedData.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/IR/Matchers.h"

using namespace mlir;
using namespace mlir::flash;

namespace {
using Predicate = arith::CmpIPredicate;

/// Reads one mask region as two sets: the pairs that the mask keeps, and the pairs that it cuts.
class MaskReader : MaskAlgebra {
public:
  MaskReader(Region &mask, function_ref<bool(Value)> isAvailable)
      : MaskAlgebra(set, mask.getParentOp()), region(mask), query(mask.getArgument(2)), key(mask.getArgument(3)),
        rows(mask), isAvailable(isAvailable) {}

  MaskSet read() {
    Value condition = cast<YieldOp>(region.front().getTerminator()).getValue();
    set.kept = simplify(dropCases(visit(condition, true)));
    set.cut = simplify(dropCases(visit(condition, false)));
    return std::move(set);
  }

private:
  /// Returns the result of `compute`, and caches it under `key` together with the op that was not understood, if any.
  template <typename Map, typename Key, typename Function> auto remember(Map &known, const Key &key, Function compute) {
    if (auto found = known.find(key); found != known.end()) {
      culprit = culprit ? culprit : found->second.culprit;
      return found->second.result;
    }
    Operation *before = std::exchange(culprit, nullptr);
    auto result = compute();
    known[key] = {result, culprit};
    culprit = before ? before : culprit;
    return result;
  }

  //===------------------------------------------------------------------------------------------------------------===//
  // Conditions
  //===------------------------------------------------------------------------------------------------------------===//

  /// Returns the pairs for which `condition` has the value `holds`.
  Union visit(Value condition, bool holds) {
    auto known = visited.find({condition, holds});
    if (known != visited.end())
      return known->second;
    Union result = visitNew(condition, holds);
    visited[{condition, holds}] = result;
    return result;
  }

  Union visitNew(Value condition, bool holds) {
    IntegerAttr constant;
    if (matchPattern(condition, m_Constant(&constant)))
      return constant.getValue().isZero() == holds ? nothing() : everything();
    Operation *op = condition.getDefiningOp();
    if (isa_and_nonnull<arith::AndIOp, arith::OrIOp>(op)) {
      Union lhs = visit(op->getOperand(0), holds), rhs = visit(op->getOperand(1), holds);
      return isa<arith::AndIOp>(op) == holds ? conjoin(lhs, rhs) : disjoin(lhs, rhs);
    }
    if (isa_and_nonnull<arith::XOrIOp>(op))
      return visitEqual(op->getOperand(0), op->getOperand(1), !holds);
    if (auto select = dyn_cast_or_null<arith::SelectOp>(op))
      return disjoin(conjoin(visit(select.getCondition(), true), visit(select.getTrueValue(), holds)),
                     conjoin(visit(select.getCondition(), false), visit(select.getFalseValue(), holds)));
    if (auto compare = dyn_cast_or_null<arith::CmpIOp>(op)) {
      if (compare.getLhs().getType().isInteger(1)) {
        if (compare.getPredicate() == Predicate::eq || compare.getPredicate() == Predicate::ne)
          return visitEqual(compare.getLhs(), compare.getRhs(), (compare.getPredicate() == Predicate::eq) == holds);
      } else {
        culprit = nullptr;
        if (std::optional<Union> result = visitCompare(compare, holds))
          return *result;
        op = culprit ? culprit : op;
      }
    }
    if (isUniform(condition)) {
      MaskExpr flag = MaskExpr::variable(set.space.getSymbol(condition));
      return require(holds ? flag - 1 : flag * -1);
    }
    return unknown(op);
  }

  /// Returns the pairs for which two conditions are equal or, without `areEqual`, different.
  Union visitEqual(Value a, Value b, bool areEqual) {
    return disjoin(conjoin(visit(a, true), visit(b, areEqual)), conjoin(visit(a, false), visit(b, !areEqual)));
  }

  /// Returns the pairs for which a comparison has the value `holds`. Returns nullopt if a side is not understood.
  std::optional<Union> visitCompare(arith::CmpIOp op, bool holds) {
    Predicate predicate = holds ? op.getPredicate() : arith::invertPredicate(op.getPredicate());
    Value lhs = op.getLhs(), rhs = op.getRhs();
    if (predicate == Predicate::eq || predicate == Predicate::ne) {
      bool isEqual = predicate == Predicate::eq;
      return join(isEqual, atLeast(lhs, rhs, !isEqual), atLeast(rhs, lhs, !isEqual));
    }
    bool isBelow = predicate == Predicate::ult || predicate == Predicate::ule;
    if (predicate >= Predicate::ult) // uge and ugt are the negations of ult and ule
      return belowUnsigned(lhs, rhs, predicate == Predicate::ult || predicate == Predicate::uge, isBelow);
    bool isStrict = predicate == Predicate::slt || predicate == Predicate::sgt;
    if (predicate == Predicate::slt || predicate == Predicate::sle)
      std::swap(lhs, rhs);
    return atLeast(lhs, rhs, isStrict);
  }

  /// Reads an unsigned comparison `x < limit` as `0 <= x < limit`. The limit must be known not to be negative.
  std::optional<Union> belowUnsigned(Value x, Value limit, bool isStrict, bool holds) {
    std::optional<Pieces> limits = getPieces(limit), values = getPieces(x);
    if (!limits || !values || limits->size() != 1 || !set.space.isNatural(limits->front().value))
      return std::nullopt;
    Union result;
    for (const Piece &piece : *values) {
      MaskExpr fromZero = piece.value, toLimit = limits->front().value - piece.value - (isStrict ? 1 : 0);
      Union isInside = holds ? conjoin(require(fromZero), require(toLimit))
                             : disjoin(require(fromZero * -1 - 1), require(toLimit * -1 - 1));
      result = disjoin(result, conjoin({piece.guard}, isInside));
    }
    return result;
  }

  /// Reads `a >= b + margin`. If a side is a minimum or a maximum, the result is a conjunction or disjunction of
  /// comparisons.
  std::optional<Union> atLeast(Value a, Value b, int64_t margin) {
    return remember(comparisons, std::pair{std::pair{a, b}, margin}, [&] { return compareValues(a, b, margin); });
  }

  std::optional<Union> compareValues(Value a, Value b, int64_t margin) {
    if (!isUniform(a) && !rows.isSearched(a))
      if (Operation *op = a.getDefiningOp(); isa_and_nonnull<arith::MinSIOp, arith::MaxSIOp>(op))
        return join(isa<arith::MinSIOp>(op), atLeast(op->getOperand(0), b, margin),
                    atLeast(op->getOperand(1), b, margin));
    if (!isUniform(b) && !rows.isSearched(b))
      if (Operation *op = b.getDefiningOp(); isa_and_nonnull<arith::MinSIOp, arith::MaxSIOp>(op))
        return join(isa<arith::MaxSIOp>(op), atLeast(a, op->getOperand(0), margin),
                    atLeast(a, op->getOperand(1), margin));
    std::optional<Pieces> lhs = getPieces(a), rhs = getPieces(b);
    if (!lhs || !rhs)
      return std::nullopt;
    Union result;
    for (const Piece &x : *lhs)
      for (const Piece &y : *rhs)
        result = disjoin(result, conjoin(conjoin({x.guard}, {y.guard}), require(x.value - y.value - margin)));
    return result;
  }

  std::optional<Union> join(bool isConjunction, const std::optional<Union> &a, const std::optional<Union> &b) {
    if (!a || !b)
      return std::nullopt;
    return isConjunction ? conjoin(*a, *b) : disjoin(*a, *b);
  }

  //===------------------------------------------------------------------------------------------------------------===//
  // Integers
  //===------------------------------------------------------------------------------------------------------------===//

  /// Returns an integer as a piecewise linear function. Returns nullopt if it is not known to be one.
  std::optional<Pieces> getPieces(Value value) {
    return remember(pieces, value, [&] { return computePieces(value); });
  }

  std::optional<Pieces> computePieces(Value value) {
    LinearExpr linear = LinearExpr::get(value);
    std::optional<Pieces> sum = make(linear.getConstant());
    for (const LinearExpr::Term &term : linear.getTerms()) {
      std::optional<Pieces> pieces = sum ? getTerm(term.value) : std::nullopt;
      if (!pieces)
        return std::nullopt;
      sum = combine(*sum, *pieces, [&](const MaskExpr &a, const MaskExpr &b) { return a + b * term.coefficient; });
    }
    return sum;
  }

  std::optional<Pieces> getTerm(Value value) {
    if (value == query || value == key)
      return make(MaskExpr::variable(value == query ? MaskSpace::Query : MaskSpace::Key));
    if (matchPattern(value, m_Constant())) // the constant is too large
      return std::nullopt;
    if (isUniform(value))
      return make(MaskExpr::variable(set.space.getSymbol(value)));
    if (rows.isSearched(value))
      return getRow(value);
    std::optional<Pieces> pieces = getComputed(value);
    if (!pieces && !culprit)
      culprit = value.getDefiningOp();
    return pieces;
  }

  std::optional<Pieces> getComputed(Value value) {
    Operation *op = value.getDefiningOp();
    bool isNarrow = isa<IntegerType>(value.getType()) && value.getType().getIntOrFloatBitWidth() < 32;
    if (!op || isNarrow)
      return std::nullopt;
    if (auto select = dyn_cast<arith::SelectOp>(op))
      return getSelect(select);
    if (isa<arith::MinSIOp, arith::MaxSIOp>(op))
      return getExtremum(op);
    if (isa<arith::ExtUIOp, arith::IndexCastUIOp>(op))
      return getUnsigned(op->getOperand(0));
    if (auto absolute = dyn_cast<math::AbsIOp>(op))
      return getBySign(
          absolute.getOperand(), [](const MaskExpr &x) { return x; }, [](const MaskExpr &x) { return x * -1; });
    return getQuotient(op);
  }

  std::optional<Pieces> getRow(Value value) {
    if (!isRowAvailable(value))
      return std::nullopt;
    return make(MaskExpr::variable(set.space.getRowFunction(value, compareWithQuery(value, region))));
  }

  /// Whether all values that a row function captures are available.
  bool isRowAvailable(Value value) {
    auto isLeaf = [&](Value leaf) { return leaf == query || (leaf != key && isAvailable(leaf)); };
    return isComputedFrom(value, region, isLeaf, available);
  }

  std::optional<Pieces> getSelect(arith::SelectOp op) {
    std::optional<Pieces> onTrue = getPieces(op.getTrueValue()), onFalse = getPieces(op.getFalseValue());
    if (!onTrue || !onFalse)
      return std::nullopt;
    return select(visit(op.getCondition(), true), *onTrue, visit(op.getCondition(), false), *onFalse);
  }

  std::optional<Pieces> getExtremum(Operation *op) {
    std::optional<Pieces> lhs = getPieces(op->getOperand(0)), rhs = getPieces(op->getOperand(1));
    if (!lhs || !rhs)
      return std::nullopt;
    return MaskAlgebra::getExtremum(*lhs, *rhs, isa<arith::MinSIOp>(op));
  }

  /// Reads an unsigned extension. A condition becomes 0 or 1; an integer that is not negative stays the same.
  std::optional<Pieces> getUnsigned(Value operand) {
    if (!operand.getType().isInteger(1))
      return isNatural(operand) ? getPieces(operand) : std::nullopt;
    return select(visit(operand, true), *make(1), visit(operand, false), *make(0));
  }

  std::optional<Pieces> map(Value value, function_ref<MaskExpr(const MaskExpr &)> compute) {
    std::optional<Pieces> pieces = getPieces(value);
    if (pieces)
      for (Piece &piece : *pieces)
        piece.value = compute(piece.value);
    return pieces;
  }

  /// Applies `ifNatural` to `value` where it is >= 0, and `ifNegative` where it is negative.
  std::optional<Pieces> getBySign(Value value, function_ref<MaskExpr(const MaskExpr &)> ifNatural,
                                  function_ref<MaskExpr(const MaskExpr &)> ifNegative) {
    std::optional<Pieces> pieces = getPieces(value);
    if (!pieces)
      return std::nullopt;
    return MaskAlgebra::getBySign(*pieces, ifNatural, ifNegative);
  }

  /// Reads quotients and remainders by constants. They may have the form of shifts and bit masks.
  std::optional<Pieces> getQuotient(Operation *op) {
    APInt constant;
    if (op->getNumOperands() != 2 || !matchPattern(op->getOperand(1), m_ConstantInt(&constant)) ||
        constant.getSignificantBits() > 32)
      return std::nullopt;
    int64_t divisor = constant.getSExtValue();
    Value dividend = op->getOperand(0);
    auto floorBy = [&](int64_t d) { return [this, d](const MaskExpr &x) { return set.space.floorDiv(x, d); }; };
    auto ceilBy = [&](int64_t d) { return [this, d](const MaskExpr &x) { return set.space.ceilDiv(x, d); }; };
    auto remainderBy = [&](int64_t d) {
      return [this, d](const MaskExpr &x) { return x - set.space.floorDiv(x, d) * d; };
    };
    if (isa<arith::AndIOp>(op)) { // x & (2^n - 1) is x mod 2^n in two's complement
      if (divisor <= 0 || !llvm::isPowerOf2_64(divisor + 1))
        return std::nullopt;
      return map(dividend, remainderBy(divisor + 1));
    }
    if (isa<arith::XOrIOp>(op) && divisor == -1) // inverting all bits of x gives -x - 1
      return map(dividend, [](const MaskExpr &x) { return x * -1 - 1; });
    if (isa<arith::ShRSIOp, arith::ShRUIOp>(op)) {
      if (divisor < 0 || divisor > 30 || (isa<arith::ShRUIOp>(op) && !isNatural(dividend)))
        return std::nullopt;
      return map(dividend, floorBy(int64_t(1) << divisor));
    }
    if (isa<arith::DivUIOp, arith::RemUIOp>(op) && (divisor <= 0 || !isNatural(dividend)))
      return std::nullopt;
    if (divisor <= 0) // quotients by negative constants are not supported
      return std::nullopt;
    if (isa<arith::FloorDivSIOp>(op))
      return map(dividend, floorBy(divisor));
    if (isa<arith::CeilDivSIOp>(op))
      return map(dividend, ceilBy(divisor));
    if (isa<arith::DivSIOp, arith::DivUIOp>(op)) // these ops round towards 0
      return getBySign(dividend, floorBy(divisor), ceilBy(divisor));
    auto negativeRemainder = [this, divisor](const MaskExpr &x) { return x - set.space.ceilDiv(x, divisor) * divisor; };
    if (isa<arith::RemSIOp, arith::RemUIOp>(op))
      return getBySign(dividend, remainderBy(divisor), negativeRemainder);
    return std::nullopt;
  }

  bool isNatural(Value value) {
    std::optional<Pieces> pieces = getPieces(value);
    return pieces && llvm::all_of(*pieces, [&](const Piece &piece) { return set.space.isNatural(piece.value); });
  }

  /// Whether a value is the same for all i and j, and can be computed before the loop.
  bool isUniform(Value value) {
    auto isLeaf = [&](Value leaf) { return leaf != query && leaf != key && isAvailable(leaf); };
    return isComputedFrom(value, region, isLeaf, uniform);
  }

  Region &region;
  Value query, key;
  RowFunctions rows;
  function_ref<bool(Value)> isAvailable;
  MaskSet set;
  Operation *culprit = nullptr; // the innermost op because of which a comparison was not understood

  // Several ops may use one value: without these caches, reading n ops could take 2^n steps.
  template <typename Result> struct Known {
    Result result;
    Operation *culprit;
  };
  DenseMap<std::pair<Value, unsigned>, Union> visited;
  DenseMap<std::pair<std::pair<Value, Value>, int64_t>, Known<std::optional<Union>>> comparisons;
  DenseMap<Value, Known<std::optional<Pieces>>> pieces;
  DenseMap<Value, bool> uniform, available;
};
} // namespace

MaskSet mlir::flash::readMask(Region &mask, function_ref<bool(Value)> isAvailable) {
  return MaskReader(mask, isAvailable).read();
}
