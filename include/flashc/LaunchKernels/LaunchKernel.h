//===- LaunchKernel.h - a kernel before or after the main ones of a launch ----------------------------------------===//
//
// A launch has a main kernel for each nest of loops of a function, and launch kernels before and after the main ones:
// they compute what a nest reads, or complete its results. A launch kernel is one file of lib/LaunchKernels and one
// line of LaunchKernels.def there. Everyone else loops over the nests' lists of them (LaunchNest.h).
//
//===--------------------------------------------------------------------------------------------------------------===//
#ifndef FLASHC_LAUNCHKERNELS_LAUNCHKERNEL_H
#define FLASHC_LAUNCHKERNELS_LAUNCHKERNEL_H

#include "flashc/Conversion/HostToKernel/ScalarCloner.h"
#include "flashc/Launch/LaunchInterface.h"

namespace flashc {

struct AddedSums;
struct LaunchNest;

/// The launch that a launch kernel becomes a part of: the function that it computes, the module of its kernels, their
/// tables, and its nests.
struct LaunchContext {
  mlir::func::FuncOp host;
  mlir::gpu::GPUModuleOp module;
  const TileTables &tables;
  mlir::ArrayRef<const LaunchNest *> nests = {};
};

/// A launch kernel. Its functions are given the nest whose list has it, with the tiles that the schedule chose. A
/// launch calls addTables of all its kernels; getDestinations and getAddedSums while main kernels are emitted; then
/// addRoles of all kernels, and emit.
class LaunchKernel {
public:
  enum class Time {
    Before, // all main kernels
    After,  // all main kernels
    Last    // after all others
  };

  /// `op`: the op of L1 that the kernel stands for, if there is one. Where several nests have a kernel of one op, the
  /// launch has the first. `outputs`: the arguments of the launch, numbered before its results, that this kernel writes
  /// and no nest does.
  explicit LaunchKernel(mlir::Operation *op = nullptr, mlir::SmallVector<unsigned, 1> outputs = {})
      : op(op), outputs(std::move(outputs)) {}
  virtual ~LaunchKernel() = default;

  mlir::Operation *getOp() const { return op; }
  mlir::ArrayRef<unsigned> getOutputs() const { return outputs; }

  virtual Time getTime() const { return Time::After; }
  /// Adds the tables of the workspace through which this kernel and others pass values. Fails after an error.
  virtual mlir::LogicalResult addTables(const LaunchNest &nest, TileTables &tables) const { return mlir::success(); }
  /// The arrays that the main kernel stores a result of the nest to, for this kernel to read; none if this kernel does
  /// not take the result, null ones after an error.
  virtual mlir::SmallVector<mlir::Value> getDestinations(const LaunchNest &nest, unsigned result, mlir::OpBuilder &b,
                                                         ScalarCloner &scalars) const {
    return {};
  }
  /// The sums to which the main kernel adds a result of the nest, in place of storing it; null if it stores the result.
  /// A kernel before the main one sets the sums to 0 (DeltaKernel.cpp).
  virtual const AddedSums *getAddedSums(unsigned result) const { return nullptr; }
  /// Adds the roles of arguments of the launch that are this kernel's, and not the nest's.
  virtual void addRoles(LaunchRoles &roles) const {}
  /// Makes the kernel, whose name begins with the host function's. Returns how it is launched, or fails after an error.
  virtual mlir::FailureOr<ManifestKernel> emit(const LaunchNest &nest, const LaunchContext &context) const = 0;

protected:
  mlir::Operation *op;
  mlir::SmallVector<unsigned, 1> outputs;
};

} // namespace flashc

#endif // FLASHC_LAUNCHKERNELS_LAUNCHKERNEL_H
