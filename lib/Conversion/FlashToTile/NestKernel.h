//===- NestKernel.h - a nest on its way to a kernel ---------------------------------------------------------------===//
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
  /// Other kernels of the launch run first: each starts before the one before it has ended, and waits itself.
  bool mayOverlap = false;
  /// What emission makes.
  mlir::gpu::GPUFuncOp func = {};
  ManifestKernel info = {};
};

/// The nests with their schedules, as far as they do not hang on each other. Emits an error and fails if a schedule is
/// not the one that L1 was tiled for.
mlir::FailureOr<std::vector<NestKernel>> scheduleNests(llvm::MutableArrayRef<LoopNest> nests, llvm::StringRef target,
                                                       llvm::StringRef overrides);

/// Decides what the schedules leave open to what only L1 shows, and checks them. Returns why work tiles are sorted, or
/// an empty text; emits an error and fails if a schedule does not fit the target. `hasTables`: the launch has some.
mlir::FailureOr<std::string> settleSchedules(llvm::MutableArrayRef<NestKernel> kernels, llvm::StringRef target,
                                             bool hasTables);

/// What the function's arguments and results are to a nest and its launch kernels.
LaunchRoles getRoles(const LoopNest &nest);

} // namespace flashc

#endif // FLASHC_LIB_CONVERSION_FLASHTOTILE_NESTKERNEL_H
