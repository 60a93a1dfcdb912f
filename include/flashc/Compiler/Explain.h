//===- Explain.h - what a mask does to the tiles of a call --------------------------------------------------------===//
// An explanation is about one launch. First the same passes run as in a compilation, with the tiles of the schedule
// that this launch takes. Then the loops at L1 are executed, without the ops in them, to find the tiles that they
// visit. No attention is computed.
#ifndef FLASHC_COMPILER_EXPLAIN_H
#define FLASHC_COMPILER_EXPLAIN_H

#include "flashc/Analysis/TileMap.h"
#include "flashc/Compiler/Compiler.h"

namespace flashc {

/// What the compiler knows about a mask before it sees a call.
struct MaskExplanation {
  /// The precision with which loops over tiles follow the mask:
  /// - exact: a tile is visited only if it holds a kept pair, and masked only if it holds a pair that is not kept.
  /// - mapped: as exact; another kernel evaluates the mask on tiles before the attention.
  /// - conservative: some tiles are visited, or masked, without need.
  /// - opaque: all tiles are visited and masked.
  std::string maskClass = "exact";
  /// The reasons why maskClass is not "exact". If the mask is evaluated on tiles at run time, also the cost of this
  /// evaluation.
  std::vector<std::string> reasons;
  /// The conditions on (i, j) under which a pair is kept. Empty if every pair is kept. A text "unknown: ..." stands for
  /// a part of the mask that has no formula.
  std::vector<std::string> formulas;
  /// The key tiles that the queries i0 to i0 + rows - 1 need, as one range per line.
  std::vector<std::string> bounds;
};

struct Explanation {
  std::string function;
  MaskExplanation mask;
  /// Says where the tile shape comes from, for people.
  std::string tileSource;
  TileMap tiles;

  /// Prints the explanation for people, in several lines.
  std::string str() const;
  /// Prints the explanation as JSON. The classes of single tiles are not in it (see flashcExplanationGetJSON).
  std::string toJSON() const;
};

/// Explains a call of `function` with `arguments`. The function has one attention, is at L0 and stays unchanged. The
/// addresses of arguments are in the memory of this process, or 0 if the elements are unknown. Fails after a
/// diagnostic; if loop bounds read an array that is unknown, the diagnostic names it.
mlir::FailureOr<Explanation> explain(mlir::func::FuncOp function, mlir::ArrayRef<LaunchArgument> arguments,
                                     const CompileOptions &options);

} // namespace flashc

#endif // FLASHC_COMPILER_EXPLAIN_H
