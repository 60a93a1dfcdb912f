//===- LaunchTiles.h - the tiles of the kernel that a launch takes ------------------------------------------------===//
#ifndef FLASHC_LIB_COMPILER_LAUNCHTILES_H
#define FLASHC_LIB_COMPILER_LAUNCHTILES_H

#include "flashc/Compiler/Compiler.h"
#include "flashc/Dialect/Flash/IR/Flash.h"

namespace flashc {

/// The options to lower to L1 with the tiles of the kernel that a launch takes.
struct LaunchTiles {
  /// The options with the tiles that a CTA loads and stores.
  CompileOptions loaded;
  /// The options with the tiles that are computed: with per-warpgroup key ranges, each consumer's rows are a tile.
  CompileOptions computed;
  /// The origin of the tiles, for people.
  std::string source;
};

/// The extents of a launch's arguments.
using LaunchShapes = llvm::ArrayRef<llvm::ArrayRef<int64_t>>;

/// Returns the tiles of the kernel that a launch with arguments of `shapes` takes for the one attention of its module,
/// or `options` if there is no kernel. Fails after a diagnostic.
mlir::FailureOr<LaunchTiles> chooseLaunchTiles(mlir::flash::ScoresOpInterface attention, LaunchShapes shapes,
                                               const CompileOptions &options);

/// The numbers of queries and keys of L1's tiles.
struct TileSizes {
  int64_t queries, keys;
};
TileSizes getTileSizes(const PipelineOptions &pipeline);

} // namespace flashc

#endif // FLASHC_LIB_COMPILER_LAUNCHTILES_H
