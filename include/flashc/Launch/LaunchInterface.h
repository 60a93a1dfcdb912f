//===- LaunchInterface.h - what a launch passes, and what must hold of it -----------------------------------------===//
//
// The part of the manifest that does not depend on how the function is compiled: the same for a GPU and for the CPU.
//
//===--------------------------------------------------------------------------------------------------------------===//
#ifndef FLASHC_LAUNCH_LAUNCHINTERFACE_H
#define FLASHC_LAUNCH_LAUNCHINTERFACE_H

#include "flashc/Runtime/Manifest.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

#include <optional>
#include <string>
#include <vector>

namespace flashc {

struct LaunchInterface {
  std::vector<ManifestArgument> arguments;
  /// Pairs of formulas (docs/manifest.md) that are equal in every launch, by (C4) to (C6) of flash.attention. Pairs
  /// that the static extents of the arguments prove are left out.
  std::vector<std::pair<GridFormula, GridFormula>> requirements;
};

/// Which launch arguments are those of one attention, or of the sums of its columns, which read an lse and give c. What
/// is not one has no number.
struct AttentionArguments {
  std::optional<unsigned> q, k, v, lseInput;
  mlir::SmallVector<unsigned, 1> o, lse, c;
  bool sumsGroups = false; // c has a row for each key head
  /// None: not known. D and Dv are.
  std::optional<int64_t> groupSize;
  int64_t headDim = 0, valueDim = 0;
};

/// The interface of `function`, which computes `attentions`.
LaunchInterface describeLaunch(mlir::func::FuncOp function, mlir::ArrayRef<AttentionArguments> attentions);

/// The interface of a function at L0.
LaunchInterface describeLaunch(mlir::func::FuncOp function);

} // namespace flashc

#endif // FLASHC_LAUNCH_LAUNCHINTERFACE_H
