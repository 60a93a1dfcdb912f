//===- MaskWidth.cpp - the number of keys that a query sees -------------------------------------------------------===//

#include "flashc/Analysis/MaskProver.h"

using namespace mlir;
using namespace mlir::flash;

namespace {
/// Rewrites a constraint on the key as the same constraint on another key of the same query. Variable `Tile`, which no
/// mask contains, stands for that other key.
class OtherKey {
public:
  explicit OtherKey(MaskSpace &space) : space(space) {}

  MaskExpr get(const MaskExpr &expr) {
    MaskExpr result(expr.getConstant());
    for (unsigned variable : expr.getVariables())
      result += getVariable(variable) * expr[variable];
    return result;
  }

private:
  MaskExpr getVariable(unsigned variable) {
    if (variable == MaskSpace::Key)
      return MaskExpr::variable(MaskSpace::Tile);
    if (!space[variable].isQuotient())
      return MaskExpr::variable(variable);
    MaskExpr dividend = get(space[variable].dividend);
    return space.floorDiv(dividend, space[variable].divisor);
  }

  MaskSpace &space;
};
} // namespace

std::optional<int64_t> mlir::flash::getMostKeys(const MaskSet &mask) {
  int64_t all = 0;
  for (const MaskConjunct &conjunct : mask.kept) {
    MaskSpace space = mask.space;
    OtherKey other(space);
    SmallVector<MaskExpr> constraints(conjunct.constraints.begin(), conjunct.constraints.end());
    for (const MaskExpr &constraint : conjunct.constraints)
      constraints.push_back(other.get(constraint));
    MaskExpr key = MaskExpr::variable(MaskSpace::Key), otherKey = MaskExpr::variable(MaskSpace::Tile);
    constraints.append({key, otherKey});
    std::optional<int64_t> most = MaskProver(space).getMost(constraints, key - otherKey);
    if (!most)
      return std::nullopt;
    all += *most + 1;
  }
  return all;
}
