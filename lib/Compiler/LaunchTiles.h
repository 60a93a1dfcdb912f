//===- LaunchTiles.h - the tiles of the kernel that a launch takes ------------------------------------------------===//
#ifndef FLASHC_LIB_COMPILER_LAUNCHTILES_H
#define FLASHC_LIB_COMPILER_LAUNCHTILES_H

#include "flashc/Compiler/Compiler.h"
#include "flashc/Dialect/Flash/IR/Flash.h"

namespace flashc {

/// L1's options for the kernel that a launch takes.
struct LaunchTiles {
  /// With the tiles that a CTA loads and stores.
  CompileOptions loaded;
  /// With the tiles that are computed: consumers that visit their own keys have tiles of their own rows.
  CompileOptions computed;
  /// Where they come from, for people.
  std::string source;
};

/// The extents of a launch's arguments.
using LaunchShapes = llvm::ArrayRef<llvm::ArrayRef<int64_t>>;

/// The tiles of the kernel that a launch with arguments of `shapes` takes for the one attention of its module, and
/// `options` for what has no kernel. Fails after a diagnostic.
mlir::FailureOr<LaunchTiles> chooseLaunchTiles(mlir::flash::ScoresOpInterface attention, LaunchShapes shapes,
                                               const CompileOptions &options);

/// How many rows of queries and keys L1's tiles have.
struct TileSizes {
  int64_t queries, keys;
};
TileSizes getTileSizes(const PipelineOptions &pipeline);

} // namespace flashc

#endif // FLASHC_LIB_COMPILER_LAUNCHTILES_H
