//===- LaunchTiles.cpp - the tiles of the kernel that a launch takes ----------------------------------------------===//

#include "LaunchTiles.h"
#include "Lowering.h"
#include "ShortSequences.h"
#include "flashc/Dialect/Flash/IR/Arguments.h"
#include "flashc/Dialect/Flash/IR/SortedData.h"
#include "flashc/Dialect/Tile/IR/Tile.h"

using namespace mlir;
using namespace flashc;

static std::string describeChoice(const ScheduleChoice &choice, StringRef target) {
  std::string text = "by the schedule for " + target.str();
  if (choice.maxQueries)
    text += " of up to " + std::to_string(*choice.maxQueries) + " queries";
  return text + " (" + choice.row.table + ", line " + std::to_string(choice.row.line) + ": " + choice.row.text + ")";
}

static LaunchTiles takeTiles(const ScheduleChoice &choice, const CompileOptions &options) {
  CompileOptions tiled = withSchedule(options, choice.schedule);
  LaunchTiles result{tiled, tiled, describeChoice(choice, options.pipeline.target)};
  if (choice.schedule.ownKeys && !options.pipeline.qTile) {
    result.computed.pipeline.qTile = mlir::tile::kTileRows;
    result.source += ", each consumer's own (own-keys)";
  }
  return result;
}

/// If the packed sequences of the launch are short (ShortSequences.h), returns the choice whose entry the launch takes:
/// the first choice of `asked` whose tiles of queries begin where sequences begin. Returns nullopt if the sequences are
/// not short, or if there is no such choice.
static FailureOr<std::optional<ScheduleChoice>> findShort(ModuleOp module, ArrayRef<ScheduleChoice> asked,
                                                          const CompileOptions &options, LaunchShapes shapes) {
  bool maySearch = bool(findFirst<flash::CountLeOp>(module));
  for (const ScheduleChoice &choice : asked.take_front(maySearch ? asked.size() : 0)) {
    auto loops = lowerToLoops(module, withSchedule(options, choice.schedule));
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

/// Returns the number of queries of the launch, or the largest integer if q is not an argument of the function.
static int64_t countQueries(flash::ScoresOpInterface attention, LaunchShapes shapes) {
  BlockArgument argument = flash::getRootArgument(attention.getQ());
  return argument && argument.getArgNumber() < shapes.size() ? shapes[argument.getArgNumber()][2]
                                                             : std::numeric_limits<int64_t>::max();
}

/// Returns the tile sizes of the entry that the launch takes.
static FailureOr<LaunchTiles> chooseEntry(ModuleOp module, int64_t queries, LaunchShapes shapes,
                                          const CompileOptions &options) {
  CompileOptions forward = options;
  forward.pipeline.mayDecode = false; // the tiles of decoding kernels are not explained
  FailureOr<ScheduleDecision> decision = decideSchedules(module, forward);
  if (failed(decision))
    return failure();
  ArrayRef<ScheduleChoice> choices = decision->choices;
  const ScheduleChoice *choice = llvm::find_if(
      choices, [&](const ScheduleChoice &choice) { return !choice.maxQueries || queries <= *choice.maxQueries; });
  LaunchTiles tiles = takeTiles(*choice, options);
  if (hasOwnTiles(options)) // then there is one entry
    return tiles;
  auto ofShort = findShort(module, choices.take_front(choice - choices.begin() + 1), options, shapes);
  if (failed(ofShort))
    return failure();
  if (!*ofShort)
    return tiles;
  tiles = takeTiles(**ofShort, options);
  tiles.source += ", " + kOnGrid.str();
  tiles.loaded.pipeline.alignQueries = tiles.computed.pipeline.alignQueries = false;
  return tiles;
}

FailureOr<LaunchTiles> flashc::chooseLaunchTiles(flash::ScoresOpInterface attention, LaunchShapes shapes,
                                                 const CompileOptions &options) {
  const PipelineOptions &pipeline = options.pipeline;
  auto module = attention->getParentOfType<ModuleOp>();
  if (pipeline.target != kCPUTarget && failed(checkTarget(module, pipeline.target)))
    return failure();
  auto keep = [&](StringRef source) { return LaunchTiles{options, options, source.str()}; };
  if (options.addAlgorithm)
    return keep("by the passes");
  if (pipeline.qTile && pipeline.kvTile)
    return keep("as asked for");
  bool hasKernel =
      pipeline.target != kCPUTarget && pipeline.algorithm == "fa2" && !attention.getQType().getElementType().isF32();
  if (!hasKernel)
    return keep("by default, since there is no GPU kernel");
  return chooseEntry(module, countQueries(attention, shapes), shapes, options);
}

TileSizes flashc::getTileSizes(const PipelineOptions &pipeline) {
  auto choose = [](int64_t asked, int64_t scheduled) { return asked ? asked : scheduled ? scheduled : kDefaultTile; };
  return {choose(pipeline.qTile, pipeline.residentTile), choose(pipeline.kvTile, pipeline.streamedTile)};
}
