//===- LineEvaluator.h - index arithmetic for many iterations at once ---------------------------------------------===//
//
// What a loop nest does in a call of 2^31 queries and keys cannot be found iteration by iteration: one head has 2^49
// tiles. But a bound that a mask gives is made of sums, minima, maxima and quotients, and between few places it moves
// along a line: from one tile of queries to the next by the same number of keys. So
//
// 1. The iterations k0 of a loop, and k1 of a loop inside it, are a space: 0 <= k0 < n, 0 <= k1 < N(k0), where N is a
//    line, positive everywhere. Values are lines, base + slope0 * k0 + slope1 * k1.
// 2. An operation of lines is a line only if that holds at every point of the space, and this is proved, not sampled:
//    a line takes its extremes at a corner of the space, so that a comparison is decided if it is at all corners; a
//    quotient by d is a line if d divides the slopes, and a constant if it is the same at both extremes; no result
//    leaves its type's range, since it does not at a corner.
// 3. Where that fails, the space is split and the loop's body evaluated again on the parts: at the iteration where a
//    comparison changes or a quotient steps, or into the d / gcd(d, slope) residue classes of k0 in each of which the
//    quotient is a line, whichever gives fewer parts (never more than about sqrt(n) for a quotient). What is not
//    understood, such as an element that is read at a place that moves, splits it in halves.
// 4. A single iteration has numbers, and IndexEvaluator computes them. So every split ends, and the result is always
//    that of running the loops.
//
// Sums over a space are then polynomials: sum of N(k0) = n N(0) + slope n (n - 1) / 2. A causal mask has five or so
// parts at any length; where loop bounds read an array, there are as many parts as tiles of queries.
//
//===--------------------------------------------------------------------------------------------------------------===//
#ifndef FLASHC_LIB_ANALYSIS_LINEEVALUATOR_H
#define FLASHC_LIB_ANALYSIS_LINEEVALUATOR_H

#include "IndexEvaluator.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "llvm/ADT/DynamicAPInt.h"

namespace flashc {

/// A counter of a loop, and from where to where it counts.
struct LoopCounter {
  mlir::Value value;
  mlir::OpFoldResult begin, end, step;
};
/// Those of an scf.for or scf.forall.
llvm::SmallVector<LoopCounter> getLoopCounters(mlir::Operation *loop);

/// base + slope[0] * k0 + slope[1] * k1.
struct Line {
  int64_t base = 0;
  std::array<int64_t, 2> slope = {0, 0};

  bool isConstant() const { return slope[0] == 0 && slope[1] == 0; }
};

/// An IndexEvaluator whose counters may run through the iterations of up to two loops, one in the other.
class LineEvaluator {
public:
  static constexpr unsigned kMaxLoops = 2;

  explicit LineEvaluator(IndexEvaluator numbers) : numbers(std::move(numbers)) {}

  /// Calls `visit` with `counter` at begin + step * k for all k in [0, count) at once, or in parts, if it asks for
  /// them: it fails after a question that has no answer for all. What it did before is then to be taken back. Fails if
  /// `visit` does for another reason, or asks for parts of the loop around.
  mlir::LogicalResult forEachPart(mlir::Value counter, Line begin, int64_t step, Line count,
                                  llvm::function_ref<mlir::LogicalResult()> visit);
  /// The same one by one, or for the first iteration alone if it stands for all. Asks for parts of the loop around where
  /// the numbers differ between its iterations.
  mlir::LogicalResult forEachNumber(mlir::Value counter, Line begin, int64_t step, Line count, bool firstOnly,
                                    llvm::function_ref<mlir::LogicalResult()> visit);
  /// How many iterations there are from `begin` on in front of `end`; less than one if none. None: split.
  std::optional<Line> countIterations(const Line &begin, const Line &end, int64_t step);
  /// A counter of a loop that is run iteration by iteration.
  void setCounter(mlir::Value counter, int64_t value);

  /// The value, or none: the iterations must be split (isSplitting), or something is not known (getUnknown).
  std::optional<Line> get(mlir::Value value);
  std::optional<Line> get(mlir::OpFoldResult value);
  std::optional<Line> getExtent(mlir::Value tensor, int64_t dim);
  /// None: split.
  std::optional<bool> isNonNegative(const Line &line) { return isNotLess(line, {}); }
  /// a >= b
  std::optional<bool> isNotLess(const Line &a, const Line &b);
  std::optional<Line> add(const Line &a, const Line &b, int64_t factor = 1); // a + factor * b
  /// Rounded down, or up.
  std::optional<Line> divide(const Line &line, int64_t divisor, bool isCeil = false);
  /// Of all its values.
  struct Range {
    __int128 low, high;
  };
  Range getRange(const Line &line) const;

  /// How many loops' iterations run, and those of one of them.
  unsigned getNumLoops() const { return numLoops; }
  const Line &getCount(unsigned loop) const { return loops[loop].count; }
  /// The number of points of the space.
  llvm::DynamicAPInt countPoints() const;

  bool isSplitting() const { return split.has_value(); }
  /// Asks for halves of the outermost loop with more than one iteration. There must be one.
  void splitInHalves();
  bool isSingle() const;
  mlir::Value getUnknown() const { return numbers.getUnknown(); }

private:
  struct Loop {
    mlir::Value counter;
    Line value; // of the counter
    Line count;
  };
  /// Parts that are asked for: up to and from the iteration `at`, or the classes of remainders by `classes`.
  struct Split {
    unsigned loop;
    Line at;
    int64_t classes = 0;
  };

  void enter(unsigned loop, const Loop &part);
  static llvm::SmallVector<Loop> takeParts(const Loop &loop, const Split &split);
  /// Without slopes along loops of one iteration.
  Line simplify(Line line) const;
  /// The parts of a line, of a type that sums and products of two do not leave.
  using Wide = std::array<__int128, 3>;
  static Wide widen(const Line &line) { return {line.base, line.slope[0], line.slope[1]}; }
  Range getRange(const Wide &line) const;
  /// None after a split, where it leaves the range of `bits` bits.
  std::optional<Line> narrow(const Wide &line, unsigned bits = 64);
  void splitAtSign(const Line &line);
  void splitAtQuotient(const Wide &line, int64_t divisor);

  // LineOperations.cpp
  std::optional<Line> compute(mlir::OpResult result);
  std::optional<Line> computeOther(mlir::OpResult result);
  std::optional<Line> computeArithmetic(mlir::Operation *op, llvm::ArrayRef<Line> operands);
  std::optional<Line> multiply(const Line &a, const Line &b);
  std::optional<Line> computeQuotient(const Line &a, const Line &b, bool isCeil);
  std::optional<Line> computeRemainder(const Line &a, const Line &b);
  std::optional<Line> getLesser(const Line &a, const Line &b, bool isGreater);
  std::optional<Line> computeComparison(mlir::arith::CmpIPredicate predicate, llvm::ArrayRef<Line> operands);
  std::optional<Line> computeAffine(mlir::Operation *op, llvm::ArrayRef<Line> operands);
  std::optional<Line> computeExpr(mlir::AffineExpr expr, llvm::ArrayRef<Line> operands, unsigned numDims);
  std::optional<Line> computeSearch(mlir::flash::CountLeOp op);
  std::optional<Line> computeSegmentTile(mlir::flash::SegmentTileOp op, unsigned result);
  std::optional<Line> placeTile(mlir::flash::SegmentTileOp op, const Line &tile, const IndexEvaluator::Segment &segment,
                                int64_t length, unsigned result);
  std::optional<Line> computeRow(mlir::flash::RowTableOp op, llvm::ArrayRef<Line> place);
  std::optional<llvm::SmallVector<Line, 4>> getAll(mlir::ValueRange values);
  bool mayChange(mlir::Value value) const;

  IndexEvaluator numbers; // at the space's first point
  std::array<Loop, kMaxLoops> loops;
  unsigned numLoops = 0;
  std::optional<Split> split;
  /// Arguments of a region that is evaluated.
  llvm::DenseMap<mlir::Value, Line> arguments;
  /// What was computed of this space.
  llvm::DenseMap<mlir::Value, Line> known;
};

} // namespace flashc

#endif // FLASHC_LIB_ANALYSIS_LINEEVALUATOR_H
