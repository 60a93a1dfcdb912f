//===- MaskBounds.cpp - which key tiles a mask keeps --------------------------------------------------------------===//

#include "flashc/Analysis/MaskBounds.h"
#include "flashc/Dialect/Flash/IR/Flash.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/AsmState.h"
#include "mlir/IR/Matchers.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

using namespace mlir;
using namespace mlir::flash;

//===--------------------------------------------------------------------------------------------------------------===//
// Reading the region
//===--------------------------------------------------------------------------------------------------------------===//

namespace {
/// Collects the conjuncts of one mask region.
class MaskReader {
public:
  explicit MaskReader(Region &mask) : region(mask), query(mask.getArgument(2)), key(mask.getArgument(3)) {}

  MaskBounds read() {
    visit(cast<YieldOp>(region.front().getTerminator()).getValue());
    return std::move(bounds);
  }

private:
  void visit(Value condition) {
    IntegerAttr constant;
    if (matchPattern(condition, m_Constant(&constant))) {
      if (constant.getValue().isZero())
        bounds.constraints.push_back({0, 0, LinearExpr(-1)});
      return;
    }
    Operation *op = condition.getDefiningOp();
    if (auto conjunction = dyn_cast_or_null<arith::AndIOp>(op)) {
      visit(conjunction.getLhs());
      visit(conjunction.getRhs());
      return;
    }
    auto compare = dyn_cast_or_null<arith::CmpIOp>(op);
    if (!compare || !visitCompare(compare))
      bounds.opaque.push_back(op ? op : region.getParentOp());
  }

  bool visitCompare(arith::CmpIOp op) {
    LinearExpr lhs = LinearExpr::get(op.getLhs()), rhs = LinearExpr::get(op.getRhs());
    switch (op.getPredicate()) {
    case arith::CmpIPredicate::sge:
      return require(lhs - rhs);
    case arith::CmpIPredicate::sgt:
      return require(lhs - rhs - 1);
    case arith::CmpIPredicate::sle:
      return require(rhs - lhs);
    case arith::CmpIPredicate::slt:
      return require(rhs - lhs - 1);
    case arith::CmpIPredicate::eq:
      return require(lhs - rhs) && require(rhs - lhs);
    case arith::CmpIPredicate::ult:
    case arith::CmpIPredicate::ule: {
      // `x < c` unsigned is `0 <= x < c` for a constant c that is not negative.
      std::optional<int64_t> limit = rhs.getConstantValue();
      bool isStrict = op.getPredicate() == arith::CmpIPredicate::ult;
      return limit && *limit >= 0 && require(lhs) && require(rhs - lhs - (isStrict ? 1 : 0));
    }
    default:
      return false;
    }
  }

  /// Adds `expr >= 0`, if it depends on i and j in no other way than linearly.
  bool require(const LinearExpr &expr) {
    MaskConstraint constraint{expr.getCoefficient(key), expr.getCoefficient(query), expr.without(key).without(query)};
    for (const LinearExpr::Term &term : constraint.rest.getTerms())
      if (!isUniform(term.value) || matchPattern(term.value, m_Constant())) // a constant too large to compute with
        return false;
    bounds.constraints.push_back(constraint);
    return true;
  }

  /// Whether a value is the same for all i and j.
  bool isUniform(Value value) const {
    if (value == query || value == key)
      return false;
    Operation *op = value.getDefiningOp();
    if (!op || !region.isAncestor(op->getParentRegion()))
      return true;
    bool onlyReads = isMemoryEffectFree(op) || hasSingleEffect<MemoryEffects::Read>(op);
    return onlyReads && op->getNumRegions() == 0 &&
           llvm::all_of(op->getOperands(), [&](Value operand) { return isUniform(operand); });
  }

  Region &region;
  Value query, key;
  MaskBounds bounds;
};
} // namespace

MaskBounds mlir::flash::analyzeMask(Region &mask) {
  return MaskReader(mask).read();
}

void MaskConstraint::print(raw_ostream &os, AsmState &state) const {
  int64_t sign = key > 0 ? -1 : 1; // What j is compared with.
  if (key != 0) {
    if (std::abs(key) != 1)
      os << std::abs(key) << " * ";
    os << (key < 0 ? "j <= " : "j >= ");
  }
  if (int64_t factor = sign * query; factor != 0)
    os << (factor == 1 ? "" : factor == -1 ? "-" : std::to_string(factor) + " * ") << "i";
  (rest * sign).print(os, state, /*isContinued=*/query != 0);
  if (key == 0)
    os << " >= 0";
}

void MaskBounds::print(raw_ostream &os, AsmState &state) const {
  for (const MaskConstraint &constraint : constraints) {
    constraint.print(os, state);
    os << '\n';
  }
  for (Operation *op : opaque)
    os << "opaque: " << op->getName() << '\n';
}

//===--------------------------------------------------------------------------------------------------------------===//
// From constraints to bounds
//===--------------------------------------------------------------------------------------------------------------===//

namespace {
/// Turns constraints into bounds, in tiles.
class BoundsBuilder {
public:
  BoundsBuilder(int64_t tileSize, MLIRContext *context)
      : context(context), tile(tileSize), begin(symbol(LoopBounds::Begin)) {
    bounds.keptBegin.push_back(begin);
    bounds.keptEnd.push_back(tileCeil(symbol(LoopBounds::End)));
    // The last tile may stick out of the loop: then it is not whole.
    bounds.fullEnd.push_back(tileFloor(symbol(LoopBounds::End)));
  }

  void add(const MaskConstraint &constraint) {
    AffineExpr least, most;
    std::tie(least, most) = getRange(constraint.query, constraint.rest);
    if (constraint.key == 0) {
      bounds.keptIf.push_back(most);
      bounds.fullIf.push_back(least);
    } else if (constraint.key < 0) { // j <= floor(limit / -key)
      uint64_t factor = -constraint.key;
      bounds.keptEnd.push_back(tileCeil(most.floorDiv(factor) + 1));
      bounds.fullEnd.push_back(tileFloor(least.floorDiv(factor) + 1));
    } else { // j >= ceil(limit / key), limit = -(query * i + rest)
      uint64_t factor = constraint.key;
      std::tie(least, most) = getRange(-constraint.query, constraint.rest * -1);
      bounds.keptBegin.push_back(tileFloor(least.ceilDiv(factor)));
      bounds.fullBegin.push_back(tileCeil(most.ceilDiv(factor)));
    }
  }

  LoopBounds bounds;

private:
  AffineExpr symbol(unsigned position) const { return getAffineSymbolExpr(position, context); }

  /// The least and the most that `query * i + rest` is for a query i of the tile: it is monotone in i.
  std::pair<AffineExpr, AffineExpr> getRange(int64_t query, const LinearExpr &rest) {
    AffineExpr first = symbol(LoopBounds::FirstQuery), last = first + symbol(LoopBounds::NumQueries) - 1;
    AffineExpr atFirst = first * query + import(rest), atLast = last * query + import(rest);
    return query > 0 ? std::make_pair(atFirst, atLast) : std::make_pair(atLast, atFirst);
  }

  /// The last tile boundary up to a position, and the first from it on.
  AffineExpr tileFloor(AffineExpr position) const { return begin + (position - begin).floorDiv(tile) * tile; }
  AffineExpr tileCeil(AffineExpr position) const { return begin + (position - begin).ceilDiv(tile) * tile; }

  AffineExpr import(const LinearExpr &expr) {
    AffineExpr sum = getAffineConstantExpr(expr.getConstant(), context);
    for (const LinearExpr::Term &term : expr.getTerms()) {
      auto *known = llvm::find(bounds.captured, term.value);
      unsigned position = known - bounds.captured.begin();
      if (known == bounds.captured.end())
        bounds.captured.push_back(term.value);
      sum = sum + symbol(LoopBounds::FirstCaptured + position) * term.coefficient;
    }
    return sum;
  }

  MLIRContext *context;
  uint64_t tile;
  AffineExpr begin;
};
} // namespace

LoopBounds mlir::flash::computeLoopBounds(const MaskBounds &mask, int64_t tileSize, MLIRContext *context) {
  BoundsBuilder builder(tileSize, context);
  for (const MaskConstraint &constraint : mask.constraints)
    builder.add(constraint);
  builder.bounds.hasFull = mask.opaque.empty();
  return std::move(builder.bounds);
}

/// Prints an expression of bounds with the names of its symbols.
static void printExpr(raw_ostream &os, AffineExpr expr, const LoopBounds &bounds, AsmState &state, bool isOperand) {
  static constexpr StringLiteral kNames[] = {"begin", "end", "i0", "rows"};
  if (auto constant = dyn_cast<AffineConstantExpr>(expr)) {
    os << constant.getValue();
    return;
  }
  if (auto symbol = dyn_cast<AffineSymbolExpr>(expr)) {
    if (symbol.getPosition() < LoopBounds::FirstCaptured)
      os << kNames[symbol.getPosition()];
    else
      bounds.captured[symbol.getPosition() - LoopBounds::FirstCaptured].printAsOperand(os, state);
    return;
  }
  auto binary = cast<AffineBinaryOpExpr>(expr);
  AffineExpr lhs = binary.getLHS(), rhs = binary.getRHS();
  bool isProduct = expr.getKind() == AffineExprKind::Mul;
  bool hasParentheses = isOperand && !isProduct;
  os << (hasParentheses ? "(" : "");
  if (expr.getKind() != AffineExprKind::Add) {
    printExpr(os, lhs, bounds, state, /*isOperand=*/true);
    os << (isProduct ? " * " : expr.getKind() == AffineExprKind::FloorDiv ? " floordiv " : " ceildiv ");
    printExpr(os, rhs, bounds, state, /*isOperand=*/true);
    os << (hasParentheses ? ")" : "");
    return;
  }
  // Affine expressions have no subtraction: `a - b` is `a + b * -1`.
  auto product = dyn_cast<AffineBinaryOpExpr>(rhs);
  auto constant = dyn_cast<AffineConstantExpr>(rhs);
  bool isNegated = product && product.getKind() == AffineExprKind::Mul &&
                   product.getRHS() == getAffineConstantExpr(-1, expr.getContext());
  bool isNegative = constant && constant.getValue() < 0;
  printExpr(os, lhs, bounds, state, /*isOperand=*/false);
  os << (isNegated || isNegative ? " - " : " + ");
  printExpr(os, isNegated ? product.getLHS() : isNegative ? -rhs : rhs, bounds, state, isNegated);
  os << (hasParentheses ? ")" : "");
}

void LoopBounds::print(raw_ostream &os, AsmState &state) const {
  auto printList = [&](StringRef name, ArrayRef<AffineExpr> list) {
    os << name << '(';
    llvm::interleaveComma(list, os, [&](AffineExpr expr) { printExpr(os, expr, *this, state, /*isOperand=*/false); });
    os << ')';
  };
  auto printCondition = [&](ArrayRef<AffineExpr> list) {
    if (!list.empty())
      printList(" if 0 <= min", list);
  };
  printList("kept [max", keptBegin);
  printList(", min", keptEnd);
  os << ")";
  printCondition(keptIf);
  if (!hasFull) {
    os << " full none";
    return;
  }
  if (fullBegin.empty())
    os << " full [begin";
  else
    printList(" full [max", fullBegin);
  printList(", min", fullEnd);
  os << ")";
  printCondition(fullIf);
}
