//===- Pipelines.h - the passes of flashc, in order ---------------------------------------------------------------===//
//
// A pipeline is a list of passes and nothing else: the driver, flashc-opt and the tests build the same ones.
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

/// Rows of queries and of keys in a tile where nobody says.
constexpr int64_t kDefaultTile = 64;

/// What the pipelines are asked for; the driver's command line fills it.
struct PipelineOptions {
  /// GPU architecture, as ptxas spells it.
  std::string target = kDefaultTarget.str();
  /// One of getAlgorithms().
  std::string algorithm = "fa2";
  /// Overrides of the schedule table, for convert-flash-to-tile; empty: what the table says.
  std::string schedule;
  /// Text of a schedule table (docs/schedules.md) that is looked at before the built-in one; empty: none.
  std::string scheduleTable;
  /// Rows of queries and of keys in a tile; 0: kDefaultTile, or what the schedule wants on a GPU.
  int64_t qTile = 0;
  int64_t kvTile = 0;
  /// Where those are 0: rows of the dimension that a step keeps, and of the one that it streams (a schedule's). 0:
  /// nobody says.
  int64_t residentTile = 0;
  int64_t streamedTile = 0;
  /// Whether tiles of queries begin at packed sequences (flash-align-queries), or stay on their grid.
  bool alignQueries = true;
  /// Gradients that have loops of their own, in a backward pass by fa2.
  SplitGradients splitGradients = {};
  /// The parts of each tile's keys, by split-kv and fa2 (flash-split-kv, flash-split-key-loops); and the keys of a
  /// part, by split-kv alone.
  int64_t splits = 1, chunk = 0;
  /// Whether a kernel that reads a cache may take split-kv where `algorithm` is fa2: unless somebody asked for that.
  bool mayDecode = true;
};

/// The names that PipelineOptions::algorithm takes: standard, fa1, fa2, split-kv.
llvm::ArrayRef<llvm::StringRef> getAlgorithms();

/// L0 to L1: attention becomes loops over tiles, by one of the algorithms.
///   standard  Algorithm 0 in linalg: S and P in memory
///   fa1       FlashAttention, Algorithms 1 and 4: keys outermost, state in memory, normalised in each step; of
///   gradients
///             dq in memory, and the row sums of o * do in each step
///   fa2       FlashAttention-2: queries outermost, state in the loop, normalised at the end, masks as loop bounds; of
///             gradients keys outermost, in parallel, and dq added up
///   split-kv  Flash-Decoding: rows of query heads times tokens, parts of the keys in parallel, merged
/// Every pass may be run alone, and the IR runs on the CPU between any two of them.
void buildAlgorithmPipeline(mlir::OpPassManager &pm, const PipelineOptions &options);

/// How far buildKernelPipeline goes: the finished schedule (L2), the same with functions that the target has, scalar
/// code with PTX (L3), the LLVM dialect (L3).
enum class KernelLevel { Tile, Expanded, NVVM, LLVM };

/// L1 (fa2) to a kernel in a gpu.module: schedule, pipeline, roles, then machine code.
void buildKernelPipeline(mlir::OpPassManager &pm, const PipelineOptions &options, KernelLevel level);

/// The rest of it behind KernelLevel::Expanded, up to `level`.
void buildCodePipeline(mlir::OpPassManager &pm, KernelLevel level);

/// L0 or L1 to the LLVM dialect, for the CPU: whatever flash ops are left are decomposed (Algorithm 0 if it is
/// flash.attention), tensors become buffers at function boundaries too (identity layout), linalg becomes loops. Every
/// function gets a C interface (`_mlir_ciface_<name>`); results that are buffers are owned by the caller. Elements
/// outside their arrays and divisions by zero call `puts` with the op and its place, and then `abort`.
void buildCPULoweringPipeline(mlir::OpPassManager &pm);

/// Registers flash-standard, flash-fa1, flash-fa2 and flash-lower-to-cpu for command lines.
void registerPipelines();

} // namespace flashc

#endif // FLASHC_PIPELINES_PIPELINES_H
