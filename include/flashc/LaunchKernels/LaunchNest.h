//===- LaunchNest.h - what launch kernels know of a nest ----------------------------------------------------------===//
#ifndef FLASHC_LAUNCHKERNELS_LAUNCHNEST_H
#define FLASHC_LAUNCHKERNELS_LAUNCHNEST_H

#include "flashc/LaunchKernels/LaunchKernel.h"

#include <memory>

namespace flashc {

/// One dimension of the parallel loop: its induction variable, its upper bound, and its step.
struct ParallelDim {
  mlir::Value position;
  mlir::OpFoldResult extent;
  int64_t step;
};

/// A value that the loops of a nest compute, for one tile or for all tiles.
struct NestResult {
  mlir::Value value;
  /// The result's name, and the StepDim of each dimension of the outputs, after all launch kernels.
  mlir::flash::StepOperand info;
  /// The extents in L1 of the result of all tiles together.
  mlir::SmallVector<mlir::OpFoldResult, 4> extents = {};
  /// Whether iterations of the parallel loop add to the same elements, because these depend on the streamed tile.
  bool isAddedUp = false;
};

/// A result that is returned or written to an argument, perhaps by a launch kernel.
struct NestOutput {
  unsigned result;
  /// The argument of the launch: entry arguments are numbered first, then results.
  unsigned argument;
  mlir::Type elementType;
};

/// The loop over parts of each tile's keys, a dimension of the parallel loop (flash-split-kv, flash-split-key-loops).
struct KeyParts {
  ParallelDim dim;
  /// The op that merges several parts and whose results are the outputs.
  mlir::flash::MergeStatesOp merge = {};
};

/// The part of a nest of loops in L1 that launch kernels may read. LoopNest of convert-flash-to-tile derives from it.
struct LaunchNest {
  mlir::func::FuncOp func;
  /// The op before which scalars for kernels may be computed in L1; the whole nest is before it.
  mlir::Operation *end = nullptr;
  /// The number of this nest among the nests of the function.
  unsigned number = 0;
  bool isOnly = true;
  int64_t residentTile = 0, streamedTile = 0, groupSize = 1;
  KeyParts parts;
  /// The arrays of a backward pass's log-sum-exp and delta (flash::emitRowDots), if its step reads delta.
  mlir::Value lse, delta;
  mlir::SmallVector<NestResult> results;
  mlir::SmallVector<NestOutput> outputs;
  std::vector<std::unique_ptr<LaunchKernel>> kernels;

  /// The uses of a result after the loops.
  mlir::SmallVector<mlir::OpOperand *> getUses(unsigned result) const;
  /// Returns the op of type `Op` whose first operand is the first result, or null.
  template <typename Op> Op findUser() const {
    for (mlir::OpOperand *use : results.empty() ? mlir::SmallVector<mlir::OpOperand *>() : getUses(0))
      if (auto op = mlir::dyn_cast<Op>(use->getOwner()); op && use->getOperandNumber() == 0)
        return op;
    return {};
  }
  /// Returns the value that carries a result on after `use`, on its way out of the loops: the same elements in another
  /// type, without padding, or as a part of the array of all tiles. Null if `use` does something else.
  mlir::Value getCarried(mlir::OpOperand &use, unsigned result) const;
  /// Returns the arguments of the launch that a result is written to.
  mlir::SmallVector<unsigned, 1> getOutputs(unsigned result) const;
  /// Returns a part of kernels' names, for a kernel of one result of the nest, and for a kernel of one nest.
  std::string getSuffix(unsigned result) const;
  std::string getNumberSuffix() const { return number ? std::to_string(number) : ""; }

  /// Returns the arrays that the main kernel stores a result to: the destinations of the first launch kernel that reads
  /// the result, or else the outputs. Fails after an error.
  mlir::FailureOr<mlir::SmallVector<mlir::Value>> getDestinations(unsigned result, mlir::OpBuilder &b,
                                                                  ScalarCloner &scalars) const;
  /// Returns the sums that the main kernel adds a result to (LaunchKernel::getAddedSums), or null.
  const AddedSums *getAddedSums(unsigned result) const;
  /// Returns the kernel of an op, or null.
  const LaunchKernel *findKernel(mlir::Operation *op) const;
  bool isAnyAddedUp() const {
    return llvm::any_of(results, [](const NestResult &result) { return result.isAddedUp; });
  }
};

/// Finds the launch kernels of a nest whose other members are set.
void matchKernels(LaunchNest &nest);

/// Finds the launch kernels, and follows the nest's results to where they are returned or written to arguments. Emits
/// an error and fails if a result has another use, or nothing is written.
mlir::LogicalResult matchLaunch(LaunchNest &nest);

/// Returns the arguments of a launch (then results) that a value of a function is written to or returned as.
mlir::SmallVector<unsigned, 1> findOutputs(mlir::func::FuncOp func, mlir::Value value);

} // namespace flashc

#endif // FLASHC_LAUNCHKERNELS_LAUNCHNEST_H
