//===- LaunchNest.h - what launch kernels know of a nest ----------------------------------------------------------===//
#ifndef FLASHC_LAUNCHKERNELS_LAUNCHNEST_H
#define FLASHC_LAUNCHKERNELS_LAUNCHNEST_H

#include "flashc/LaunchKernels/LaunchKernel.h"

#include <memory>

namespace flashc {

/// One dimension of the parallel loop: the position in it, how far it goes, and its step.
struct ParallelDim {
  mlir::Value position;
  mlir::OpFoldResult extent;
  int64_t step;
};

/// A value that the loops of a nest compute, a tile or a whole one.
struct NestResult {
  mlir::Value value;
  /// Its name, and what the dimensions of the outputs move with, after all launch kernels.
  mlir::flash::StepOperand info;
  /// In L1, of all tiles together.
  mlir::SmallVector<mlir::OpFoldResult, 4> extents = {};
  /// Whether iterations of the parallel loop add to the same elements, which move with streamed tiles.
  bool isAddedUp = false;
};

/// A result that is returned or written to an argument, perhaps by a launch kernel.
struct NestOutput {
  unsigned result;
  /// The argument of the launch: entry arguments are numbered first, then results.
  unsigned argument;
  mlir::Type elementType;
};

/// Parts of each tile's keys, which are iterations of the parallel loop (flash-split-kv, flash-split-key-loops).
struct KeyParts {
  ParallelDim dim;
  /// What merges several parts, whose results then are the outputs.
  mlir::flash::MergeStatesOp merge = {};
};

/// The loops of one step in L1, as far as launch kernels may know them. LoopNest of convert-flash-to-tile is the whole.
struct LaunchNest {
  mlir::func::FuncOp func;
  /// Where scalars for kernels may be computed in L1: all of the nest comes before.
  mlir::Operation *end = nullptr;
  /// Among the nests of the function.
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
  /// The op of a kind that has the first result as its first operand; null if there is none.
  template <typename Op> Op findUser() const {
    for (mlir::OpOperand *use : results.empty() ? mlir::SmallVector<mlir::OpOperand *>() : getUses(0))
      if (auto op = mlir::dyn_cast<Op>(use->getOwner()); op && use->getOperandNumber() == 0)
        return op;
    return {};
  }
  /// The value that `use` makes of a result, or of what a launch kernel made of the result, on its way out of the
  /// loops: the same with another type, without padding, or in the array of all tiles. Null if `use` does something
  /// else.
  mlir::Value getCarried(mlir::OpOperand &use, unsigned result) const;
  /// The arguments of the launch that a result is written to.
  mlir::SmallVector<unsigned, 1> getOutputs(unsigned result) const;
  /// Parts of kernels' names: for a kernel that only one result of the nest has, and for one that only one nest has.
  std::string getSuffix(unsigned result) const;
  std::string getNumberSuffix() const { return number ? std::to_string(number) : ""; }

  /// The arrays that the main kernel stores a result to: those of the first launch kernel that takes it, or the
  /// outputs. Fails after an error.
  mlir::FailureOr<mlir::SmallVector<mlir::Value>> getDestinations(unsigned result, mlir::OpBuilder &b,
                                                                  ScalarCloner &scalars) const;
  /// The sums that it adds a result to (LaunchKernel::getAddedSums); null: it does not.
  const AddedSums *getAddedSums(unsigned result) const;
  /// The kernel of an op; null if there is none.
  const LaunchKernel *findKernel(mlir::Operation *op) const;
  bool isAnyAddedUp() const {
    return llvm::any_of(results, [](const NestResult &result) { return result.isAddedUp; });
  }
};

/// Finds the kernels of a nest of which all else is known.
void matchKernels(LaunchNest &nest);

/// Finds the kernels, and follows the nest's results to where they are returned or written to arguments. Emits an error
/// and fails where a result is used otherwise, or nothing is written.
mlir::LogicalResult matchLaunch(LaunchNest &nest);

/// The arguments of a launch that a value of a function is written to, or results that it is.
mlir::SmallVector<unsigned, 1> findOutputs(mlir::func::FuncOp func, mlir::Value value);

} // namespace flashc

#endif // FLASHC_LAUNCHKERNELS_LAUNCHNEST_H
