//===- MaskProver.cpp - what follows from constraints -------------------------------------------------------------===//

#include "flashc/Analysis/MaskProver.h"
#include "mlir/Analysis/Presburger/Simplex.h"

using namespace mlir;
using namespace mlir::flash;
using namespace mlir::presburger;

namespace {
/// A simplex over the variables of the space that occur in the constraints.
class System {
public:
  System(const MaskSpace &space, ArrayRef<MaskExpr> constraints, ArrayRef<MaskExpr> facts)
      : space(space), columns(space.size(), -1) {
    for (const MaskExpr &constraint : constraints)
      add(constraint.tightened());
    for (const MaskExpr &fact : facts)
      addFact(fact);
  }

  /// Whether all variables of `expr` are variables of this system.
  bool hasAll(const MaskExpr &expr) const {
    return llvm::all_of(expr.getVariables(), [&](unsigned variable) { return columns[variable] >= 0; });
  }

  bool isEmpty() {
    std::optional<Simplex> simplex = makeSimplex();
    return simplex && simplex->isEmpty();
  }

  /// Returns the maximum of `expr`, all of whose variables must be variables of this system.
  std::optional<int64_t> getMost(const MaskExpr &expr) {
    std::optional<Simplex> simplex = makeSimplex();
    if (!simplex || simplex->isEmpty())
      return std::nullopt;
    MaybeOptimum<Fraction> most = simplex->computeOptimum(Simplex::Direction::Up, getCoefficients(expr));
    if (!most.isBounded())
      return std::nullopt;
    return int64_t(floor(*most));
  }

private:
  void add(const MaskExpr &constraint) {
    rows.push_back(constraint);
    for (unsigned variable : constraint.getVariables())
      use(variable);
  }

  /// Adds a fact, unless it contains a variable that is not in this system.
  void addFact(const MaskExpr &fact) {
    if (hasAll(fact))
      rows.push_back(fact);
  }

  /// Makes the simplex of the constraints `rows`. It stops adding constraints as soon as the simplex is empty. Returns
  /// nullopt if the budget is spent.
  std::optional<Simplex> makeSimplex() {
    space.proofBudget -= rows.size() * (numColumns + 1);
    if (space.proofBudget < 0)
      return std::nullopt;
    Simplex simplex(numColumns);
    for (const MaskExpr &row : rows)
      if (!simplex.isEmpty())
        simplex.addInequality(getCoefficients(row));
    return simplex;
  }

  SmallVector<DynamicAPInt> getCoefficients(const MaskExpr &expr) const {
    SmallVector<DynamicAPInt> coefficients(numColumns + 1);
    for (unsigned variable : expr.getVariables())
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
    for (const MaskExpr &constraint : space.getDefinition(index))
      add(constraint);
    for (const MaskExpr &fact : space.getPositionFacts(index))
      add(fact);
  }

  const MaskSpace &space;
  SmallVector<int> columns;
  int numColumns = 0;
  SmallVector<MaskExpr> rows;
};
} // namespace

/// Whether two constraints describe opposite half-spaces that do not meet. This is the most common contradiction.
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
  return system.hasAll(expr) ? system.getMost(expr) : std::nullopt;
}

bool MaskProver::implies(ArrayRef<MaskExpr> constraints, const MaskExpr &conclusion) const {
  if (conclusion.isConstant())
    return conclusion.getConstant() >= 0;
  SmallVector<MaskExpr> all(constraints);
  all.push_back(conclusion * -1 - 1);
  return isEmpty(all);
}
