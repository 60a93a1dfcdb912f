//===- ShortSequences.cpp - packed sequences that are shorter than a tile -----------------------------------------===//

#include "ShortSequences.h"
#include "Lowering.h"
#include "flashc/Dialect/Flash/IR/Arguments.h"
#include "flashc/Dialect/Flash/IR/Flash.h"
#include "flashc/Launch/LaunchInterface.h"

using namespace mlir;
using namespace flashc;

namespace {
/// An extent of an argument of the function.
struct Extent {
  unsigned argument, dim;

  GridFormula getFormula() const { return GridFormula::extent(argument, dim); }
};
} // namespace

static std::optional<Extent> getExtent(Value array, unsigned dim) {
  BlockArgument argument = flash::getRootArgument(array);
  return argument ? std::optional(Extent{argument.getArgNumber(), dim}) : std::nullopt;
}

ShortSequences flashc::findShortSequences(ModuleOp module, ModuleOp loops) {
  auto attention = findFirst<flash::AttentionOp>(module);
  auto tile = findFirst<flash::SegmentTileOp>(loops);
  if (!attention || !tile)
    return {};
  Value offsets = tile.getSorted();
  std::optional<Extent> queries = getExtent(attention.getQ(), 2), keys = getExtent(attention.getK(), 2),
                        count = getExtent(offsets, cast<ShapedType>(offsets.getType()).getRank() - 1);
  if (!queries || !keys || !count)
    return {};
  int64_t rows = tile.getTileSize();
  int64_t extra = 2 * rows; // because M + 1 is two more than the number of sequences
  ShortSequences result;
  result.conditions = {{ceilDiv(queries->getFormula() + extra, count->getFormula() + 1), rows},
                       {ceilDiv(keys->getFormula(), queries->getFormula() + 1), 2}};
  std::vector<ManifestArgument> arguments = describeLaunch(attention->getParentOfType<func::FuncOp>()).arguments;
  auto isKnown = [&](const Extent &extent) { return arguments[extent.argument].shape[extent.dim] >= 0; };
  if (isKnown(*queries) && isKnown(*keys) && isKnown(*count))
    result.areShort = holds(result.conditions, llvm::map_to_vector(arguments, [](const ManifestArgument &argument) {
                              return ArrayRef<int64_t>(argument.shape);
                            }));
  return result;
}

bool flashc::holds(ArrayRef<LaunchCondition> conditions, ArrayRef<ArrayRef<int64_t>> shapes) {
  return llvm::all_of(conditions, [&](const LaunchCondition &condition) {
    return llvm::cantFail(condition.formula.evaluate(shapes, /*smCount=*/1)) <= condition.bound;
  });
}
