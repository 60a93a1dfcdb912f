//===- CallEvaluator.h - integers of a program, computed for one call ---------------------------------------------===//
// Runs the index arithmetic of L1 with the numbers of a call: extents, scalars, and elements of arrays. The users of
// the evaluator run the loops themselves, and set the counter in each iteration. A number stays cached until one of the
// counters that it is computed from changes.
//===--------------------------------------------------------------------------------------------------------------===//
#ifndef FLASHC_LIB_ANALYSIS_CALLEVALUATOR_H
#define FLASHC_LIB_ANALYSIS_CALLEVALUATOR_H

#include "CallArguments.h"
#include "flashc/Dialect/Flash/IR/Flash.h"

#include <array>
#include <map>
#include <memory>

namespace flashc {

/// An induction variable of a loop, with its bounds and step.
struct LoopCounter {
  mlir::Value value;
  mlir::OpFoldResult begin, end, step;
};
/// Returns the counters of an scf.for or scf.forall.
llvm::SmallVector<LoopCounter> getLoopCounters(mlir::Operation *loop);

/// The values of a counter: begin + step * k for all k in [0, count).
struct Iterations {
  int64_t begin, step, count;
};

/// Evaluates integers and the extents of tensors. A true i1 has the number -1.
class CallEvaluator {
public:
  using Number = std::optional<int64_t>;
  using Ends = std::array<int64_t, 2>;

  explicit CallEvaluator(CallArguments call) : call(std::make_shared<const CallArguments>(std::move(call))) {}

  /// Sets the counter of a loop. The counters of the loops around it must be set before.
  void set(mlir::Value counter, int64_t number);

  /// Returns the number of a value. Nullopt if the number is not known; getUnknown then says why.
  Number get(mlir::Value value);
  Number get(mlir::OpFoldResult value);
  Number getExtent(mlir::Value tensor, int64_t dim);
  std::optional<Iterations> getIterations(const LoopCounter &counter);
  /// After a function returned nullopt: returns the argument or the op result whose number is not known.
  mlir::Value getUnknown() const { return unknown; }

private:
  explicit CallEvaluator(std::shared_ptr<const CallArguments> call) : call(std::move(call)) {}

  std::optional<llvm::SmallVector<int64_t, 4>> getAll(mlir::ValueRange values);
  Number compute(mlir::OpResult result);
  Number computeInteger(mlir::OpResult result);
  mlir::Attribute fold(mlir::OpResult result);
  mlir::Attribute getConstant(mlir::Value value);
  std::optional<uint64_t> read(mlir::Value array, llvm::ArrayRef<int64_t> positions);

  // The functions from here to readRuns are defined in TableEvaluator.cpp.
  /// Returns the element that a tensor.extract or memref.load reads, if it is an integer.
  Number load(mlir::Value array, llvm::ArrayRef<int64_t> positions);
  Number readSorted(mlir::Value sorted, mlir::ValueRange indices, int64_t position);
  Number countElements(mlir::flash::CountLeOp op);
  Number getNth(mlir::flash::NthOp op);
  Number placeTile(mlir::flash::SegmentTileOp op, unsigned result);
  std::optional<std::array<int64_t, 3>> findSegment(mlir::flash::SegmentTileOp op, int64_t length, int64_t tile);
  Number yield(mlir::Block &body, llvm::ArrayRef<int64_t> arguments);
  std::optional<Ends> findEnds(mlir::flash::TileRangeOp op);
  Number readRuns(mlir::flash::TileRunsOp op, llvm::ArrayRef<int64_t> place);

  /// A cached number. The number is valid until the counter of `level`, or a counter of an outer level, changes.
  struct Known {
    int64_t number;
    size_t level, age;
  };

  std::shared_ptr<const CallArguments> call;
  llvm::DenseMap<mlir::Value, Known> known;
  /// Each counter has a level, from 1 on, in the order in which counters were first set. `ages` counts the changes of
  /// each level.
  llvm::DenseMap<mlir::Value, size_t> levels;
  llvm::SmallVector<size_t> ages = {0};
  /// The level on which the number that is being computed depends: the innermost one found so far.
  size_t level = 0;
  mlir::Value unknown;
  /// The region of each table has an evaluator of its own. The contents of tables are cached.
  std::map<mlir::Block *, std::unique_ptr<CallEvaluator>> regions;
  using Place = std::pair<mlir::Operation *, std::vector<int64_t>>;
  std::map<Place, Ends> ends;
  std::map<Place, std::vector<std::array<int64_t, 4>>> runs;
};

/// Returns the tensor from which `tensor` has its shape and, in destination style, its memory: the initial value of a
/// loop's argument, or the destination of a result. Null if there is none.
mlir::Value getTiedValue(mlir::Value tensor);

/// Whether one of `values` is computed from `counter` by ops inside the loop of the counter.
bool isComputedFrom(mlir::ValueRange values, mlir::BlockArgument counter);

} // namespace flashc

#endif // FLASHC_LIB_ANALYSIS_CALLEVALUATOR_H
