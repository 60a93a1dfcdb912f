//===- Explain.h - what a mask does to the tiles of a call --------------------------------------------------------===//
//
// The same passes, with the tiles of the schedule that a launch of these shapes would take; then the loops with numbers
// instead of counters. Nothing is computed of the attention itself.
//
//===--------------------------------------------------------------------------------------------------------------===//
#ifndef FLASHC_COMPILER_EXPLAIN_H
#define FLASHC_COMPILER_EXPLAIN_H

#include "flashc/Analysis/TileMap.h"
#include "flashc/Compiler/Compiler.h"

namespace flashc {

/// What the compiler knows about a mask before it sees a call.
struct MaskExplanation {
  /// exact: a tile is visited only if it holds a pair that is kept, and masked only if it holds one that is not.
  /// mapped: the same, by running the mask before the attention. conservative: some tiles are visited, or masked,
  /// without need. opaque: all are visited and masked.
  std::string maskClass = "exact";
  /// Why it is not exact, and what a map costs.
  std::vector<std::string> reasons;
  /// What a pair (i, j) that is kept satisfies; none: every pair is kept. "unknown: ..." is a part that has no formula.
  std::vector<std::string> formulas;
  /// The key tiles of the queries i0 to i0 + rows - 1, one interval a line.
  std::vector<std::string> bounds;
};

struct Explanation {
  std::string function;
  MaskExplanation mask;
  /// Where the shape of the tiles comes from.
  std::string tileSource;
  TileMap tiles;

  /// For people; several lines.
  std::string str() const;
  /// The same as JSON, without the single tiles (see flashcExplanationGetJSON).
  std::string toJSON() const;
};

/// Explains `function` (L0, with one attention; left as it is) called with `arguments`, whose addresses are in the
/// memory of this process, or 0 for elements that are not at hand. Fails after a diagnostic, which names what loop
/// bounds read if it is not there.
mlir::FailureOr<Explanation> explain(mlir::func::FuncOp function, mlir::ArrayRef<LaunchArgument> arguments,
                                     const CompileOptions &options);

} // namespace flashc

#endif // FLASHC_COMPILER_EXPLAIN_H
