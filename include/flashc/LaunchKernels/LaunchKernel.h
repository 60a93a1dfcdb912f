//===- LaunchKernel.h - a kernel before or after the main ones of a launch ----------------------------------------===//
// A function becomes a launch, which has a main kernel for each nest of loops. Launch kernels run before or after the
// main kernels: they compute arrays that a nest reads, or complete the results of a nest. Each kind of launch kernel
// has a file in lib/LaunchKernels and a line in LaunchKernels.def there. Other code does not know the kinds; it only
// loops over each nest's list of launch kernels (LaunchNest.h).
//===--------------------------------------------------------------------------------------------------------------===//
#ifndef FLASHC_LAUNCHKERNELS_LAUNCHKERNEL_H
#define FLASHC_LAUNCHKERNELS_LAUNCHKERNEL_H

#include "flashc/Conversion/HostToKernel/ScalarCloner.h"
#include "flashc/Launch/LaunchInterface.h"

namespace flashc {

struct AddedSums;
struct LaunchNest;

/// What the kernels of a launch have in common: the host function, the module of all kernels, their tables, and the
/// nests.
struct LaunchContext {
  mlir::func::FuncOp host;
  mlir::gpu::GPUModuleOp module;
  const TileTables &tables;
  mlir::ArrayRef<const LaunchNest *> nests = {};
};

/// A kernel that a launch runs before or after its main kernels. Each function gets the nest that owns the kernel, with
/// the tile sizes of the chosen schedule. The functions are called in this order: addTables of all kernels of the
/// launch; getDestinations and getAddedSums while main kernels are emitted; addRoles of all kernels; emit.
class LaunchKernel {
public:
  enum class Time {
    Before, // before all main kernels
    After,  // after all main kernels
    Last    // after all other kernels
  };

  /// `op` is the op of level L1 that the kernel computes, or null. If several nests have a kernel of the same op, the
  /// launch runs only the first of these kernels. `outputs` are the arguments of the launch that only this kernel
  /// writes; the function's arguments are numbered first, then its results.
  explicit LaunchKernel(mlir::Operation *op = nullptr, mlir::SmallVector<unsigned, 1> outputs = {})
      : op(op), outputs(std::move(outputs)) {}
  virtual ~LaunchKernel() = default;

  mlir::Operation *getOp() const { return op; }
  mlir::ArrayRef<unsigned> getOutputs() const { return outputs; }

  virtual Time getTime() const { return Time::After; }
  /// Adds the tables of the workspace through which this kernel and other kernels pass values. Fails after an error.
  virtual mlir::LogicalResult addTables(const LaunchNest &nest, TileTables &tables) const { return mlir::success(); }
  /// If this kernel reads `result` of the nest: returns the arrays to which the main kernel must store it, or null
  /// arrays after an error. Otherwise returns no array.
  virtual mlir::SmallVector<mlir::Value> getDestinations(const LaunchNest &nest, unsigned result, mlir::OpBuilder &b,
                                                         ScalarCloner &scalars) const {
    return {};
  }
  /// Returns the sums in the workspace to which the main kernel adds `result`. A kernel before the main kernel sets
  /// these sums to 0 (DeltaKernel.cpp). Null if the main kernel stores `result`.
  virtual const AddedSums *getAddedSums(unsigned result) const { return nullptr; }
  /// Adds the roles of those arguments of the launch that this kernel uses but the nest does not.
  virtual void addRoles(LaunchRoles &roles) const {}
  /// Makes the kernel, whose name begins with the host function's name. Returns the description of the launch. Fails
  /// after an error.
  virtual mlir::FailureOr<ManifestKernel> emit(const LaunchNest &nest, const LaunchContext &context) const = 0;

protected:
  mlir::Operation *op;
  mlir::SmallVector<unsigned, 1> outputs;
};

} // namespace flashc

#endif // FLASHC_LAUNCHKERNELS_LAUNCHKERNEL_H
