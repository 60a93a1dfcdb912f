//===- MaskSet.h - a mask as a union of conjunctions --------------------------------------------------------------===//
//
// What a mask region keeps, and what it does not, as unions of conjunctions of constraints that are linear in the query
// i, the key j, quotients by constants, and values that are the same for all pairs. `MaskBounds.h` derives loops from
// it. Nothing here makes IR.
//
// It is assumed that positions and what is computed from them in `index`, `i64` and `i32` do not overflow. Arithmetic
// in narrower integers, and a cast to them, may: those comparisons are opaque.
//
//===--------------------------------------------------------------------------------------------------------------===//
#ifndef FLASHC_ANALYSIS_MASKSET_H
#define FLASHC_ANALYSIS_MASKSET_H

#include "flashc/Analysis/RowFunctions.h"
#include "flashc/Dialect/Flash/IR/Step.h"
#include "mlir/IR/Region.h"
#include "llvm/ADT/STLFunctionalExtras.h"
#include "llvm/ADT/Sequence.h"

namespace mlir::flash {

/// An integer combination of the variables of a `MaskSpace`. As a constraint it says that the combination is >= 0.
class MaskExpr {
public:
  MaskExpr(int64_t constant = 0) : coefficients(1, constant) {}
  static MaskExpr variable(unsigned variable, int64_t factor = 1);

  /// The coefficient of a variable; that of variable 0, which is always 1, is the constant.
  int64_t operator[](unsigned variable) const { return variable < coefficients.size() ? coefficients[variable] : 0; }
  int64_t getConstant() const { return coefficients[0]; }
  unsigned size() const { return coefficients.size(); }
  /// Those that occur; the constant's is not among them.
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

  /// The expression with a variable set to zero.
  MaskExpr without(unsigned variable) const;
  /// The greatest common divisor of the coefficients, the constant's not among them; 0 without variables.
  int64_t getDivisor() const;
  /// As a constraint on integers: divided by the common divisor, the constant rounded down.
  MaskExpr tightened() const;
  /// Whether a coefficient is so large that products of two of them may not fit.
  bool isLarge() const;

private:
  MaskExpr &add(const MaskExpr &other, int64_t factor);

  SmallVector<int64_t, 24> coefficients; // the last one is not 0, but for the constant
};

/// The variables of the constraints of one mask.
class MaskSpace {
public:
  /// `One` is the constant 1. `Tile` is where a tile of the loop begins that the bounds are for, and `Begin` and `End`
  /// where that loop does; `First` and `Count` are the first position and the number of them in the other direction's
  /// tile. From `FirstDynamic` on: captured values, row functions at the tile's ends, and quotients.
  enum Fixed : unsigned { One, Query, Key, Tile, Begin, End, First, Count, FirstDynamic };

  /// Where in a tile of queries a captured value is taken: it is the same for all of them, or that of a row function.
  enum class At { Anywhere, FirstRow, LastRow };
  /// Prints a captured value.
  using PrintValue = function_ref<void(raw_ostream &, Value, At)>;

  struct Variable {
    Value value;          // captured
    At at = At::Anywhere; // where it is
    MaskExpr dividend;    // of a quotient, rounded down
    int64_t divisor = 0;  // 0: not a quotient
    bool isNatural;       // known to be >= 0
    bool isRow = false;   // a function of i that never descends: between its symbols first and last
    unsigned first = 0, last = 0;
    std::optional<Side> side = {}; // of a row function, or its value at an end: beside the position that it is for

    bool isQuotient() const { return divisor != 0; }
  };

  MaskSpace();

  const Variable &operator[](unsigned variable) const { return variables[variable]; }
  unsigned size() const { return variables.size(); }

  /// Work that is still spent on proofs about this mask, in coefficients of constraints: masks may be of any size, and
  /// compile time is not.
  mutable int64_t proofBudget = 100000;

  /// A value that does not change with i and j.
  unsigned getSymbol(Value value, At at = At::Anywhere);
  /// A value that depends on i alone and never descends when i grows.
  unsigned getRowFunction(Value value, std::optional<Side> side);
  /// What is known of a variable beside the position that it is for: constraints.
  SmallVector<MaskExpr, 1> getPositionFacts(unsigned variable) const;
  /// `expr / divisor`, rounded down; the divisor is > 0.
  MaskExpr floorDiv(const MaskExpr &expr, int64_t divisor);
  MaskExpr ceilDiv(const MaskExpr &expr, int64_t divisor) { return floorDiv(expr + (divisor - 1), divisor); }

  /// Whether a variable changes with i or j, or with j.
  bool isPosition(unsigned variable, bool ofKey = false) const;
  /// What a quotient, or a row function, satisfies by its definition: constraints.
  SmallVector<MaskExpr, 2> getDefinition(unsigned variable) const;
  /// Whether it is known to be >= 0 by its variables' signs alone.
  bool isNatural(const MaskExpr &expr) const;

  /// Prints `2 * i - %a + 3`; without terms "0". In the dual view what stands for the query is the key, `j`.
  void print(raw_ostream &os, PrintValue printValue, const MaskExpr &expr, MaskView view = MaskView::Primal) const;
  /// Prints a constraint as a bound on j (`j <= i + %shift`), or else on i, or else without signs (`%n >= %m + 1`).
  /// `isEquality`: `j = i`, for two constraints of which one is the other with the opposite sign.
  void printConstraint(raw_ostream &os, PrintValue printValue, const MaskExpr &expr, bool isEquality,
                       MaskView view) const;

private:
  std::vector<Variable> variables;
};

using PrintValue = MaskSpace::PrintValue;

/// Constraints that all hold. `isKnown` is false if more must hold that is not understood.
struct MaskConjunct {
  SmallVector<MaskExpr, 2> constraints;
  bool isKnown = true;
};

/// What a mask keeps, and what it does not. The conjuncts of a union may overlap; no conjunct is the empty set, all
/// together are everything. Where a conjunct is not known, the truth is inside it.
struct MaskSet {
  MaskSpace space;
  std::vector<MaskConjunct> kept, cut;
  SmallVector<Operation *> opaque; // what was not understood

  /// The op's name, and why it is not understood where that is known.
  static void printOpaque(raw_ostream &os, Operation *op);
  /// What is kept, one line per constraint of a single conjunct, or one line per conjunct.
  void print(raw_ostream &os, PrintValue printValue, MaskView view = MaskView::Primal) const;
};

/// Reads a mask region. Understands arith.andi, ori, xori and select of conditions, arith.cmpi (signed; unsigned where
/// it is a range or nothing is negative), and constants; in what is compared, besides what LinearExpr looks through,
/// select, min and max, and quotients and remainders by constants, as shifts and bit masks too. A condition that is the
/// same for all pairs is a symbol that is 0 or 1. Captured values that are not `isAvailable` are opaque.
MaskSet readMask(Region &mask, function_ref<bool(Value)> isAvailable = [](Value) { return true; });

} // namespace mlir::flash

#endif // FLASHC_ANALYSIS_MASKSET_H
