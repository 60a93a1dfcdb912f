//===- ShortSequences.h - packed sequences that are shorter than a tile -------------------------------------------===//
//
// Tiles of queries that begin at packed sequences (flash-align-queries) visit up to one tile of keys more for each
// sequence than those of one long sequence; tiles on the grid visit up to one more for each tile of queries, a diagonal
// that is cut twice, and mask all that they visit. So where there are more sequences than tiles, the grid is less work.
// That follows from extents, which a launch knows without the offsets.
//
//===--------------------------------------------------------------------------------------------------------------===//
#ifndef FLASHC_LIB_COMPILER_SHORTSEQUENCES_H
#define FLASHC_LIB_COMPILER_SHORTSEQUENCES_H

#include "flashc/Conversion/ScheduleChoice.h"
#include "mlir/IR/BuiltinOps.h"

#include <optional>

namespace flashc {

/// Where tiles of queries are then, and why, for people.
constexpr llvm::StringLiteral kOnGrid = "on their grid, since sequences are shorter than a tile";

/// Which launches of an attention are better off with tiles of queries on the grid.
struct ShortSequences {
  /// Those that meet all of these; without any, none: tiles of queries follow no sequences, or arrays that are no
  /// arguments, for which there is no kernel.
  llvm::SmallVector<LaunchCondition, 2> conditions;
  /// The answer, where every extent is known.
  std::optional<bool> areShort;
};

/// Of the one attention of `module` (L0), of which `loops` is L1 with flash-align-queries. The conditions are
///   Nq <= T (M - 1)   of M offsets, that is M - 1 sequences, and tiles of T queries; as a mean that is at most T, and
///                     without a division by zero: ceildiv(Nq + 2 T, M + 1) <= T
///   Nk <= 2 (Nq + 1)  a tile of the grid visits the keys of all its sequences, one tile after the other: with one
///   query
///                     and many keys in each, that is no less work, and less of it at a time
ShortSequences findShortSequences(mlir::ModuleOp module, mlir::ModuleOp loops);

/// Whether a launch with arguments of these shapes meets all of `conditions`.
bool holds(llvm::ArrayRef<LaunchCondition> conditions, llvm::ArrayRef<llvm::ArrayRef<int64_t>> shapes);

} // namespace flashc

#endif // FLASHC_LIB_COMPILER_SHORTSEQUENCES_H
