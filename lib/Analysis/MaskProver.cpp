//===- MaskProver.cpp - what follows from constraints -------------------------------------------------------------===//

#include "flashc/Analysis/MaskProver.h"
#include "mlir/Analysis/Presburger/Simplex.h"

using namespace mlir;
using namespace mlir::flash;
using namespace mlir::presburger;

namespace {
/// A simplex over those variables of the space that occur.
class System {
public:
  System(const MaskSpace &space, ArrayRef<MaskExpr> constraints, ArrayRef<MaskExpr> facts)
      : space(space), columns(space.size(), -1) {
    for (const MaskExpr &constraint : constraints)
      add(constraint.tightened());
    for (const MaskExpr &fact : facts)
      addFact(fact);
  }

  bool has(unsigned variable) const { return columns[variable] >= 0; }

  bool isEmpty() {
    if (!takeBudget())
      return false;
    Simplex simplex(numColumns);
    for (const MaskExpr &row : rows) {
      simplex.addInequality(getCoefficients(row));
      if (simplex.isEmpty())
        return true;
    }
    return false;
  }

  /// Of an expression whose variables all occur.
  std::optional<int64_t> getMost(const MaskExpr &expr) {
    if (!takeBudget())
      return std::nullopt;
    Simplex simplex(numColumns);
    for (const MaskExpr &row : rows)
      simplex.addInequality(getCoefficients(row));
    if (simplex.isEmpty())
      return std::nullopt;
    MaybeOptimum<Fraction> most = simplex.computeOptimum(Simplex::Direction::Up, getCoefficients(expr));
    if (!most.isBounded())
      return std::nullopt;
    return int64_t(floor(*most));
  }

private:
  void add(const MaskExpr &constraint) {
    rows.push_back(constraint);
    for (unsigned variable = MaskSpace::Query; variable < constraint.size(); ++variable)
      if (constraint[variable] != 0)
        use(variable);
  }

  /// Adds a fact that says something about the variables that occur.
  void addFact(const MaskExpr &fact) {
    for (unsigned variable = MaskSpace::Query; variable < fact.size(); ++variable)
      if (fact[variable] != 0 && columns[variable] < 0)
        return;
    rows.push_back(fact);
  }

  bool takeBudget() {
    space.proofBudget -= rows.size() * (numColumns + 1);
    return space.proofBudget >= 0;
  }

  SmallVector<DynamicAPInt> getCoefficients(const MaskExpr &expr) const {
    SmallVector<DynamicAPInt> coefficients(numColumns + 1);
    for (unsigned variable = MaskSpace::Query; variable < expr.size(); ++variable)
      if (expr[variable] != 0)
        coefficients[columns[variable]] = expr[variable];
    coefficients.back() = expr.getConstant();
    return coefficients;
  }

  void use(unsigned index) {
    if (columns[index] >= 0)
      return;
    columns[index] = numColumns++;
    const MaskSpace::Variable &variable = space[index];
    MaskExpr self = MaskExpr::variable(index);
    if (variable.isNatural)
      add(self);
    if (variable.value && variable.value.getType().isInteger(1))
      add(MaskExpr(1) - self);
    if (variable.isRow) {
      add(self - MaskExpr::variable(variable.first));
      add(MaskExpr::variable(variable.last) - self);
    }
    for (const MaskExpr &fact : space.getPositionFacts(index))
      add(fact);
    if (variable.isQuotient()) {
      MaskExpr remainder = variable.dividend - self * variable.divisor;
      add(remainder);
      add(MaskExpr(variable.divisor - 1) - remainder);
    }
  }

  const MaskSpace &space;
  SmallVector<int> columns;
  int numColumns = 0;
  SmallVector<MaskExpr> rows;
};
} // namespace

/// Whether two constraints are opposite half-spaces that do not meet: most contradictions are.
static bool contradict(const MaskExpr &a, const MaskExpr &b) {
  MaskExpr sum = a + b;
  return sum.isConstant() && sum.getConstant() < 0;
}

bool MaskProver::isEmpty(ArrayRef<MaskExpr> constraints) const {
  space.proofBudget -= constraints.size() * constraints.size();
  if (space.proofBudget < 0)
    return false;
  for (auto [index, a] : llvm::enumerate(constraints)) {
    if (a.isConstant() && a.getConstant() < 0)
      return true;
    for (const MaskExpr &b : constraints.take_front(index))
      if (contradict(a, b))
        return true;
  }
  System system(space, constraints, facts);
  return system.isEmpty();
}

std::optional<int64_t> MaskProver::getMost(ArrayRef<MaskExpr> constraints, const MaskExpr &expr) const {
  System system(space, constraints, facts);
  for (unsigned variable = MaskSpace::Query; variable < expr.size(); ++variable)
    if (expr[variable] != 0 && !system.has(variable))
      return std::nullopt;
  return system.getMost(expr);
}

bool MaskProver::implies(ArrayRef<MaskExpr> constraints, const MaskExpr &conclusion) const {
  if (conclusion.isConstant())
    return conclusion.getConstant() >= 0;
  SmallVector<MaskExpr> all(constraints);
  all.push_back(conclusion * -1 - 1);
  return isEmpty(all);
}
