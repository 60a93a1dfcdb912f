//===- MaskReader.cpp - a mask region as a union of conjunctions --------------------------------------------------===//

#include "flashc/Analysis/MaskProver.h"
#include "flashc/Dialect/Flash/IR/Flash.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/IR/Matchers.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

using namespace mlir;
using namespace mlir::flash;

namespace {
using Union = std::vector<MaskConjunct>;
using Predicate = arith::CmpIPredicate;

/// A value where a guard holds. The pieces of a value cover everything.
struct Piece {
  MaskConjunct guard;
  MaskExpr value;
};
using Pieces = SmallVector<Piece, 1>;

/// Unions that grow beyond this are taken as not understood.
constexpr size_t kMaxConjuncts = 64, kMaxPieces = 16;

/// Reads one mask region, into the set itself and into its complement.
class MaskReader {
public:
  MaskReader(Region &mask, function_ref<bool(Value)> isAvailable)
      : region(mask), query(mask.getArgument(2)), key(mask.getArgument(3)), rows(mask), isAvailable(isAvailable) {}

  MaskSet read() {
    Value condition = cast<YieldOp>(region.front().getTerminator()).getValue();
    set.kept = simplify(dropCases(visit(condition, true)));
    set.cut = simplify(dropCases(visit(condition, false)));
    return std::move(set);
  }

private:
  //===------------------------------------------------------------------------------------------------------------===//
  // Unions
  //===------------------------------------------------------------------------------------------------------------===//

  static Union everything() { return {MaskConjunct()}; }
  static Union nothing() { return {}; }

  /// What is not understood may hold and may not.
  Union unknown(Operation *op) {
    op = op ? op : region.getParentOp();
    if (!llvm::is_contained(set.opaque, op))
      set.opaque.push_back(op);
    MaskConjunct conjunct;
    conjunct.isKnown = false;
    return {conjunct};
  }

  static Union require(const MaskExpr &expr) {
    if (expr.isConstant())
      return expr.getConstant() >= 0 ? everything() : nothing();
    MaskConjunct conjunct;
    conjunct.constraints.push_back(expr);
    return {conjunct};
  }

  static MaskConjunct merge(const MaskConjunct &a, const MaskConjunct &b) {
    MaskConjunct both = a;
    both.isKnown = a.isKnown && b.isKnown;
    for (const MaskExpr &constraint : b.constraints)
      if (!llvm::is_contained(both.constraints, constraint))
        both.constraints.push_back(constraint);
    return both;
  }

  Union conjoin(const Union &a, const Union &b) {
    Union result;
    bool isProduct = a.size() > 1 || b.size() > 1;
    if (a.size() * b.size() > 4 * kMaxConjuncts)
      return unknown(nullptr);
    for (const MaskConjunct &x : a)
      for (const MaskConjunct &y : b)
        if (MaskConjunct both = merge(x, y); !isProduct || !isEmpty(both))
          result.push_back(std::move(both));
    return limit(std::move(result));
  }

  Union disjoin(Union a, const Union &b) {
    a.insert(a.end(), b.begin(), b.end());
    return limit(std::move(a));
  }

  Union limit(Union all) {
    if (all.size() > kMaxConjuncts)
      all = simplify(std::move(all));
    return all.size() > kMaxConjuncts ? unknown(nullptr) : all;
  }

  bool isEmpty(const MaskConjunct &conjunct) const {
    return conjunct.constraints.size() > 1 && MaskProver(set.space).isEmpty(conjunct.constraints);
  }

  /// Whether every pair of `a` is in `b`.
  bool isSubset(const MaskConjunct &a, const MaskConjunct &b) const {
    return llvm::all_of(b.constraints, [&](const MaskExpr &constraint) {
      return llvm::is_contained(a.constraints, constraint) || MaskProver(set.space).implies(a.constraints, constraint);
    });
  }

  /// Drops conjuncts that are inside others.
  Union simplify(Union all) {
    for (size_t n = all.size(); all.size() > 1 && n-- > 0;)
      for (size_t other = 0; other < all.size(); ++other)
        if (other != n && isSubset(all[n], all[other])) {
          all.erase(all.begin() + n);
          break;
        }
    return all;
  }

  /// Whether `b` and `c` demand less than `a` but for a constraint each, of which one always holds: then every pair of
  /// `a` is in one of them.
  static bool isCase(const MaskConjunct &a, const MaskConjunct &b, const MaskConjunct &c) {
    const MaskExpr *onlyB = nullptr, *onlyC = nullptr;
    auto find = [&](const MaskConjunct &from, const MaskExpr *&only) {
      for (const MaskExpr &constraint : from.constraints)
        if (!llvm::is_contained(a.constraints, constraint)) {
          if (only)
            return false;
          only = &constraint;
        }
      return only && from.constraints.size() <= a.constraints.size();
    };
    if (!find(b, onlyB) || !find(c, onlyC))
      return false;
    MaskExpr sum = *onlyB + *onlyC;
    return sum.isConstant() && sum.getConstant() >= -1;
  }

  /// Drops conjuncts that are inside two others together. The complement of `x and y or not(x) and z` is read as three,
  /// of which one, `not(y) and not(z)`, says nothing new, but would have bounds that fit neither case.
  static Union dropCases(Union all) {
    auto isInsideTwo = [&](size_t n) {
      for (size_t first = 0; first < all.size(); ++first)
        for (size_t second = 0; second < first; ++second)
          if (first != n && second != n && isCase(all[n], all[first], all[second]))
            return true;
      return false;
    };
    for (size_t n = all.size(); all.size() > 2 && n-- > 0;)
      if (isInsideTwo(n))
        all.erase(all.begin() + n);
    return all;
  }

  //===------------------------------------------------------------------------------------------------------------===//
  // Conditions
  //===------------------------------------------------------------------------------------------------------------===//

  /// The pairs for which a condition holds, or those for which it does not.
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

  /// The pairs for which two conditions are equal, or different.
  Union visitEqual(Value a, Value b, bool areEqual) {
    return disjoin(conjoin(visit(a, true), visit(b, areEqual)), conjoin(visit(a, false), visit(b, !areEqual)));
  }

  /// Nothing if a side is not understood.
  std::optional<Union> visitCompare(arith::CmpIOp op, bool holds) {
    Predicate predicate = holds ? op.getPredicate() : arith::invertPredicate(op.getPredicate());
    Value lhs = op.getLhs(), rhs = op.getRhs();
    switch (predicate) {
    case Predicate::sge:
      return atLeast(lhs, rhs, 0);
    case Predicate::sgt:
      return atLeast(lhs, rhs, 1);
    case Predicate::sle:
      return atLeast(rhs, lhs, 0);
    case Predicate::slt:
      return atLeast(rhs, lhs, 1);
    case Predicate::eq:
    case Predicate::ne: {
      bool isEqual = predicate == Predicate::eq;
      auto notBelow = atLeast(lhs, rhs, !isEqual), notAbove = atLeast(rhs, lhs, !isEqual);
      if (!notBelow || !notAbove)
        return std::nullopt;
      return isEqual ? conjoin(*notBelow, *notAbove) : disjoin(*notBelow, *notAbove);
    }
    case Predicate::ult:
    case Predicate::ule:
      return belowUnsigned(lhs, rhs, predicate == Predicate::ult, true);
    case Predicate::uge:
    case Predicate::ugt: // the opposite of ult and ule
      return belowUnsigned(lhs, rhs, predicate == Predicate::uge, false);
    }
    return std::nullopt;
  }

  /// `x < limit` unsigned is `0 <= x < limit` for a limit that is not negative.
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

  /// `a >= b + margin`. A minimum and a maximum are conjunctions and disjunctions of comparisons.
  std::optional<Union> atLeast(Value a, Value b, int64_t margin) {
    if (!isUniform(a) && !rows.isSearched(a))
      if (Operation *op = a.getDefiningOp(); isa_and_nonnull<arith::MinSIOp, arith::MaxSIOp>(op))
        return combine(isa<arith::MinSIOp>(op), atLeast(op->getOperand(0), b, margin),
                       atLeast(op->getOperand(1), b, margin));
    if (!isUniform(b) && !rows.isSearched(b))
      if (Operation *op = b.getDefiningOp(); isa_and_nonnull<arith::MinSIOp, arith::MaxSIOp>(op))
        return combine(isa<arith::MaxSIOp>(op), atLeast(a, op->getOperand(0), margin),
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

  std::optional<Union> combine(bool isConjunction, const std::optional<Union> &a, const std::optional<Union> &b) {
    if (!a || !b)
      return std::nullopt;
    return isConjunction ? conjoin(*a, *b) : disjoin(*a, *b);
  }

  //===------------------------------------------------------------------------------------------------------------===//
  // Integers
  //===------------------------------------------------------------------------------------------------------------===//

  static std::optional<Pieces> make(const MaskExpr &expr) {
    if (expr.isLarge())
      return std::nullopt;
    return Pieces{{MaskConjunct(), expr}};
  }

  static std::optional<Pieces> limit(Pieces pieces) {
    if (pieces.size() > kMaxPieces)
      return std::nullopt;
    return pieces;
  }

  /// All pairs of a piece of `a` and one of `b` that overlap.
  std::optional<Pieces> combine(const Pieces &a, const Pieces &b,
                                function_ref<MaskExpr(const MaskExpr &, const MaskExpr &)> compute) {
    Pieces result;
    for (const Piece &x : a)
      for (const Piece &y : b)
        for (MaskConjunct &guard : conjoin({x.guard}, {y.guard})) {
          MaskExpr value = compute(x.value, y.value);
          if (value.isLarge())
            return std::nullopt;
          if (a.size() * b.size() == 1 || !isEmpty(guard))
            result.push_back({std::move(guard), value});
        }
    return limit(std::move(result));
  }

  /// An integer as a piecewise linear function; nothing if it is not one.
  std::optional<Pieces> getPieces(Value value) {
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
    if (matchPattern(value, m_Constant())) // too large to compute with
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

  /// Whether all that a row function captures is available.
  bool isRowAvailable(Value value) {
    Operation *op = value.getDefiningOp();
    if (!op || !region.isAncestor(op->getParentRegion()))
      return value == query || isUniform(value);
    return llvm::all_of(op->getOperands(), [&](Value operand) { return isRowAvailable(operand); });
  }

  std::optional<Pieces> getSelect(arith::SelectOp op) {
    std::optional<Pieces> onTrue = getPieces(op.getTrueValue()), onFalse = getPieces(op.getFalseValue());
    if (!onTrue || !onFalse)
      return std::nullopt;
    Pieces result;
    for (bool holds : {true, false})
      for (const MaskConjunct &guard : visit(op.getCondition(), holds))
        for (const Piece &piece : holds ? *onTrue : *onFalse)
          for (const MaskConjunct &both : conjoin({guard}, {piece.guard}))
            result.push_back({both, piece.value});
    return limit(std::move(result));
  }

  std::optional<Pieces> getExtremum(Operation *op) {
    std::optional<Pieces> lhs = getPieces(op->getOperand(0)), rhs = getPieces(op->getOperand(1));
    if (!lhs || !rhs)
      return std::nullopt;
    Pieces result;
    for (const Piece &x : *lhs)
      for (const Piece &y : *rhs) {
        MaskExpr difference = isa<arith::MinSIOp>(op) ? y.value - x.value : x.value - y.value;
        for (const MaskConjunct &guard : conjoin({merge(x.guard, y.guard)}, require(difference)))
          result.push_back({guard, x.value});
        for (const MaskConjunct &guard : conjoin({merge(x.guard, y.guard)}, require(difference * -1 - 1)))
          result.push_back({guard, y.value});
      }
    return limit(std::move(result));
  }

  /// A condition as 0 or 1, and what is not negative as itself.
  std::optional<Pieces> getUnsigned(Value operand) {
    if (!operand.getType().isInteger(1))
      return isNatural(operand) ? getPieces(operand) : std::nullopt;
    Pieces result;
    for (bool holds : {true, false})
      for (const MaskConjunct &guard : visit(operand, holds))
        result.push_back({guard, MaskExpr(holds)});
    return limit(std::move(result));
  }

  std::optional<Pieces> map(Value value, function_ref<MaskExpr(const MaskExpr &)> compute) {
    std::optional<Pieces> pieces = getPieces(value);
    if (pieces)
      for (Piece &piece : *pieces)
        piece.value = compute(piece.value);
    return pieces;
  }

  /// One function where `value` is >= 0, another one where it is negative.
  std::optional<Pieces> getBySign(Value value, function_ref<MaskExpr(const MaskExpr &)> ifNatural,
                                  function_ref<MaskExpr(const MaskExpr &)> ifNegative) {
    std::optional<Pieces> pieces = getPieces(value);
    if (!pieces)
      return std::nullopt;
    Pieces result;
    for (const Piece &piece : *pieces) {
      if (set.space.isNatural(piece.value)) {
        result.push_back({piece.guard, ifNatural(piece.value)});
        continue;
      }
      for (const MaskConjunct &guard : conjoin({piece.guard}, require(piece.value)))
        result.push_back({guard, ifNatural(piece.value)});
      for (const MaskConjunct &guard : conjoin({piece.guard}, require(piece.value * -1 - 1)))
        result.push_back({guard, ifNegative(piece.value)});
    }
    return limit(std::move(result));
  }

  /// Quotients and remainders by constants, bit masks and shifts among them.
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
    if (isa<arith::AndIOp>(op)) { // with 2^n - 1, in two's complement
      if (divisor <= 0 || !llvm::isPowerOf2_64(divisor + 1))
        return std::nullopt;
      return map(dividend, remainderBy(divisor + 1));
    }
    if (isa<arith::XOrIOp>(op) && divisor == -1) // the bits inverted
      return map(dividend, [](const MaskExpr &x) { return x * -1 - 1; });
    if (isa<arith::ShRSIOp, arith::ShRUIOp>(op)) {
      if (divisor < 0 || divisor > 30 || (isa<arith::ShRUIOp>(op) && !isNatural(dividend)))
        return std::nullopt;
      return map(dividend, floorBy(int64_t(1) << divisor));
    }
    if (isa<arith::DivUIOp, arith::RemUIOp>(op) && (divisor <= 0 || !isNatural(dividend)))
      return std::nullopt;
    if (divisor <= 0) // floordivsi and others by a negative constant are not worth their signs
      return std::nullopt;
    if (isa<arith::FloorDivSIOp>(op))
      return map(dividend, floorBy(divisor));
    if (isa<arith::CeilDivSIOp>(op))
      return map(dividend, ceilBy(divisor));
    if (isa<arith::DivSIOp, arith::DivUIOp>(op)) // rounds towards 0
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

  /// Whether a value is the same for all i and j, and known before the loop.
  bool isUniform(Value value) const {
    if (value == query || value == key)
      return false;
    Operation *op = value.getDefiningOp();
    if (!op || !region.isAncestor(op->getParentRegion()))
      return isAvailable(value);
    bool onlyReads = isMemoryEffectFree(op) || hasSingleEffect<MemoryEffects::Read>(op);
    return onlyReads && op->getNumRegions() == 0 &&
           llvm::all_of(op->getOperands(), [&](Value operand) { return isUniform(operand); });
  }

  Region &region;
  Value query, key;
  RowFunctions rows;
  function_ref<bool(Value)> isAvailable;
  MaskSet set;
  DenseMap<std::pair<Value, unsigned>, Union> visited;
  Operation *culprit = nullptr; // the innermost one that made a comparison not understood
};
} // namespace

MaskSet mlir::flash::readMask(Region &mask, function_ref<bool(Value)> isAvailable) {
  return MaskReader(mask, isAvailable).read();
}
