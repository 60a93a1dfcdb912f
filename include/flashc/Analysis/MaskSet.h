//===- MaskSet.h - a mask as a union of conjunctions --------------------------------------------------------------===//
// A mask as two unions of conjunctions, of the pairs that it keeps and of the pairs that it does not keep. The
// constraints are linear in the query i, the key j, quotients by constants, and values that are the same for all pairs.
// `MaskBounds.h` derives loop bounds from it. Nothing here makes IR.
//
// Positions, and values computed from them in `index`, `i64` and `i32`, are assumed not to overflow. Arithmetic in
// narrower integers, and a cast to them, may overflow: such comparisons are opaque.
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
  /// Returns the equivalent constraint on integers that is divided by the common divisor, with the constant rounded
  /// down.
  MaskExpr tightened() const;
  /// Whether the product of two such coefficients may overflow.
  bool isLarge() const;

private:
  MaskExpr &add(const MaskExpr &other, int64_t factor);

  SmallVector<int64_t, 24> coefficients; // the last one is not 0, unless it is the constant
};

/// The variables of the constraints of one mask.
class MaskSpace {
public:
  /// `One` is the constant 1. `Tile` is the begin of a tile of the loop that bounds are computed for, `Begin` and `End`
  /// are the loop's bounds; `First` and `Count` are the first position and the number of positions of the other
  /// direction's tile. The variables from `FirstDynamic` on are captured values, row functions at the tile's ends, and
  /// quotients.
  enum Fixed : unsigned { One, Query, Key, Tile, Begin, End, First, Count, FirstDynamic };

  /// The query of a tile for which a captured value is taken: any one (the value is the same for all), or the first or
  /// last one (the value is a row function).
  enum class At { Anywhere, FirstRow, LastRow };
  /// Prints a captured value.
  using PrintValue = function_ref<void(raw_ostream &, Value, At)>;

  struct Variable {
    Value value;          // captured by the region, or null
    At at = At::Anywhere; // the query that the value is taken for
    MaskExpr dividend;    // of a quotient, which is rounded down
    int64_t divisor = 0;  // 0: not a quotient
    bool isNatural;       // known to be >= 0
    bool isRow = false;   // a function of i that never descends; it lies between its symbols `first` and `last`
    unsigned first = 0, last = 0;
    std::optional<Side> side = {}; // how a row function, or its value at an end, compares with its query

    bool isQuotient() const { return divisor != 0; }
  };

  MaskSpace();

  const Variable &operator[](unsigned variable) const { return variables[variable]; }
  unsigned size() const { return variables.size(); }

  /// The remaining work that proofs about this mask may take, in coefficients of constraints. It bounds the compile
  /// time for masks of any size.
  mutable int64_t proofBudget = 100000;

  /// Returns the variable of a value that does not change with i and j.
  unsigned getSymbol(Value value, At at = At::Anywhere);
  /// Returns the variable of a value that depends on i alone and never descends when i grows.
  unsigned getRowFunction(Value value, std::optional<Side> side);
  /// Returns constraints that compare a variable with the query that it is taken for.
  SmallVector<MaskExpr, 1> getPositionFacts(unsigned variable) const;
  /// Returns `expr / divisor`, rounded down; the divisor is > 0.
  MaskExpr floorDiv(const MaskExpr &expr, int64_t divisor);
  MaskExpr ceilDiv(const MaskExpr &expr, int64_t divisor) { return floorDiv(expr + (divisor - 1), divisor); }

  /// Whether a variable changes with i or j, or, with `ofKey`, whether it changes with j.
  bool isPosition(unsigned variable, bool ofKey = false) const;
  /// Returns the constraints that define a quotient or a row function.
  SmallVector<MaskExpr, 2> getDefinition(unsigned variable) const;
  /// Whether the signs of its variables alone show that `expr` is >= 0.
  bool isNatural(const MaskExpr &expr) const;

  /// Prints `2 * i - %a + 3`, or "0" without terms. In the dual view variable `Query` is printed as `j`.
  void print(raw_ostream &os, PrintValue printValue, const MaskExpr &expr, MaskView view = MaskView::Primal) const;
  /// Prints a constraint as a bound on j (`j <= i + %shift`), else as a bound on i, else with all coefficients positive
  /// (`%n >= %m + 1`). With `isEquality` it stands for itself and its negation, and is printed with `=`.
  void printConstraint(raw_ostream &os, PrintValue printValue, const MaskExpr &expr, bool isEquality,
                       MaskView view) const;

private:
  std::vector<Variable> variables;
};

using PrintValue = MaskSpace::PrintValue;

/// A conjunction of constraints. `isKnown` is false if a further condition, which was not understood, must hold too.
struct MaskConjunct {
  SmallVector<MaskExpr, 2> constraints;
  bool isKnown = true;
};

/// The pairs that a mask keeps, and the pairs that it cuts, each a union of conjuncts, which may overlap. Without
/// conjuncts a union is empty. A conjunct that is not known contains the exact set. `kept` and `cut` together cover all
/// pairs.
struct MaskSet {
  MaskSpace space;
  std::vector<MaskConjunct> kept, cut;
  SmallVector<Operation *> opaque; // ops that were not understood

  /// Prints the op's name and, where it is known, why the op is not understood.
  static void printOpaque(raw_ostream &os, Operation *op);
  /// Prints the kept pairs: one line per constraint of a single conjunct, or one line per conjunct.
  void print(raw_ostream &os, PrintValue printValue, MaskView view = MaskView::Primal) const;
};

/// Reads a mask region. It understands
/// - arith.andi, ori, xori and select of conditions, arith.cmpi (signed; unsigned if it tests a range or nothing is
///   negative), and constants;
/// - in compared integers, everything that LinearExpr looks through, select, min and max, and quotients and remainders
///   by constants, also in the form of shifts and bit masks.
///
/// A condition that is the same for all pairs is a symbol that is 0 or 1. Captured values that are not `isAvailable`
/// are opaque.
MaskSet readMask(Region &mask, function_ref<bool(Value)> isAvailable = [](Value) { return true; });

} // namespace mlir::flash

#endif // FLASHC_ANALYSIS_MASKSET_H
