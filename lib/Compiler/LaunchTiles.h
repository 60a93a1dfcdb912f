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
  /// The options with the tiles that are computed. They differ from `loaded` if each consumer visits key ranges of its
  /// own: then the rows of one consumer are a tile.
  CompileOptions computed;
  /// Says where the tiles come from, for people.
  std::string source;
};

/// The extents of a launch's arguments.
using LaunchShapes = llvm::ArrayRef<llvm::ArrayRef<int64_t>>;

/// Returns the tiles of the kernel that a launch takes. `attention` is the one attention of its module, and `shapes`
/// are the shapes of the arguments of the launch. If there is no kernel, both members of the result are `options`.
/// Fails after a diagnostic.
mlir::FailureOr<LaunchTiles> chooseLaunchTiles(mlir::flash::ScoresOpInterface attention, LaunchShapes shapes,
                                               const CompileOptions &options);

/// The numbers of queries and keys of L1's tiles.
struct TileSizes {
  int64_t queries, keys;
};
TileSizes getTileSizes(const PipelineOptions &pipeline);

} // namespace flashc

#endif // FLASHC_LIB_COMPILER_LAUNCHTILES_H
