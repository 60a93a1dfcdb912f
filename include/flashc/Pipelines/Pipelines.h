//===- Pipelines.h - the passes of flashc, in order ---------------------------------------------------------------===//
//
// A pipeline is only a list of passes: the driver, flashc-opt and the tests build the same pipelines.
//
//===--------------------------------------------------------------------------------------------------------------===//
#ifndef FLASHC_PIPELINES_PIPELINES_H
#define FLASHC_PIPELINES_PIPELINES_H

#include "flashc/Target/GPUTarget.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"

#include <cstdint>
#include <string>

namespace mlir {
class OpPassManager;
} // namespace mlir

namespace flashc {

enum class SplitGradients; // Schedule.h

/// The default number of queries, and of keys, in a tile.
constexpr int64_t kDefaultTile = 64;

/// Options of the pipelines, which the driver's command line sets.
struct PipelineOptions {
  /// GPU architecture, as ptxas spells it.
  std::string target = kDefaultTarget.str();
  /// One of getAlgorithms().
  std::string algorithm = "fa2";
  /// Overrides of the schedule table, for convert-flash-to-tile. Empty: no overrides.
  std::string schedule;
  /// Text of a schedule table (docs/schedules.md) that has precedence over the built-in one. Empty: none.
  std::string scheduleTable;
  /// The number of queries, and of keys, in a tile. 0: kDefaultTile, or the schedule's tile on a GPU.
  int64_t qTile = 0;
  int64_t kvTile = 0;
  /// The number of rows of a tile: of resident rows, and of streamed rows. A step keeps the resident tile and streams
  /// past it. These sizes count only if qTile and kvTile are 0. 0: not given.
  int64_t residentTile = 0;
  int64_t streamedTile = 0;
  /// The number of resident rows of a step that computes dk and dv. 0: as for other steps.
  int64_t gradientTile = 0;
  /// The number of query heads in a tile, for fa2 (flash-tile). They are of one group.
  int64_t headTile = 1;
  /// Whether tiles of queries begin where packed sequences begin (flash-align-queries). Otherwise they begin at
  /// multiples of the tile size.
  bool alignQueries = true;
  /// Which gradients have loops of their own in a backward pass by fa2.
  SplitGradients splitGradients = {};
  /// `splits` is the number of parts of each tile's keys, for split-kv and fa2 (flash-split-kv, flash-split-key-loops).
  /// `chunk` is the number of keys of a part, for split-kv only.
  int64_t splits = 1, chunk = 0;
  /// Whether the launch decides how long the parts are, for fa2 (flash-split-key-loops). `splits` is the most parts of
  /// a tile.
  bool partsByWork = false;
  /// Whether a kernel that reads a cache may take split-kv although `algorithm` is fa2. False where the user asked for
  /// fa2.
  bool mayDecode = true;
};

/// The values of PipelineOptions::algorithm: standard, fa1, fa2, split-kv.
llvm::ArrayRef<llvm::StringRef> getAlgorithms();

/// Lowers L0 to L1: attention becomes loops over tiles, by one of these algorithms.
///   standard  Algorithm 0 in linalg: S and P are in memory.
///   fa1       FlashAttention, Algorithms 1 and 4: the loop over keys is outermost. The state is in memory, and is
///             normalised in each step. Gradients: dq is in memory, and each step computes row sums of o * do.
///   fa2       FlashAttention-2: the loop over queries is outermost. The loop over keys carries the state, which is
///             normalised after this loop. Masks become loop bounds. Gradients: a parallel loop over keys is outermost,
///             and dq is added up in memory.
///   split-kv  Flash-Decoding: the rows of a tile are query heads times tokens. Parts of the keys run in parallel, and
///             their results are merged.
/// Every pass may be run alone, and the IR between any two passes runs on the CPU.
void buildAlgorithmPipeline(mlir::OpPassManager &pm, const PipelineOptions &options);

/// The level at which buildKernelPipeline ends. Tile: L2 with its finished schedule. Expanded: L2 without those math
/// ops that the target has no instructions for. NVVM: scalar code with PTX (L3). LLVM: the LLVM dialect (L3).
enum class KernelLevel { Tile, Expanded, NVVM, LLVM };

/// Lowers L1 (fa2) to a kernel in a gpu.module, down to `level`: the passes apply the schedule, make pipelines, split
/// the program into roles, and then lower it to code of the GPU.
void buildKernelPipeline(mlir::OpPassManager &pm, const PipelineOptions &options, KernelLevel level);

/// Adds the passes of buildKernelPipeline after KernelLevel::Expanded, up to `level`.
void buildCodePipeline(mlir::OpPassManager &pm, KernelLevel level);

/// Lowers L0 or L1 to the LLVM dialect for the CPU. The remaining flash ops are decomposed (flash.attention by
/// Algorithm 0). Tensors become buffers, also at function boundaries (with the identity layout), and linalg becomes
/// loops. Every function gets a C interface (`_mlir_ciface_<name>`). The caller owns results that are buffers. An
/// access outside an array or a division by zero calls `puts` with the op and its location, and then `abort`.
void buildCPULoweringPipeline(mlir::OpPassManager &pm);

/// Registers flash-standard, flash-fa1, flash-fa2, flash-decoding and flash-lower-to-cpu for command lines.
void registerPipelines();

} // namespace flashc

#endif // FLASHC_PIPELINES_PIPELINES_H
