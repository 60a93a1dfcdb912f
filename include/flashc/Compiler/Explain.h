//===- Explain.h - what a mask does to the tiles of a call --------------------------------------------------------===//
// An explanation runs the same passes as a compilation, with the tiles of the schedule that a launch of these shapes
// takes, and then the loops with numbers as counters. It computes nothing of the attention itself.
//===--------------------------------------------------------------------------------------------------------------===//
#ifndef FLASHC_COMPILER_EXPLAIN_H
#define FLASHC_COMPILER_EXPLAIN_H

#include "flashc/Analysis/TileMap.h"
#include "flashc/Compiler/Compiler.h"

namespace flashc {

/// The compiler's knowledge about a mask before it sees a call.
struct MaskExplanation {
  /// - exact: a tile is visited only if it holds a kept pair, and masked only if it holds a pair that is not kept.
  /// - mapped: the same, because a kernel before the attention evaluates the mask.
  /// - conservative: some tiles are visited, or masked, without need.
  /// - opaque: all tiles are visited and masked.
  std::string maskClass = "exact";
  /// The reasons why the class is not exact, and the cost of a map.
  std::vector<std::string> reasons;
  /// The conditions on (i, j) for a pair that is kept; empty if every pair is kept. "unknown: ..." is a part that has
  /// no formula.
  std::vector<std::string> formulas;
  /// The key tiles of the queries i0 to i0 + rows - 1, one range per line.
  std::vector<std::string> bounds;
};

struct Explanation {
  std::string function;
  MaskExplanation mask;
  /// The origin of the tile shape, for people.
  std::string tileSource;
  TileMap tiles;

  /// Prints the explanation for people, in several lines.
  std::string str() const;
  /// Prints the explanation as JSON, without single tiles (see flashcExplanationGetJSON).
  std::string toJSON() const;
};

/// Explains a call of `function` (L0, with one attention; it does not change) with `arguments`. Their addresses are in
/// the memory of this process, or 0 if the elements are unknown. Fails after a diagnostic, which names an array that
/// loop bounds read and that is unknown.
mlir::FailureOr<Explanation> explain(mlir::func::FuncOp function, mlir::ArrayRef<LaunchArgument> arguments,
                                     const CompileOptions &options);

} // namespace flashc

#endif // FLASHC_COMPILER_EXPLAIN_H
