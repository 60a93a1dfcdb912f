//===- LaunchKernel.h - a kernel before or after the main ones of a launch ----------------------------------------===//
// A launch has a main kernel for each nest of loops of a function, and launch kernels before and after the main
// kernels: they compute arrays that a nest reads, or complete its results. A kind of launch kernels is one file of
// lib/LaunchKernels and one line of LaunchKernels.def there. All other code loops over the nests' lists of launch
// kernels (LaunchNest.h).
//===--------------------------------------------------------------------------------------------------------------===//
#ifndef FLASHC_LAUNCHKERNELS_LAUNCHKERNEL_H
#define FLASHC_LAUNCHKERNELS_LAUNCHKERNEL_H

#include "flashc/Conversion/HostToKernel/ScalarCloner.h"
#include "flashc/Launch/LaunchInterface.h"

namespace flashc {

struct AddedSums;
struct LaunchNest;

/// The launch that a launch kernel becomes a part of: the host function, the module of the launch's kernels, their
/// tables, and its nests.
struct LaunchContext {
  mlir::func::FuncOp host;
  mlir::gpu::GPUModuleOp module;
  const TileTables &tables;
  mlir::ArrayRef<const LaunchNest *> nests = {};
};

/// A launch kernel. Each function is passed the nest that owns the kernel, with the tile sizes of the chosen schedule.
/// The order of calls is: addTables of all kernels of the launch; getDestinations and getAddedSums while main kernels
/// are emitted; addRoles of all kernels; emit.
class LaunchKernel {
public:
  enum class Time {
    Before, // all main kernels
    After,  // all main kernels
    Last    // after all others
  };

  /// `op` is the op of L1 that the kernel computes, or null. If several nests have a kernel of one op, the launch takes
  /// the first. `outputs` are the arguments of the launch (entry arguments are numbered first, then results) that only
  /// this kernel writes.
  explicit LaunchKernel(mlir::Operation *op = nullptr, mlir::SmallVector<unsigned, 1> outputs = {})
      : op(op), outputs(std::move(outputs)) {}
  virtual ~LaunchKernel() = default;

  mlir::Operation *getOp() const { return op; }
  mlir::ArrayRef<unsigned> getOutputs() const { return outputs; }

  virtual Time getTime() const { return Time::After; }
  /// Adds the tables of the workspace that this kernel and others use to pass values. Fails after an error.
  virtual mlir::LogicalResult addTables(const LaunchNest &nest, TileTables &tables) const { return mlir::success(); }
  /// Returns the arrays to which the main kernel stores a result of the nest that this kernel reads; none if this
  /// kernel does not read the result, null arrays after an error.
  virtual mlir::SmallVector<mlir::Value> getDestinations(const LaunchNest &nest, unsigned result, mlir::OpBuilder &b,
                                                         ScalarCloner &scalars) const {
    return {};
  }
  /// Returns the sums to which the main kernel adds a result of the nest; null if it stores the result instead. A
  /// kernel before the main one sets the sums to 0 (DeltaKernel.cpp).
  virtual const AddedSums *getAddedSums(unsigned result) const { return nullptr; }
  /// Adds the roles of arguments of the launch that this kernel uses and the nest does not.
  virtual void addRoles(LaunchRoles &roles) const {}
  /// Makes the kernel; its name begins with the host function's name. Returns how it is launched, or fails after an
  /// error.
  virtual mlir::FailureOr<ManifestKernel> emit(const LaunchNest &nest, const LaunchContext &context) const = 0;

protected:
  mlir::Operation *op;
  mlir::SmallVector<unsigned, 1> outputs;
};

} // namespace flashc

#endif // FLASHC_LAUNCHKERNELS_LAUNCHKERNEL_H
