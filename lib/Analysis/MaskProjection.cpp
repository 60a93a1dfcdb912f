//===- MaskProjection.cpp - which tiles a conjunction of constraints meets ----------------------------------------===//

#include "MaskProjection.h"
#include "llvm/ADT/bit.h"

using namespace mlir;
using namespace mlir::flash;

namespace {
/// A constraint. `origins` has a bit for each constraint of the mask that it is derived from.
struct Row {
  MaskExpr expr;
  uint64_t origins;
};

/// A conjunction from which variables are eliminated one by one.
class Elimination {
public:
  /// Will eliminate all variables that change with i or j; with `keepsRows`, only those that change with j.
  Elimination(MaskSpace &space, ArrayRef<MaskExpr> facts, bool keepsRows = false)
      : space(space), facts(facts), keepsRows(keepsRows) {}

  void add(const MaskExpr &expr, uint64_t origins) {
    MaskExpr tight = expr.tightened();
    if (tight.isConstant()) {
      isEmpty |= tight.getConstant() < 0;
      return;
    }
    if (tight.isLarge()) { // leaving the constraint out is safe
      isExact = false;
      return;
    }
    for (Row &row : rows) {
      MaskExpr difference = tight - row.expr;
      if (!difference.isConstant())
        continue;
      bool isTighter = difference.getConstant() < 0;
      bool isSimpler = difference.getConstant() == 0 && llvm::popcount(origins) < llvm::popcount(row.origins);
      if (isTighter || isSimpler)
        row = {tight, origins};
      return;
    }
    rows.push_back({tight, origins});
  }

  /// Eliminates variables from the constraints of `conjunct` and from `bounds`. A constraint of `conjunct` has its own
  /// bit as origin; bounds have no origin.
  void run(const MaskConjunct &conjunct, ArrayRef<MaskExpr> bounds) {
    for (auto [index, constraint] : llvm::enumerate(ArrayRef(conjunct.constraints).take_front(kMaxConstraints)))
      add(constraint, uint64_t(1) << index);
    for (const MaskExpr &bound : bounds)
      add(bound, 0);
    isExact &= conjunct.isKnown && conjunct.constraints.size() <= kMaxConstraints;
    addDefinitions();
    eliminateAll();
  }

  SmallVector<Row> rows;
  bool isEmpty = false, isExact = true;

private:
  static constexpr size_t kMaxConstraints = 64;

  /// For the quotients and row functions that occur in `rows`, adds the constraints that define them.
  void addDefinitions() {
    BitVector done(space.size());
    for (size_t n = 0; n < rows.size(); ++n) {
      const MaskExpr row = rows[n].expr;
      for (unsigned index : row.getVariables()) {
        if (index < MaskSpace::FirstDynamic || !isPosition(index) || done[index])
          continue;
        done.set(index);
        for (const MaskExpr &constraint : space.getDefinition(index))
          add(constraint, 0);
      }
    }
  }

  /// Eliminates all variables that change with i or j. A variable whose elimination is exact comes before others.
  void eliminateAll() {
    while (!isEmpty) {
      unsigned best = 0;
      size_t bestCost = std::numeric_limits<size_t>::max();
      for (unsigned variable = MaskSpace::Query; variable < space.size(); ++variable)
        if (isPosition(variable))
          if (std::optional<size_t> cost = getCost(variable); cost && *cost < bestCost) {
            best = variable;
            bestCost = *cost;
          }
      if (best == 0)
        return;
      eliminate(best);
    }
  }

  bool isPosition(unsigned variable) const { return space.isPosition(variable, /*ofKey=*/keepsRows); }

  /// Whether `expr` contains a variable that is eliminated, or the variable Tile.
  bool hasPosition(const MaskExpr &expr) const {
    return llvm::any_of(expr.getVariables(),
                        [&](unsigned variable) { return variable == MaskSpace::Tile || isPosition(variable); });
  }

  /// Returns the number of rows that eliminating `variable` makes, plus 1000 if the elimination may be inexact. Returns
  /// nullopt if the variable does not occur.
  std::optional<size_t> getCost(unsigned variable) const {
    size_t lower = 0, upper = 0;
    bool isUnitLower = true, isUnitUpper = true;
    for (const Row &row : rows) {
      int64_t factor = row.expr[variable];
      lower += factor > 0;
      upper += factor < 0;
      isUnitLower &= factor <= 1;
      isUnitUpper &= factor >= -1;
    }
    if (lower + upper == 0)
      return std::nullopt;
    return lower * upper + (isUnitLower || isUnitUpper ? 0 : 1000);
  }

  void eliminate(unsigned variable) {
    SmallVector<Row> before = std::move(rows), lower, upper;
    rows.clear();
    for (const Row &row : before) {
      if (row.expr[variable] == 0)
        rows.push_back(row);
      else
        (row.expr[variable] > 0 ? lower : upper).push_back(row);
    }
    constexpr size_t kMaxRows = 128; // beyond this number no row is made: leaving rows out is safe, but not exact
    if (lower.size() * upper.size() > kMaxRows) {
      isExact = false;
      return;
    }
    for (const Row &low : lower)
      for (const Row &high : upper)
        combine(low, high, variable, before);
  }

  /// Eliminates x from `a * x >= low` and `b * x <= high`: derives `b * low <= a * high`. If the derived constraint
  /// does not hold, there is no x. If it holds, there is an integer x in three cases: a is 1, b is 1, or `a * high - b
  /// * low` is known to be at least `(a - 1) * (b - 1)`.
  void combine(const Row &lowRow, const Row &highRow, unsigned variable, ArrayRef<Row> all) {
    int64_t a = lowRow.expr[variable], b = -highRow.expr[variable];
    MaskExpr low = lowRow.expr.without(variable) * -1, high = highRow.expr.without(variable);
    uint64_t origins = lowRow.origins | highRow.origins;
    if (a > 1 && b > 1 && !hasPosition(low)) { // x is an integer: its bound may be rounded
      low = space.ceilDiv(low, a);
      a = 1;
    } else if (a > 1 && b > 1 && !hasPosition(high)) {
      high = space.floorDiv(high, b);
      b = 1;
    }
    MaskExpr room = high * a - low * b;
    add(room, origins);
    if (a > 1 && b > 1 && isExact) {
      SmallVector<MaskExpr> context;
      for (const Row &row : all)
        context.push_back(row.expr.without(variable) == row.expr ? row.expr : MaskExpr(0));
      context.push_back(room);
      isExact = MaskProver(space, facts).implies(context, room - (a - 1) * (b - 1));
    }
  }

  MaskSpace &space;
  ArrayRef<MaskExpr> facts;
  bool keepsRows;
};
} // namespace

/// Drops bounds that are derived from several constraints, if the other bounds imply them.
static void dropImplied(SmallVectorImpl<Row> &rows, const MaskProver &prover) {
  SmallVector<MaskExpr> others;
  for (size_t n = rows.size(); n-- > 0;) {
    if (llvm::popcount(rows[n].origins) < 2)
      continue;
    others.clear();
    for (size_t other = 0; other < rows.size(); ++other)
      if (other != n)
        others.push_back(rows[other].expr);
    if (prover.implies(others, rows[n].expr))
      rows.erase(rows.begin() + n);
  }
}

/// Whether the keys of each query are those between two ascending functions of the query, and include the key at the
/// query's own position. Then the key ranges of consecutive queries touch. So the keys of a tile of queries are all
/// keys between the functions at the ends of the tile, without a gap.
static bool isChain(const MaskSpace &space, const MaskConjunct &conjunct) {
  return llvm::all_of(conjunct.constraints, [&](const MaskExpr &constraint) {
    int64_t factor = constraint[MaskSpace::Key];
    MaskExpr limit = constraint.without(MaskSpace::Key) * (factor < 0 ? 1 : -1);
    bool isUniform = true;
    for (unsigned variable : limit.getVariables()) {
      if (!space.isPosition(variable))
        continue;
      isUniform = false;
      if (limit[variable] < 0 || space[variable].isQuotient())
        return false;
    }
    MaskExpr atOwn = constraint.without(MaskSpace::Key) + MaskExpr::variable(MaskSpace::Query, factor);
    return std::abs(factor) == 1 && (isUniform || MaskProver(space).isNatural(atOwn));
  });
}

/// Whether the bounds depend on values of row functions inside a tile of queries, not only at its ends. The bounds
/// depend only on the values at the ends if the conjunct is a chain, or if it has one row function and nothing else
/// that changes with the query.
static bool hasUnknownRows(const MaskSpace &space, const MaskConjunct &conjunct) {
  unsigned numFunctions = 0, numOthers = 0;
  for (const MaskExpr &constraint : conjunct.constraints)
    for (unsigned variable : constraint.getVariables()) {
      if (variable == MaskSpace::Key)
        continue;
      numFunctions += space[variable].isRow;
      numOthers += !space[variable].isRow && space.isPosition(variable);
    }
  bool isAlone = numFunctions == 0 || (numFunctions == 1 && numOthers == 0);
  return !isAlone && !isChain(space, conjunct);
}

MaskProjection mlir::flash::projectOntoTiles(MaskSpace &space, const MaskConjunct &conjunct, int64_t tileSize,
                                             const std::optional<MaskExpr> &end, ArrayRef<MaskExpr> facts) {
  MaskProjection result;
  Elimination elimination(space, facts);
  MaskExpr tile = MaskExpr::variable(MaskSpace::Tile), key = MaskExpr::variable(MaskSpace::Key);
  MaskExpr first = MaskExpr::variable(MaskSpace::First), query = MaskExpr::variable(MaskSpace::Query);
  SmallVector<MaskExpr> bounds{key - tile, tile + (tileSize - 1) - key};
  if (end)
    bounds.push_back(*end - 1 - key);
  bounds.append({query - first, first + MaskExpr::variable(MaskSpace::Count) - 1 - query});
  elimination.run(conjunct, bounds);

  result.isEmpty = elimination.isEmpty;
  result.isExact = elimination.isExact;
  result.mayHaveGaps = result.isExact && hasUnknownRows(space, conjunct);
  result.isExact &= !result.mayHaveGaps;
  SmallVector<Row> &rows = elimination.rows;
  // Drops rows that are derived from no constraint of the mask, since they hold for every tile. Then sorts: rows that
  // are derived from one constraint come first, in the order of the constraints.
  llvm::erase_if(rows, [](const Row &row) { return row.origins == 0; });
  llvm::stable_sort(rows, [](const Row &a, const Row &b) {
    return std::make_pair(llvm::popcount(a.origins), llvm::countr_zero(a.origins)) <
           std::make_pair(llvm::popcount(b.origins), llvm::countr_zero(b.origins));
  });
  dropImplied(rows, MaskProver(space, facts));
  for (const Row &row : rows)
    (row.expr[MaskSpace::Tile] == 0 ? result.conditions : result.bounds).push_back(row.expr);
  return result;
}

bool mlir::flash::projectOntoRows(MaskSpace &space, const MaskConjunct &conjunct, const MaskExpr &begin,
                                  const MaskExpr &end, ArrayRef<MaskExpr> facts, SmallVectorImpl<MaskExpr> &result) {
  Elimination elimination(space, facts, /*keepsRows=*/true);
  MaskExpr key = MaskExpr::variable(MaskSpace::Key);
  elimination.run(conjunct, {key - begin, end - 1 - key});
  for (const Row &row : elimination.rows)
    result.push_back(row.expr);
  return elimination.isExact && !elimination.isEmpty;
}
