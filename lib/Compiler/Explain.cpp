//===- Explain.cpp - what a mask does to the tiles of a call ------------------------------------------------------===//

#include "flashc/Compiler/Explain.h"
#include "Lowering.h"
#include "MaskObserver.h"
#include "ShortSequences.h"
#include "flashc/Dialect/Flash/IR/Arguments.h"
#include "flashc/Dialect/Flash/IR/Flash.h"
#include "flashc/Dialect/Flash/IR/SortedData.h"
#include "flashc/Launch/TileTables.h"
#include "flashc/Dialect/Tile/IR/Tile.h"

using namespace mlir;
using namespace flashc;

//===--------------------------------------------------------------------------------------------------------------===//
// The tiles
//===--------------------------------------------------------------------------------------------------------------===//

static std::string describeChoice(const ScheduleChoice &choice, StringRef target) {
  std::string text = "by the schedule for " + target.str();
  if (choice.maxQueries)
    text += " of up to " + std::to_string(*choice.maxQueries) + " queries";
  return text + " (" + choice.row.table + ", line " + std::to_string(choice.row.line) + ": " + choice.row.text + ")";
}

/// Where the tiles of an explanation come from.
struct TileChoice {
  std::string source;
  /// If a launch chooses a kernel's entry: the choices that it asks, up to the one that it takes.
  SmallVector<ScheduleChoice, 2> asked = {};
};

/// Takes the tiles of a schedule. Consumers that visit their own keys have tiles of their own rows.
static TileChoice takeTiles(const ScheduleChoice &choice, CompileOptions &options) {
  TileChoice result{describeChoice(choice, options.pipeline.target)};
  bool isOwn = choice.schedule.ownKeys && !options.pipeline.qTile;
  options = withSchedule(options, choice);
  if (isOwn) {
    options.pipeline.qTile = mlir::tile::kTileRows;
    result.source += ", each consumer's own (own-keys)";
  }
  return result;
}

/// Takes the tiles of the kernel that a launch with so many queries would choose.
static FailureOr<TileChoice> chooseTiles(flash::ScoresOpInterface attention, int64_t queries, CompileOptions &options) {
  const PipelineOptions &pipeline = options.pipeline;
  auto module = attention->getParentOfType<ModuleOp>();
  if (pipeline.target != kCPUTarget && failed(checkTarget(module, pipeline.target)))
    return failure();
  if (options.addAlgorithm)
    return TileChoice{"by the passes"};
  if (pipeline.qTile && pipeline.kvTile)
    return TileChoice{"as asked for"};
  bool hasKernel =
      pipeline.target != kCPUTarget && pipeline.algorithm == "fa2" && !attention.getQType().getElementType().isF32();
  if (!hasKernel)
    return TileChoice{"by default, since this has no kernel for a GPU"};
  FailureOr<ScheduleDecision> decision = decideSchedules(module, options);
  if (failed(decision))
    return failure();
  const ScheduleChoice *choice = llvm::find_if(decision->choices, [&](const ScheduleChoice &choice) {
    return !choice.maxQueries || queries <= *choice.maxQueries;
  });
  bool hasEntries = !hasOwnTiles(options);
  TileChoice result = takeTiles(*choice, options);
  if (hasEntries)
    result.asked.append(std::as_const(decision->choices).begin(), std::next(choice));
  return result;
}

/// The one attention of a function, or what else has scores of queries and keys.
static FailureOr<flash::ScoresOpInterface> findAttention(func::FuncOp function) {
  SmallVector<flash::ScoresOpInterface> found;
  function.walk([&](flash::ScoresOpInterface op) { found.push_back(op); });
  if (found.size() != 1)
    return function.emitError("expected one attention to explain, got ") << found.size();
  return found.front();
}

/// The extents that an attention has in a call; all are positive.
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

/// The choice of the entry for short packed sequences, which is the first whose tiles of queries follow them, if a
/// launch takes that; else none.
static FailureOr<std::optional<ScheduleChoice>> findShort(ModuleOp module, ArrayRef<ScheduleChoice> asked,
                                                          const CompileOptions &options,
                                                          ArrayRef<LaunchArgument> arguments) {
  auto shapes =
      llvm::map_to_vector(arguments, [](const LaunchArgument &argument) { return ArrayRef<int64_t>(argument.shape); });
  bool maySearch = module.walk([](flash::CountLeOp) { return WalkResult::interrupt(); }).wasInterrupted();
  for (const ScheduleChoice &choice : asked.take_front(maySearch ? asked.size() : 0)) {
    auto loops = lowerToLoops(module, withSchedule(options, choice));
    if (failed(loops))
      return failure();
    SmallVector<LaunchCondition, 2> conditions = findShortSequences(module, **loops).conditions;
    if (conditions.empty())
      continue;
    std::optional<ScheduleChoice> result;
    if (holds(conditions, shapes)) {
      result = choice;
      result->maxQueries.reset();
    }
    return result;
  }
  return std::optional<ScheduleChoice>();
}

/// What the map of a mask that is run costs: for each of its tiles a class and a place in the row's list (VisitsRow).
static std::string describeMap(flash::TileClassesOp classes, const TileMap &tiles) {
  const TileGrid &grid = tiles.getGrid();
  int64_t maps = (tiles.getVariesByBatch() ? grid.batch : 1) * (tiles.getVariesByHead() ? grid.heads : 1);
  llvm::DynamicAPInt count(0), open(0);
  for (int64_t batch = 0; batch < (tiles.getVariesByBatch() ? grid.batch : 1); ++batch)
    for (int64_t head = 0; head < (tiles.getVariesByHead() ? grid.heads : 1); ++head) {
      TileCounts ofHead = tiles.count(batch, head);
      count += ofHead.total(), open += ofHead.partial;
    }
  llvm::DynamicAPInt bytes = (count * 2 + llvm::DynamicAPInt(maps) * grid.getRows() * VisitsRow::kMoreElements) * 4;
  bool readsArrays = classes
                         ->walk([](Operation *op) {
                           return flash::getElementRead(op) ? WalkResult::interrupt() : WalkResult::advance();
                         })
                         .wasInterrupted();
  std::string text;
  llvm::raw_string_ostream os(text);
  os << "its map of " << count << " tiles takes " << bytes << " bytes, and the mask is run on up to " << open << "; ";
  os << (readsArrays ? "it reads arrays, so that each launch without a plan makes it anew"
                     : "it is made once for launches of the same lengths");
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
  CompileOptions options = given;
  FailureOr<TileChoice> choice = chooseTiles(*attention, grid->queries, options);
  if (failed(choice))
    return failure();

  std::optional<MaskExplanation> mask;
  auto observe = [&] { return lowerToLoops(*module, observeMask(options, function, mask)); };
  auto loops = observe();
  if (failed(loops))
    return failure();
  FailureOr<std::optional<ScheduleChoice>> ofShort = findShort(*module, choice->asked, given, arguments);
  if (failed(ofShort))
    return failure();
  if (*ofShort) {
    options = given;
    choice->source = takeTiles(**ofShort, options).source + ", " + kOnGrid.str();
    options.pipeline.alignQueries = false;
    mask.reset();
    if (failed(loops = observe()))
      return failure();
  }
  if (!mask)
    mask = {"opaque", {"the passes do not bound loops (flash-bound-loops)"}, {}, {}};
  auto choose = [](int64_t asked, int64_t scheduled) { return asked ? asked : scheduled ? scheduled : kDefaultTile; };
  grid->qTile = choose(options.pipeline.qTile, options.pipeline.residentTile);
  grid->kvTile = choose(options.pipeline.kvTile, options.pipeline.streamedTile);
  FailureOr<TileMap> tiles = mapTiles((*loops)->lookupSymbol<func::FuncOp>(source.getName()), arguments, *grid);
  if (failed(tiles))
    return failure();
  (*loops)->walk([&](flash::TileClassesOp classes) {
    mask->reasons.push_back(describeMap(classes, *tiles));
    return WalkResult::interrupt(); // of gradients, another one has the same
  });
  return Explanation{source.getName().str(), std::move(*mask), std::move(choice->source), std::move(*tiles)};
}
