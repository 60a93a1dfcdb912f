//===- LaunchTiles.h - the tiles of the kernel that a launch takes ------------------------------------------------===//
#ifndef FLASHC_LIB_COMPILER_LAUNCHTILES_H
#define FLASHC_LIB_COMPILER_LAUNCHTILES_H

#include "flashc/Compiler/Compiler.h"
#include "flashc/Dialect/Flash/IR/Flash.h"

namespace flashc {

/// The tile sizes of a launch, as copies of the compiler's options that have these sizes.
struct LaunchTiles {
  /// The options with the sizes of the tiles that a CTA loads and stores.
  CompileOptions loaded;
  /// The options with the sizes of the tiles that are computed as one. These differ from `loaded` if each consumer
  /// visits key ranges of its own (own-keys): then a tile has the rows of one consumer.
  CompileOptions computed;
  /// Says where the tiles come from, for people.
  std::string source;
};

/// The extents of a launch's arguments.
using LaunchShapes = llvm::ArrayRef<llvm::ArrayRef<int64_t>>;

/// Returns the tile sizes of the kernel that runs in a launch. `attention` is the one attention of its module, and
/// `shapes` are the shapes of the launch's arguments. If no GPU kernel is made (for the CPU or for f32), or if
/// `options` give both sizes or the passes, both members of the result equal `options`. Fails after a diagnostic.
mlir::FailureOr<LaunchTiles> chooseLaunchTiles(mlir::flash::ScoresOpInterface attention, LaunchShapes shapes,
                                               const CompileOptions &options);

/// The numbers of queries and keys of a tile in L1.
struct TileSizes {
  int64_t queries, keys;
};
TileSizes getTileSizes(const PipelineOptions &pipeline);

} // namespace flashc

#endif // FLASHC_LIB_COMPILER_LAUNCHTILES_H
