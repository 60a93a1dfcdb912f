//===- LaunchInterface.h - what a launch passes, and what must hold of it -----------------------------------------===//
//
// The part of the manifest that does not depend on how the function is compiled: the same for a GPU and for the CPU.
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
  /// Pairs of formulas (docs/manifest.md) that are equal in every launch: extents that move with the same dimension of
  /// an op (StepDim), or that the op's types say. Pairs that the static extents of the arguments prove are left out.
  std::vector<std::pair<GridFormula, GridFormula>> requirements;
};

/// What launch arguments are to an op that a function computes: an input or an output of it.
struct LaunchRole {
  /// Its name is the arguments' in the manifest.
  mlir::flash::StepOperand info;
  /// None: a value that is no argument. An output may be returned more than once.
  mlir::SmallVector<unsigned, 1> arguments;
  bool isOutput = false;
  /// The extent of the dimension that moves with nothing, if it has one.
  int64_t depth = 0;
};

/// All that an op reads and writes.
struct LaunchRoles {
  std::vector<LaunchRole> roles;
  int64_t groupSize = 1;
};

/// What the arrays of keys or values in a cache are to an op: `cache` to be called `name`, with the lengths and the
/// pages of sequences and the scales of elements, each of which may be null.
void addCacheRoles(llvm::StringRef name, mlir::Value cache, mlir::Value lengths, mlir::Value table, mlir::Value scales,
                   LaunchRoles &roles);

/// The interface of `function`, which computes `ops`.
LaunchInterface describeLaunch(mlir::func::FuncOp function, mlir::ArrayRef<LaunchRoles> ops);

/// What the arguments of `function` are to an op of it; inputs come first, then outputs.
LaunchRoles getLaunchRoles(mlir::func::FuncOp function, mlir::flash::PlainOpInterface op);

/// The interface of a function at L0.
LaunchInterface describeLaunch(mlir::func::FuncOp function);

} // namespace flashc

#endif // FLASHC_LAUNCH_LAUNCHINTERFACE_H
