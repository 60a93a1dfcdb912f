//===- LaunchInterface.h - what a launch passes, and what must hold of it -----------------------------------------===//
//
// The part of the manifest that is the same for a GPU and for the CPU.
//
//===--------------------------------------------------------------------------------------------------------------===//
#ifndef FLASHC_LAUNCH_LAUNCHINTERFACE_H
#define FLASHC_LAUNCH_LAUNCHINTERFACE_H

#include "flashc/Dialect/Flash/IR/Flash.h"
#include "flashc/Runtime/Manifest.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

#include <vector>

namespace flashc {

struct LaunchInterface {
  std::vector<ManifestArgument> arguments;
  /// Pairs of formulas (docs/manifest.md) that are equal in every launch: extents of arrays that belong to the same
  /// dimension of an op (StepDim), or that the op's types make equal. A pair is left out if static extents already show
  /// that its two formulas are equal.
  std::vector<std::pair<GridFormula, GridFormula>> requirements;
};

/// An array that an op reads or writes, and the launch arguments that stand for this array.
struct LaunchRole {
  /// The operand or result of the op. Its name becomes the name of the arguments in the manifest.
  mlir::flash::StepOperand info;
  /// The numbers of the launch arguments that stand for the array. Empty if the array is no launch argument; several if
  /// it is an output that the function returns several times.
  mlir::SmallVector<unsigned, 1> arguments;
  bool isOutput = false;
  /// The required extent of the array's dimension that belongs to no dimension of the op (StepDim::Whole), if the array
  /// has such a dimension.
  int64_t depth = 0;
};

/// The roles of all arrays that an op reads and writes.
struct LaunchRoles {
  std::vector<LaunchRole> roles;
  int64_t groupSize = 1;
};

/// Adds the roles of a cache's arrays: `cache` under the name `name`, the lengths and the page table of its sequences,
/// and the scales of its elements. Each array but `cache` may be null.
void addCacheRoles(llvm::StringRef name, mlir::Value cache, mlir::Value lengths, mlir::Value table, mlir::Value scales,
                   LaunchRoles &roles);

/// Adds the role of the offsets of packed queries.
void addPackedRole(mlir::Value offsets, LaunchRoles &roles);
/// Returns the description of an array of packed rows. `info` describes such an array with a batch dimension.
mlir::flash::StepOperand getPacked(mlir::flash::StepOperand info);

/// Describes the launch interface of `function`, which computes `ops`.
LaunchInterface describeLaunch(mlir::func::FuncOp function, mlir::ArrayRef<LaunchRoles> ops);

/// Returns the roles of the arguments of `function` for its op `op`: first the inputs, then the outputs.
LaunchRoles getLaunchRoles(mlir::func::FuncOp function, mlir::flash::PlainOpInterface op);

/// Describes the launch interface of a function at level L0.
LaunchInterface describeLaunch(mlir::func::FuncOp function);

} // namespace flashc

#endif // FLASHC_LAUNCH_LAUNCHINTERFACE_H
