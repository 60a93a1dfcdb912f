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
  /// The name of the result, and the StepDim of each dimension that the outputs have after all launch kernels.
  mlir::flash::StepOperand info;
  /// The extents of the whole result (of all tiles together) at level L1.
  mlir::SmallVector<mlir::OpFoldResult, 4> extents = {};
  /// Whether several iterations of the parallel loop add to the same elements: the streamed tile determines to which
  /// elements a step adds.
  bool isAddedUp = false;
};

/// A result that the function returns or writes to an argument, possibly after a launch kernel has completed it.
struct NestOutput {
  unsigned result;
  /// The number of the argument of the launch. The function's arguments are numbered first, then its results.
  unsigned argument;
  mlir::Type elementType;
};

/// The log-sum-exp of the first part of a row whose results are in the outputs already. No scores have this sum: with
/// an infinite score it is NaN.
constexpr double kRowIsWhole = std::numeric_limits<double>::infinity();

/// A dimension of the parallel loop that divides the keys of each tile into parts (flash-split-kv,
/// flash-split-key-loops).
struct KeyParts {
  ParallelDim dim;
  /// The op that merges the parts. Its results are the outputs. Null if there is nothing to merge.
  mlir::flash::MergeStatesOp merge = {};
  /// The op by which the launch decides how long the parts of a tile are. Null if the loops say it. A tile then may
  /// have fewer parts than `dim` counts: the last ones have no work tile.
  mlir::flash::PartSizeOp size = {};
};

/// The part of the description of a nest that launch kernels may read. LoopNest of convert-flash-to-tile derives from
/// it.
struct LaunchNest {
  mlir::func::FuncOp func;
  /// The op before which scalars for kernels may be computed at level L1. The whole nest lies before it.
  mlir::Operation *end = nullptr;
  /// The number of this nest among the nests of the function.
  unsigned number = 0;
  bool isOnly = true;
  int64_t residentTile = 0, streamedTile = 0, groupSize = 1;
  KeyParts parts;
  /// In a backward pass whose step reads delta: the arrays of the log-sum-exp and of delta (flash::emitRowDots).
  mlir::Value lse, delta;
  mlir::SmallVector<NestResult> results;
  mlir::SmallVector<NestOutput> outputs;
  std::vector<std::unique_ptr<LaunchKernel>> kernels;

  /// Returns the uses of a result after the loops.
  mlir::SmallVector<mlir::OpOperand *> getUses(unsigned result) const;
  /// Returns the op of type `Op` whose first operand is the nest's first result. Null if there is none.
  template <typename Op> Op findUser() const {
    for (mlir::OpOperand *use : results.empty() ? mlir::SmallVector<mlir::OpOperand *>() : getUses(0))
      if (auto op = mlir::dyn_cast<Op>(use->getOwner()); op && use->getOperandNumber() == 0)
        return op;
    return {};
  }
  /// If the user of `use` only passes on the nest's result `result`, returns the user's result. Such a user rounds or
  /// casts, cuts off padding, or puts a tile into the array of all tiles (or adds it there). Null if the user does
  /// something else.
  mlir::Value getCarried(mlir::OpOperand &use, unsigned result) const;
  /// Returns the arguments of the launch that a result is written to.
  mlir::SmallVector<unsigned, 1> getOutputs(unsigned result) const;
  /// Returns a suffix for the names of kernels: `getSuffix` for a kernel of one result of the nest, `getNumberSuffix`
  /// for a kernel of the nest.
  std::string getSuffix(unsigned result) const;
  std::string getNumberSuffix() const { return number ? std::to_string(number) : ""; }

  /// Returns the arrays to which the main kernel stores a result. If launch kernels read the result, the first of these
  /// kernels names the arrays. Otherwise they are the outputs. Fails after an error.
  mlir::FailureOr<mlir::SmallVector<mlir::Value>> getDestinations(unsigned result, mlir::OpBuilder &b,
                                                                  ScalarCloner &scalars) const;
  /// Returns the sums to which the main kernel adds a result (LaunchKernel::getAddedSums). Null if it stores the
  /// result.
  const AddedSums *getAddedSums(unsigned result) const;
  /// Returns the nest's launch kernel that computes `op`, or null.
  const LaunchKernel *findKernel(mlir::Operation *op) const;
  bool isAnyAddedUp() const {
    return llvm::any_of(results, [](const NestResult &result) { return result.isAddedUp; });
  }
};

/// Finds the launch kernels of a nest. All other members of the nest must be set.
void matchKernels(LaunchNest &nest);

/// Finds the launch kernels of a nest, and follows its results to where they are returned or written to arguments.
/// Emits an error and fails if a result has another use, or if nothing is returned or written.
mlir::LogicalResult matchLaunch(LaunchNest &nest);

/// Returns the arguments of the launch to which `value` is written, or as which it is returned (results are numbered
/// after arguments).
mlir::SmallVector<unsigned, 1> findOutputs(mlir::func::FuncOp func, mlir::Value value);

} // namespace flashc

#endif // FLASHC_LAUNCHKERNELS_LAUNCHNEST_H
