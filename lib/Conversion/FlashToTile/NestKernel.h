//===- NestKernel.h - a nest with its schedule and kernel ---------------------------------------------------------===//
#ifndef FLASHC_LIB_CONVERSION_FLASHTOTILE_NESTKERNEL_H
#define FLASHC_LIB_CONVERSION_FLASHTOTILE_NESTKERNEL_H

#include "LoopNest.h"
#include "flashc/Schedule/Schedule.h"

namespace flashc {

struct NestKernel {
  LoopNest &nest;
  Schedule schedule;
  /// The extents of the grid of work tiles.
  std::array<GridFormula, 3> extents;
  /// The reason why CTAs take work tiles from a list that another kernel sorts by their work. Empty if there is no such
  /// list.
  std::string whySorted = {};
  /// Whether other kernels of the launch run before this one. All kernels may then overlap: each starts early, and its
  /// code waits for the kernel before it.
  bool mayOverlap = false;
  /// Results of emission.
  mlir::gpu::GPUFuncOp func = {};
  ManifestKernel info = {};
};

/// Gives each nest its schedule: the one that the function carries, or that of the built-in table. Emits an error and
/// fails if level L1 was tiled for another schedule.
mlir::FailureOr<std::vector<NestKernel>> scheduleNests(llvm::MutableArrayRef<LoopNest> nests, llvm::StringRef target,
                                                       llvm::StringRef overrides);

/// Decides for each kernel whether CTAs take work tiles from a list, and whether it may overlap others. Emits an error
/// and fails if a schedule does not fit the target or the loops of level L1. `hasTables`: whether the launch has
/// tables.
mlir::LogicalResult decideWorkLists(llvm::MutableArrayRef<NestKernel> kernels, llvm::StringRef target, bool hasTables);

/// The roles of the function's arguments and results in a nest and its launch kernels.
LaunchRoles getRoles(const LoopNest &nest);

} // namespace flashc

#endif // FLASHC_LIB_CONVERSION_FLASHTOTILE_NESTKERNEL_H
