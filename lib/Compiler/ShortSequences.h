//===- ShortSequences.h - packed sequences that are shorter than a tile -------------------------------------------===//
// Two ways to place tiles of queries for packed sequences are compared. Tiles that begin at the sequences
// (flash-align-queries) visit up to one key tile more per sequence than tiles of one long sequence would. Tiles on the
// grid visit up to one more per tile of queries (a diagonal that is cut twice), and mask all key tiles that they visit.
// So if there are more sequences than tiles, the grid is less work. A launch knows that from extents, without the
// offsets.
//===--------------------------------------------------------------------------------------------------------------===//
#ifndef FLASHC_LIB_COMPILER_SHORTSEQUENCES_H
#define FLASHC_LIB_COMPILER_SHORTSEQUENCES_H

#include "flashc/Conversion/ScheduleChoice.h"
#include "mlir/IR/BuiltinOps.h"

#include <optional>

namespace flashc {

/// The placement of tiles for short sequences and its reason, for people.
constexpr llvm::StringLiteral kOnGrid = "on their grid, since sequences are shorter than a tile";

/// The launches of an attention for which tiles of queries on the grid are better.
struct ShortSequences {
  /// A launch with short sequences meets all of these conditions. Without any, no launch has short sequences: tiles of
  /// queries do not follow sequences, or they follow arrays that are not arguments, for which there is no kernel.
  llvm::SmallVector<LaunchCondition, 2> conditions;
  /// Whether sequences are short, if every extent is known.
  std::optional<bool> areShort;
};

/// Finds the conditions for the one attention of `module` (L0); `loops` is the same module at L1 with
/// flash-align-queries. They are
/// - Nq <= T (M - 1), for M offsets (that is, M - 1 sequences) and tiles of T queries: the mean length is at most T.
///   Without a division by zero that is ceildiv(Nq + 2 T, M + 1) <= T.
/// - Nk <= 2 (Nq + 1): a tile of the grid visits the keys of all its sequences one after the other; for sequences of
///   one query and many keys that is no less work, and less parallel.
ShortSequences findShortSequences(mlir::ModuleOp module, mlir::ModuleOp loops);

/// Whether a launch with arguments of these shapes meets all of `conditions`.
bool holds(llvm::ArrayRef<LaunchCondition> conditions, llvm::ArrayRef<llvm::ArrayRef<int64_t>> shapes);

} // namespace flashc

#endif // FLASHC_LIB_COMPILER_SHORTSEQUENCES_H
