//===- MaskSet.cpp - a mask as a union of conjunctions ------------------------------------------------------------===//

#include "flashc/Analysis/MaskSet.h"
#include "flashc/Dialect/Flash/IR/SortedData.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/Matchers.h"
#include "llvm/Support/MathExtras.h"
#include <numeric>

using namespace mlir;
using namespace mlir::flash;

//===--------------------------------------------------------------------------------------------------------------===//
// Expressions
//===--------------------------------------------------------------------------------------------------------------===//

MaskExpr MaskExpr::variable(unsigned variable, int64_t factor) {
  MaskExpr expr;
  if (factor == 0)
    return expr;
  expr.coefficients.resize(variable + 1, 0);
  expr.coefficients[variable] = factor;
  return expr;
}

MaskExpr &MaskExpr::add(const MaskExpr &other, int64_t factor) {
  if (other.size() > size())
    coefficients.resize(other.size(), 0);
  for (auto [mine, theirs] : llvm::zip(coefficients, other.coefficients))
    mine += factor * theirs;
  while (coefficients.size() > 1 && coefficients.back() == 0)
    coefficients.pop_back();
  return *this;
}

MaskExpr MaskExpr::without(unsigned variable) const { return *this - MaskExpr::variable(variable, (*this)[variable]); }

int64_t MaskExpr::getDivisor() const {
  int64_t divisor = 0;
  for (int64_t coefficient : llvm::drop_begin(coefficients))
    divisor = std::gcd(divisor, coefficient);
  return divisor;
}

MaskExpr MaskExpr::tightened() const {
  int64_t divisor = getDivisor();
  if (divisor <= 1)
    return *this;
  MaskExpr result = *this;
  for (int64_t &coefficient : result.coefficients)
    coefficient = llvm::divideFloorSigned(coefficient, divisor);
  return result;
}

bool MaskExpr::isLarge() const {
  constexpr int64_t kMaxFactor = int64_t(1) << 24, kMaxConstant = int64_t(1) << 40;
  return std::abs(getConstant()) > kMaxConstant ||
         llvm::any_of(llvm::drop_begin(coefficients),
                      [](int64_t coefficient) { return std::abs(coefficient) > kMaxFactor; });
}

//===--------------------------------------------------------------------------------------------------------------===//
// Variables
//===--------------------------------------------------------------------------------------------------------------===//

MaskSpace::MaskSpace() : variables(FirstDynamic) {
  for (auto [index, variable] : llvm::enumerate(variables))
    variable.isNatural = index != Tile;
}

/// Whether `value` is a captured value that cannot be negative: a condition, a size, or the position b or h.
static bool isNaturalValue(Value value) {
  if (auto argument = dyn_cast<BlockArgument>(value))
    return isa<ScoresOpInterface>(argument.getOwner()->getParentOp());
  return value.getType().isInteger(1) || isa_and_nonnull<tensor::DimOp, memref::DimOp>(value.getDefiningOp());
}

unsigned MaskSpace::getSymbol(Value value, At at) {
  for (unsigned index = FirstDynamic; index < variables.size(); ++index)
    if (Value known = variables[index].value; known && variables[index].at == at && !variables[index].isRow)
      if (LinearExpr::symbol(known) == LinearExpr::symbol(value))
        return index;
  variables.push_back({value, at, {}, 0, isNaturalValue(value)});
  return variables.size() - 1;
}

unsigned MaskSpace::getRowFunction(Value value, std::optional<Side> side) {
  for (unsigned index = FirstDynamic; index < variables.size(); ++index)
    if (variables[index].isRow && variables[index].value == value)
      return index;
  unsigned first = getSymbol(value, At::FirstRow), last = getSymbol(value, At::LastRow);
  Variable function{value, At::Anywhere, {}, 0, false};
  function.isRow = true;
  function.first = first;
  function.last = last;
  function.side = variables[first].side = variables[last].side = side;
  variables.push_back(function);
  return variables.size() - 1;
}

SmallVector<MaskExpr, 1> MaskSpace::getPositionFacts(unsigned index) const {
  const Variable &variable = variables[index];
  if (!variable.side)
    return {};
  MaskExpr position = MaskExpr::variable(variable.isRow ? Query : First);
  if (variable.at == At::LastRow)
    position += MaskExpr::variable(Count) - 1;
  MaskExpr distance = MaskExpr::variable(index) - position;
  return {*variable.side == Side::Above ? distance - 1 : distance * -1};
}

MaskExpr MaskSpace::floorDiv(const MaskExpr &expr, int64_t divisor) {
  if (divisor == 1)
    return expr;
  // Splits `expr` into whole * divisor + rest. The quotient is then whole + (rest floordiv divisor).
  MaskExpr whole, rest;
  for (unsigned index = 0; index < expr.size(); ++index) {
    // The constant of `rest` is not negative. The other coefficients of `rest` are as small as possible in absolute
    // value.
    int64_t quotient = index == One ? llvm::divideFloorSigned(expr[index], divisor) : expr[index] / divisor;
    if (index != One && 2 * std::abs(expr[index] - quotient * divisor) > divisor)
      quotient += expr[index] < 0 ? -1 : 1;
    whole += MaskExpr::variable(index, quotient);
    rest += MaskExpr::variable(index, expr[index] - quotient * divisor);
  }
  if (rest.isConstant())
    return whole;
  for (unsigned index = FirstDynamic; index < variables.size(); ++index)
    if (variables[index].divisor == divisor && variables[index].dividend == rest)
      return whole + MaskExpr::variable(index);
  variables.push_back({Value(), At::Anywhere, rest, divisor, isNatural(rest)});
  return whole + MaskExpr::variable(variables.size() - 1);
}

bool MaskSpace::isPosition(unsigned variable, bool ofKey) const {
  if (variable == Key || (!ofKey && (variable == Query || variables[variable].isRow)))
    return true;
  return llvm::any_of(variables[variable].dividend.getVariables(),
                      [&](unsigned index) { return isPosition(index, ofKey); });
}

SmallVector<MaskExpr, 2> MaskSpace::getDefinition(unsigned index) const {
  const Variable &variable = variables[index];
  MaskExpr self = MaskExpr::variable(index);
  if (variable.isRow)
    return {self - MaskExpr::variable(variable.first), MaskExpr::variable(variable.last) - self};
  if (!variable.isQuotient())
    return {};
  MaskExpr remainder = variable.dividend - self * variable.divisor;
  return {remainder, MaskExpr(variable.divisor - 1) - remainder};
}

bool MaskSpace::isNatural(const MaskExpr &expr) const {
  auto isNatural = [&](unsigned index) { return expr[index] > 0 && variables[index].isNatural; };
  return expr.getConstant() >= 0 && llvm::all_of(expr.getVariables(), isNatural);
}

//===--------------------------------------------------------------------------------------------------------------===//
// Printing
//===--------------------------------------------------------------------------------------------------------------===//

void MaskSpace::print(raw_ostream &os, PrintValue printValue, const MaskExpr &expr, MaskView view) const {
  static constexpr StringLiteral kNames[] = {"", "i", "j", "tile", "begin", "end", "i0", "rows"};
  static constexpr StringLiteral kDualNames[] = {"", "j", "i", "tile", "begin", "end", "j0", "keys"};
  bool isFirst = true;
  auto printSign = [&](int64_t factor) {
    if (!isFirst || factor < 0)
      os << (isFirst ? "-" : factor < 0 ? " - " : " + ");
    isFirst = false;
    return std::abs(factor);
  };
  for (unsigned index : expr.getVariables()) {
    if (int64_t factor = printSign(expr[index]); factor != 1)
      os << factor << " * ";
    const Variable &variable = variables[index];
    if (index < FirstDynamic) {
      os << (view == MaskView::Dual ? kDualNames : kNames)[index];
    } else if (variable.isQuotient()) {
      unsigned last = variable.dividend.size() - 1;
      bool isName = variable.dividend == MaskExpr::variable(last) && !variables[last].isQuotient();
      os << (isName ? "" : "(");
      print(os, printValue, variable.dividend, view);
      os << (isName ? " floordiv " : ") floordiv ") << variable.divisor;
    } else {
      printValue(os, variable.value, variable.at);
    }
  }
  if (expr.getConstant() != 0 || isFirst)
    os << printSign(expr.getConstant());
}

void MaskSpace::printConstraint(raw_ostream &os, PrintValue printValue, const MaskExpr &expr, bool isEquality,
                                MaskView view) const {
  // If the constraint contains the key, it is solved for the key; else if it contains the query, for the query; else
  // terms with positive coefficients are on the left, and all others on the right.
  MaskExpr left, right;
  unsigned target = expr[Key] != 0 ? Key : Query;
  for (unsigned index = One; index < expr.size(); ++index) {
    bool isLeft = expr[target] != 0 ? index == target : expr[index] > 0;
    (isLeft ? left : right) += MaskExpr::variable(index, isLeft ? expr[index] : -expr[index]);
  }
  bool isLess = expr[target] < 0 || left.isConstant();
  if (expr[target] < 0) {
    left = left * -1;
    right = right * -1;
  } else if (isLess) {
    std::swap(left, right);
  }
  print(os, printValue, left, view);
  os << (isEquality ? " = " : isLess ? " <= " : " >= ");
  print(os, printValue, right, view);
}

void MaskSet::printOpaque(raw_ostream &os, Operation *op) {
  os << op->getName();
  bool isQuotient =
      isa<arith::DivSIOp, arith::DivUIOp, arith::FloorDivSIOp, arith::CeilDivSIOp, arith::RemSIOp, arith::RemUIOp>(op);
  if (isQuotient && !matchPattern(op->getOperand(1), m_Constant()))
    os << " by a value that is no constant";
  std::optional<ElementRead> read = getElementRead(op);
  if (read && !read->array.getDefiningOp<AssumeSortedOp>())
    os << " of an array that is not declared sorted";
}

void MaskSet::print(raw_ostream &os, PrintValue printValue, MaskView view) const {
  StringRef separator = kept.size() == 1 ? "\n" : " and ";
  for (const MaskConjunct &conjunct : kept) {
    if (kept.size() > 1)
      os << "or ";
    // An equality is stored as two opposite constraints; only one of the two is printed.
    SmallVector<MaskExpr> printed;
    for (const MaskExpr &constraint : conjunct.constraints) {
      if (llvm::is_contained(printed, constraint * -1))
        continue;
      os << (printed.empty() ? "" : separator);
      space.printConstraint(os, printValue, constraint, llvm::is_contained(conjunct.constraints, constraint * -1),
                            view);
      printed.push_back(constraint);
    }
    if (kept.size() > 1 && !conjunct.isKnown)
      os << (conjunct.constraints.empty() ? "unknown" : " and unknown");
    if (kept.size() > 1 || !conjunct.constraints.empty())
      os << '\n';
  }
  if (kept.empty())
    os << "nothing\n";
  for (Operation *op : opaque) {
    printOpaque(os << "opaque: ", op);
    os << '\n';
  }
}
