//===- Explain.cpp - what a mask does to the tiles of a call ------------------------------------------------------===//

#include "flashc/Compiler/Explain.h"
#include "LaunchTiles.h"
#include "Lowering.h"
#include "MaskObserver.h"
#include "flashc/Dialect/Flash/IR/Arguments.h"
#include "flashc/Dialect/Flash/IR/Flash.h"
#include "flashc/Dialect/Flash/IR/SortedData.h"
#include "flashc/Launch/TileTables.h"

using namespace mlir;
using namespace flashc;

//===--------------------------------------------------------------------------------------------------------------===//
// The tiles
//===--------------------------------------------------------------------------------------------------------------===//

/// Returns the one attention, or other op with scores, of a function.
static FailureOr<flash::ScoresOpInterface> findAttention(func::FuncOp function) {
  SmallVector<flash::ScoresOpInterface> found;
  function.walk([&](flash::ScoresOpInterface op) { found.push_back(op); });
  if (found.size() != 1)
    return function.emitError("expected one attention to explain, got ") << found.size();
  return found.front();
}

/// Returns the extents of an attention in a call; all are positive.
static FailureOr<TileGrid> getGrid(flash::ScoresOpInterface attention, ArrayRef<LaunchArgument> arguments) {
  TileGrid grid;
  for (auto [number, value] : {std::pair(0, attention.getQ()), {1, attention.getK()}}) {
    BlockArgument argument = flash::getRootArgument(value);
    if (!argument || argument.getArgNumber() >= arguments.size())
      return attention->emitError("expected q and k to be arguments of the function, got something computed");
    ArrayRef<int64_t> shape = arguments[argument.getArgNumber()].shape;
    if (shape.size() != 4 || llvm::any_of(shape, [](int64_t extent) { return extent < 1; }))
      return attention->emitError("expected extents of at least 1 to explain a call");
    if (number == 0)
      std::tie(grid.batch, grid.heads, grid.queries) = std::tuple(shape[0], shape[1], shape[2]);
    else
      grid.keys = shape[2];
  }
  return grid;
}

/// Describes the cost of a map, for a mask that is evaluated at run time. The map stores two numbers per tile (the
/// tile's class, and the tile's place in the list of its row of tiles), and a few numbers per row of tiles (VisitsRow).
static std::string describeMap(flash::TileClassesOp classes, const TileMap &tiles) {
  const TileGrid &grid = tiles.getGrid();
  TileCounts counts;
  for (int64_t batch = 0; batch < tiles.getNumBatches(); ++batch)
    for (int64_t head = 0; head < tiles.getNumHeads(); ++head)
      counts += tiles.count(batch, head);
  llvm::DynamicAPInt rows = llvm::DynamicAPInt(tiles.getNumBatches() * tiles.getNumHeads()) * grid.getRows();
  llvm::DynamicAPInt bytes = (counts.total() * 2 + rows * VisitsRow::kMoreElements) * 4;
  bool readsArrays = classes
                         ->walk([](Operation *op) {
                           return flash::getElementRead(op) ? WalkResult::interrupt() : WalkResult::advance();
                         })
                         .wasInterrupted();
  std::string text;
  llvm::raw_string_ostream os(text);
  os << "its map of " << counts.total() << " tiles takes " << bytes << " bytes, and the mask is evaluated on up to "
     << counts.partial << (tiles.isSample() ? ", as far as a sample says; " : "; ");
  os << (readsArrays ? "it reads arrays, so each launch without a plan computes the map again"
                     : "the map is computed once for launches of the same lengths");
  return text;
}

FailureOr<Explanation> flashc::explain(func::FuncOp source, ArrayRef<LaunchArgument> arguments,
                                       const CompileOptions &given) {
  OwningOpRef<ModuleOp> module = source->getParentOfType<ModuleOp>().clone();
  if (failed(keepFunction(*module, source.getName(), given)))
    return failure();
  auto function = module->lookupSymbol<func::FuncOp>(source.getName());
  FailureOr<flash::ScoresOpInterface> attention = findAttention(function);
  if (failed(attention))
    return failure();
  FailureOr<TileGrid> grid = getGrid(*attention, arguments);
  if (failed(grid))
    return failure();
  auto shapes =
      llvm::map_to_vector(arguments, [](const LaunchArgument &argument) { return ArrayRef<int64_t>(argument.shape); });
  FailureOr<LaunchTiles> chosen = chooseLaunchTiles(*attention, shapes, given);
  if (failed(chosen))
    return failure();

  std::optional<MaskExplanation> mask;
  auto loops = lowerToLoops(*module, observeMask(chosen->computed, function, mask));
  if (failed(loops))
    return failure();
  if (!mask)
    mask = {"opaque", {"the passes do not bound loops (flash-bound-loops)"}, {}, {}};
  TileSizes sizes = getTileSizes(chosen->computed.pipeline);
  grid->qTile = sizes.queries, grid->kvTile = sizes.keys;
  FailureOr<TileMap> tiles = mapTiles((*loops)->lookupSymbol<func::FuncOp>(source.getName()), arguments, *grid);
  if (failed(tiles))
    return failure();
  (*loops)->walk([&](flash::TileClassesOp classes) {
    mask->reasons.push_back(describeMap(classes, *tiles));
    return WalkResult::interrupt(); // gradients have a second TileClassesOp, for the same map
  });
  return Explanation{source.getName().str(), std::move(*mask), std::move(chosen->source), std::move(*tiles)};
}
