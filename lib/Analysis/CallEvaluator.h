//===- CallEvaluator.h - integers of a program, computed for one call ---------------------------------------------===//
//
// The evaluator runs the index arithmetic of L1 with the numbers of a call: extents, scalars, and elements of arrays.
// Loops are run by the evaluator's users, which set the counter of each iteration. A number is computed once, and again
// when a counter has moved that it is computed from.
//
//===--------------------------------------------------------------------------------------------------------------===//
#ifndef FLASHC_LIB_ANALYSIS_CALLEVALUATOR_H
#define FLASHC_LIB_ANALYSIS_CALLEVALUATOR_H

#include "CallArguments.h"
#include "flashc/Dialect/Flash/IR/Flash.h"

#include <array>
#include <map>
#include <memory>

namespace flashc {

/// A counter of a loop, and from where to where it counts.
struct LoopCounter {
  mlir::Value value;
  mlir::OpFoldResult begin, end, step;
};
/// The counters of an scf.for or scf.forall.
llvm::SmallVector<LoopCounter> getLoopCounters(mlir::Operation *loop);

/// A counter has the values begin + step * k for all k in [0, count).
struct Iterations {
  int64_t begin, step, count;
};

/// Evaluates integers and tensor extents. An i1 that holds is -1.
class CallEvaluator {
public:
  using Number = std::optional<int64_t>;
  using Ends = std::array<int64_t, 2>;

  explicit CallEvaluator(CallArguments call) : call(std::make_shared<const CallArguments>(std::move(call))) {}

  /// Sets a counter of a loop. Counters of outer loops are to be set first.
  void set(mlir::Value counter, int64_t number);

  /// None: the value is not known (getUnknown).
  Number get(mlir::Value value);
  Number get(mlir::OpFoldResult value);
  Number getExtent(mlir::Value tensor, int64_t dim);
  std::optional<Iterations> getIterations(const LoopCounter &counter);
  /// After none: the argument or the result of an op that has no number.
  mlir::Value getUnknown() const { return unknown; }

private:
  explicit CallEvaluator(std::shared_ptr<const CallArguments> call) : call(std::move(call)) {}

  std::optional<llvm::SmallVector<int64_t, 4>> getAll(mlir::ValueRange values);
  Number compute(mlir::OpResult result);
  Number computeInteger(mlir::OpResult result);
  mlir::Attribute fold(mlir::OpResult result);
  mlir::Attribute getConstant(mlir::Value value);
  std::optional<uint64_t> read(mlir::Value array, llvm::ArrayRef<int64_t> positions);

  // TableEvaluator.cpp
  /// The number of an element that a tensor.extract or memref.load reads, if it is an integer.
  Number load(mlir::Value array, llvm::ArrayRef<int64_t> positions);
  Number readSorted(mlir::Value sorted, mlir::ValueRange indices, int64_t position);
  Number countElements(mlir::flash::CountLeOp op);
  Number getNth(mlir::flash::NthOp op);
  Number placeTile(mlir::flash::SegmentTileOp op, unsigned result);
  std::optional<std::array<int64_t, 3>> findSegment(mlir::flash::SegmentTileOp op, int64_t length, int64_t tile);
  Number yield(mlir::Block &body, llvm::ArrayRef<int64_t> arguments);
  std::optional<Ends> findEnds(mlir::flash::TileRangeOp op);
  Number readRuns(mlir::flash::TileRunsOp op, llvm::ArrayRef<int64_t> place);

  /// A number, which holds until a counter of its level, or an outer one, moves.
  struct Known {
    int64_t number;
    size_t level, age;
  };

  std::shared_ptr<const CallArguments> call;
  llvm::DenseMap<mlir::Value, Known> known;
  /// Counters are levels from 1 on, in the order in which they were set first; a level's age tells how often they
  /// moved.
  llvm::DenseMap<mlir::Value, size_t> levels;
  llvm::SmallVector<size_t> ages = {0};
  /// The innermost level that was read.
  size_t level = 0;
  mlir::Value unknown;
  /// Regions of tables have evaluators of their own, and what tables hold is computed once.
  std::map<mlir::Block *, std::unique_ptr<CallEvaluator>> regions;
  using Place = std::pair<mlir::Operation *, std::vector<int64_t>>;
  std::map<Place, Ends> ends;
  std::map<Place, std::vector<std::array<int64_t, 4>>> runs;
};

/// The tensor that `tensor` has the shape (and, in destination style, the memory) of: a loop's argument has those of
/// its initial value, a result those of its destination. Null if there is none.
mlir::Value getTiedValue(mlir::Value tensor);

/// Whether one of `values` is computed from `counter` by ops inside its loop.
bool isComputedFrom(mlir::ValueRange values, mlir::BlockArgument counter);

} // namespace flashc

#endif // FLASHC_LIB_ANALYSIS_CALLEVALUATOR_H
