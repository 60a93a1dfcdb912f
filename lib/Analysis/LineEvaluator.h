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
// 4. What only numbers go into is a number, by the operation's own folding, as everything is in a single iteration. So
//    every split ends, and the result is always that of running the loops.
//
// Sums over a space are then polynomials: sum of N(k0) = n N(0) + slope n (n - 1) / 2. A causal mask has five or so
// parts at any length; where loop bounds read an array, there are as many parts as tiles of queries.
//
//===--------------------------------------------------------------------------------------------------------------===//
#ifndef FLASHC_LIB_ANALYSIS_LINEEVALUATOR_H
#define FLASHC_LIB_ANALYSIS_LINEEVALUATOR_H

#include "CallArguments.h"
#include "flashc/Dialect/Flash/IR/Flash.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "llvm/ADT/DynamicAPInt.h"

#include <memory>

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

/// A loop's counter is begin + step * k for all k in [0, count), none if that is less than one.
struct Iterations {
  mlir::Value counter;
  Line begin;
  int64_t step;
  Line count;
};

/// Evaluates integers and tensor extents, given the arguments of a call, where counters run through the iterations of
/// up to two loops, one in the other. What is computed from anything else is none. An i1 that holds is -1.
class LineEvaluator {
public:
  static constexpr unsigned kMaxLoops = 2;

  explicit LineEvaluator(CallArguments call);

  /// None: split, or a bound is not known.
  std::optional<Iterations> getIterations(const LoopCounter &counter);
  /// Calls `visit` for all iterations at once, or in parts, if it asks for them: it fails after a question that has no
  /// answer for all. What it did before is then to be taken back. Fails if `visit` does for another reason, or asks for
  /// parts of the loop around.
  mlir::LogicalResult forEachPart(Iterations iterations, llvm::function_ref<mlir::LogicalResult()> visit);
  /// The same one by one, or for the first iteration alone if it stands for all. Asks for parts of the loop around
  /// where the numbers differ between its iterations.
  mlir::LogicalResult forEachNumber(const Iterations &iterations, bool firstOnly,
                                    llvm::function_ref<mlir::LogicalResult()> visit);
  /// A counter of a loop that is run iteration by iteration.
  void setCounter(mlir::Value counter, int64_t value);

  /// The value, or none: the iterations must be split (isSplitting), or something is not known (getUnknown).
  std::optional<Line> get(mlir::Value value);
  std::optional<Line> get(mlir::OpFoldResult value);
  std::optional<Line> getExtent(mlir::Value tensor, int64_t dim);
  /// What is the same in all iterations. None: split, or there was no line.
  std::optional<int64_t> getNumber(const std::optional<Line> &line);
  /// The least and the greatest value that the op gives, with these operands, for the tiles from its own to that which
  /// begins at `last`.
  std::optional<std::array<int64_t, 2>> findEnds(mlir::flash::TileRangeOp op, llvm::ArrayRef<int64_t> operands,
                                                 int64_t last);
  /// None: split. a >= b
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
  /// After none: the argument or the result of an op that had no value.
  mlir::Value getUnknown() const { return unknown; }

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
  std::optional<llvm::SmallVector<int64_t, 4>> getNumbers(mlir::ValueRange values);
  mlir::Attribute getConstant(mlir::Value value);
  mlir::Attribute evaluate(mlir::OpResult result);
  mlir::Attribute fold(mlir::OpResult result);
  mlir::Attribute read(mlir::Value array, llvm::ArrayRef<int64_t> positions);
  std::optional<Line> compute(mlir::OpResult result);
  std::optional<Line> computeArithmetic(mlir::Operation *op, llvm::ArrayRef<Line> operands);
  std::optional<Line> multiply(const Line &a, const Line &b);
  std::optional<Line> computeQuotient(const Line &a, const Line &b, bool isCeil);
  std::optional<Line> computeRemainder(const Line &a, const Line &b);
  std::optional<Line> getLesser(const Line &a, const Line &b, bool isGreater);
  std::optional<Line> computeComparison(mlir::arith::CmpIPredicate predicate, llvm::ArrayRef<Line> operands);
  std::optional<Line> computeAffine(mlir::Operation *op, llvm::ArrayRef<Line> operands);
  std::optional<Line> computeExpr(mlir::AffineExpr expr, llvm::ArrayRef<Line> operands, unsigned numDims);
  std::optional<llvm::SmallVector<Line, 4>> getAll(mlir::ValueRange values);

  // LineTables.cpp
  mlir::Attribute load(mlir::Value array, llvm::ArrayRef<int64_t> positions);
  std::optional<int64_t> countElements(mlir::flash::CountLeOp op, int64_t value);
  std::optional<Line> computeSearch(mlir::flash::CountLeOp op);
  std::optional<Line> computeNth(mlir::flash::NthOp op);
  /// The segment of a flash.segment_tile.
  struct Segment {
    int64_t number, begin, end;
  };
  std::optional<Segment> findSegment(mlir::flash::SegmentTileOp op, int64_t length, int64_t tile);
  std::optional<Line> computeSegmentTile(mlir::flash::SegmentTileOp op, unsigned result);
  std::optional<Line> placeTile(mlir::flash::SegmentTileOp op, const Line &tile, const Segment &segment, int64_t length,
                                unsigned result);
  std::optional<Line> computeRow(mlir::flash::RowTableOp op, llvm::ArrayRef<Line> place);
  std::optional<Line> computeTileRange(mlir::flash::TileRangeOp op, unsigned result);
  std::optional<std::array<int64_t, 2>> runTile(mlir::flash::TileRangeOp op, llvm::ArrayRef<int64_t> operands);
  std::optional<int64_t> readKnownClass(mlir::flash::TileClassesOp op, llvm::ArrayRef<int64_t> place);
  std::optional<int64_t> readRuns(mlir::flash::TileRunsOp op, llvm::ArrayRef<int64_t> place);

  std::shared_ptr<const CallArguments> call;
  std::array<Loop, kMaxLoops> loops;
  unsigned numLoops = 0;
  std::optional<Split> split;
  /// Counters of loops that are run one by one, and arguments of a region that is evaluated.
  llvm::DenseMap<mlir::Value, Line> arguments;
  /// What was computed of this space: what branches and joins again is computed once.
  llvm::DenseMap<mlir::Value, Line> known;
  mlir::Value unknown;
  /// What was read of tables of tiles; copies share it.
  struct Tables;
  std::shared_ptr<Tables> tables;
};

/// The tensor that `tensor` has the shape (and, in destination style, the memory) of: a loop's argument has those of
/// its initial value, a result those of its destination. Null if there is none.
mlir::Value getTiedValue(mlir::Value tensor);

/// The constant, if it is an integer.
std::optional<int64_t> getInteger(mlir::Attribute constant);

/// Whether one of `values` is computed from `counter` by ops inside its loop.
bool isComputedFrom(mlir::ValueRange values, mlir::BlockArgument counter);

} // namespace flashc

#endif // FLASHC_LIB_ANALYSIS_LINEEVALUATOR_H
