//===- MaskSet.h - a mask as a union of conjunctions --------------------------------------------------------------===//
// Describes a mask by two unions of conjunctions: one of the pairs that the mask keeps, and one of the pairs that it
// cuts. The constraints are linear in the query i, the key j, quotients by constants, and values that are the same for
// all pairs. `MaskBounds.h` derives loop bounds from the unions. Nothing here creates IR.
//
// Positions, and values that are computed from them in `index`, `i64` and `i32`, are assumed not to overflow.
// Arithmetic in narrower integers, and casts to them, may overflow: a comparison with such a value is opaque.
//===--------------------------------------------------------------------------------------------------------------===//
#ifndef FLASHC_ANALYSIS_MASKSET_H
#define FLASHC_ANALYSIS_MASKSET_H

#include "flashc/Analysis/RowFunctions.h"
#include "flashc/Dialect/Flash/IR/Step.h"
#include "mlir/IR/Region.h"
#include "llvm/ADT/STLFunctionalExtras.h"
#include "llvm/ADT/Sequence.h"

namespace mlir::flash {

/// A linear combination of the variables of a `MaskSpace` with integer coefficients. As a constraint it says that the
/// combination is >= 0.
class MaskExpr {
public:
  MaskExpr(int64_t constant = 0) : coefficients(1, constant) {}
  static MaskExpr variable(unsigned variable, int64_t factor = 1);

  /// Returns the coefficient of a variable. Variable 0 is the number 1: its coefficient is the constant.
  int64_t operator[](unsigned variable) const { return variable < coefficients.size() ? coefficients[variable] : 0; }
  int64_t getConstant() const { return coefficients[0]; }
  unsigned size() const { return coefficients.size(); }
  /// The variables with a coefficient other than 0, without variable 0.
  auto getVariables() const {
    auto occurs = [this](unsigned variable) { return coefficients[variable] != 0; };
    return llvm::make_filter_range(llvm::seq(1u, size()), occurs);
  }
  bool isConstant() const { return coefficients.size() == 1; }

  MaskExpr &operator+=(const MaskExpr &other) { return add(other, 1); }
  MaskExpr &operator-=(const MaskExpr &other) { return add(other, -1); }
  friend MaskExpr operator+(MaskExpr a, const MaskExpr &b) { return a += b; }
  friend MaskExpr operator-(MaskExpr a, const MaskExpr &b) { return a -= b; }
  friend MaskExpr operator*(const MaskExpr &a, int64_t factor) { return MaskExpr().add(a, factor); }
  bool operator==(const MaskExpr &other) const { return coefficients == other.coefficients; }

  /// Returns the expression with a variable set to zero.
  MaskExpr without(unsigned variable) const;
  /// Returns the greatest common divisor of the coefficients except for the constant; 0 without variables.
  int64_t getDivisor() const;
  /// Divides a constraint by the common divisor of its coefficients and rounds the constant down. The result is
  /// equivalent for integers.
  MaskExpr tightened() const;
  /// Whether a product of two coefficients of this size may overflow.
  bool isLarge() const;

private:
  MaskExpr &add(const MaskExpr &other, int64_t factor);

  SmallVector<int64_t, 24> coefficients; // the last one is not 0, unless it is the only one
};

/// The variables of the constraints of one mask.
class MaskSpace {
public:
  /// `One` is the constant 1. `Tile` is the begin of a tile of the loop that bounds are computed for. `Begin` and `End`
  /// are the bounds of that loop. `First` and `Count` are the first position and the number of positions of the other
  /// direction's tile. The variables from `FirstDynamic` on are captured values, row functions at the ends of a tile,
  /// and quotients.
  enum Fixed : unsigned { One, Query, Key, Tile, Begin, End, First, Count, FirstDynamic };

  /// Says for which query of a tile a captured value is taken. Anywhere: the value is the same for all queries.
  /// FirstRow, LastRow: the value is a row function, taken for the first or the last query.
  enum class At { Anywhere, FirstRow, LastRow };
  /// Prints a captured value.
  using PrintValue = function_ref<void(raw_ostream &, Value, At)>;

  struct Variable {
    Value value;          // captured by the region, or null
    At at = At::Anywhere; // the query that the value is taken for
    MaskExpr dividend;    // if this is a quotient: what is divided; the quotient is rounded down
    int64_t divisor = 0;  // 0 means that this is not a quotient
    bool isNatural;       // known to be >= 0
    bool isRow = false;   // never descends as i grows; its values lie between those of `first` and `last`
    unsigned first = 0, last = 0;
    std::optional<Side> side = {}; // how a row function, or its value at `at`, compares with the query

    bool isQuotient() const { return divisor != 0; }
  };

  MaskSpace();

  const Variable &operator[](unsigned variable) const { return variables[variable]; }
  unsigned size() const { return variables.size(); }

  /// The budget for proofs about this mask: the work that may still be spent on them, counted in coefficients of
  /// constraints. The budget limits the compile time, whatever the size of the mask.
  mutable int64_t proofBudget = 100000;

  /// Returns the variable of a value that is the same for all i and j.
  unsigned getSymbol(Value value, At at = At::Anywhere);
  /// Returns the variable of a value that depends on i alone and never descends when i grows.
  unsigned getRowFunction(Value value, std::optional<Side> side);
  /// Returns constraints that compare a variable with the query for which it is taken. The variable is a row function
  /// at an end of the tile.
  SmallVector<MaskExpr, 1> getPositionFacts(unsigned variable) const;
  /// Returns `expr / divisor`, rounded down. `divisor` must be > 0.
  MaskExpr floorDiv(const MaskExpr &expr, int64_t divisor);
  MaskExpr ceilDiv(const MaskExpr &expr, int64_t divisor) { return floorDiv(expr + (divisor - 1), divisor); }

  /// Whether a variable changes with i or j. With `ofKey`: whether it changes with j.
  bool isPosition(unsigned variable, bool ofKey = false) const;
  /// Returns the constraints that define a quotient or a row function.
  SmallVector<MaskExpr, 2> getDefinition(unsigned variable) const;
  /// Whether `expr` is >= 0 for all values of its variables, as far as the variables' signs show it.
  bool isNatural(const MaskExpr &expr) const;

  /// Prints an expression such as `2 * i - %a + 3`, or "0" if it has no terms. In the dual view variable `Query` is
  /// printed as `j`.
  void print(raw_ostream &os, PrintValue printValue, const MaskExpr &expr, MaskView view = MaskView::Primal) const;
  /// Prints a constraint. If it contains j, it is printed as a bound on j (`j <= i + %shift`); else if it contains i,
  /// as a bound on i; else such that all coefficients are positive (`%n >= %m + 1`). With `isEquality`, `expr` stands
  /// for the equation `expr = 0`, which is printed with `=`.
  void printConstraint(raw_ostream &os, PrintValue printValue, const MaskExpr &expr, bool isEquality,
                       MaskView view) const;

private:
  std::vector<Variable> variables;
};

using PrintValue = MaskSpace::PrintValue;

/// A conjunction of constraints. If `isKnown` is false, a pair must also satisfy a further condition, which was not
/// understood.
struct MaskConjunct {
  SmallVector<MaskExpr, 2> constraints;
  bool isKnown = true;
};

/// The pairs that a mask keeps, and the pairs that it cuts. Each set is a union of conjuncts, which may overlap;
/// without conjuncts it is empty. Every pair is in `kept` or in `cut`. It may be in both: if a condition of a conjunct
/// was not understood, the conjunct stands for a larger set than the exact one.
struct MaskSet {
  MaskSpace space;
  std::vector<MaskConjunct> kept, cut;
  SmallVector<Operation *> opaque; // ops that were not understood

  /// Prints the name of an op that is not understood and, if the reason is known, the reason.
  static void printOpaque(raw_ostream &os, Operation *op);
  /// Prints the kept pairs. If there is a single conjunct, each line is one of its constraints; else each line is a
  /// conjunct.
  void print(raw_ostream &os, PrintValue printValue, MaskView view = MaskView::Primal) const;
};

/// Reads a mask region. It understands
/// - arith.andi, ori, xori and select of conditions, constants, and arith.cmpi: a signed one, or an unsigned one that
///   tests a range or whose operands are known not to be negative;
/// - in compared integers, everything that LinearExpr looks through, select, min and max, and quotients and remainders
///   by constants, also in the form of shifts and bit masks.
///
/// A condition that is the same for all pairs becomes a symbol that is 0 or 1. Captured values for which `isAvailable`
/// returns false are opaque.
MaskSet readMask(Region &mask, function_ref<bool(Value)> isAvailable = [](Value) { return true; });

} // namespace mlir::flash

#endif // FLASHC_ANALYSIS_MASKSET_H
