//===- ShortSequences.h - packed sequences that are shorter than a tile -------------------------------------------===//
// For packed sequences, tiles of queries may be placed in two ways. Tiles may begin where sequences begin
// (flash-align-queries): then up to one key tile too many is visited for each sequence. Or tiles may lie on a regular
// grid: then up to one key tile too many is visited for each tile of queries, and the mask is applied in every visit.
// So if there are at least as many sequences as tiles, the grid is less work. A launch decides this from extents alone;
// it does not read the offsets of the sequences.
//===--------------------------------------------------------------------------------------------------------------===//
#ifndef FLASHC_LIB_COMPILER_SHORTSEQUENCES_H
#define FLASHC_LIB_COMPILER_SHORTSEQUENCES_H

#include "flashc/Conversion/ScheduleChoice.h"
#include "mlir/IR/BuiltinOps.h"

#include <optional>

namespace flashc {

/// Says, for people, where tiles begin if sequences are short, and why.
constexpr llvm::StringLiteral kOnGrid = "on their grid, since sequences are shorter than a tile";

/// Tells for which launches tiles of queries should lie on a regular grid: for those with short sequences.
struct ShortSequences {
  /// A launch has short sequences if it meets all of these conditions. If there are no conditions, no launch has short
  /// sequences. There are none if tiles of queries do not begin where sequences begin, or if q, k or the offsets are
  /// not arguments of the function.
  llvm::SmallVector<LaunchCondition, 2> conditions;
  /// Whether sequences are short, if this is known at compile time (because every extent in `conditions` is static).
  std::optional<bool> areShort;
};

/// Finds the conditions for the one attention of `module` (L0). `loops` is the same module, lowered to L1 with
/// flash-align-queries. The conditions are
/// - Nq <= T (M - 1), where M is the number of offsets (so there are M - 1 sequences), and T the number of queries of a
///   tile: the mean length is at most T. A LaunchCondition has a constant bound, so this one is written as ceildiv(Nq +
///   2 T, M + 1) <= T.
/// - Nk <= 2 (Nq + 1). A tile on the grid visits the keys of all its sequences one after the other. If sequences have
///   one query and many keys, tiles on the grid save no work, and are too few to run in parallel.
ShortSequences findShortSequences(mlir::ModuleOp module, mlir::ModuleOp loops);

/// Whether a launch with arguments of these shapes meets all of `conditions`.
bool holds(llvm::ArrayRef<LaunchCondition> conditions, llvm::ArrayRef<llvm::ArrayRef<int64_t>> shapes);

} // namespace flashc

#endif // FLASHC_LIB_COMPILER_SHORTSEQUENCES_H
