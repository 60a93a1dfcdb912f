//===- LoopRunner.cpp - the loops of a step, run with numbers -----------------------------------------------------===//
//
// All iterations of the loop over resident tiles at once, and of that over streamed ones inside it (LineEvaluator.h).
// Batches and heads are run one by one where their tiles may differ.
//
//===--------------------------------------------------------------------------------------------------------------===//

#include "LineEvaluator.h"
#include "flashc/Analysis/TileMap.h"
#include "flashc/Dialect/Flash/IR/Arguments.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

using namespace mlir;
using namespace flashc;
using flash::StepDim;

namespace {

/// Runs the loops with numbers and notes the tiles that they visit.
class LoopRunner {
public:
  LoopRunner(func::FuncOp function, ArrayRef<LaunchArgument> arguments, const TileGrid &grid, bool oneByOne);
  FailureOr<TileMap> run();

private:
  /// Tiles that were noted, and whose.
  struct Note {
    int64_t batch, head;
    TilePatch patch;
  };
  using Counter = LoopCounter;

  LogicalResult findTiles();
  LogicalResult runBlock(Block &block);
  LogicalResult runLoop(Operation *op);
  LogicalResult runCounters(Operation *loop, ArrayRef<Counter> counters);
  LogicalResult note(flash::StepOpInterface op);
  /// The op as a step of the nest that is run, or null.
  flash::StepOpInterface matchStep(Operation *op) const;
  std::optional<TilePatch> makePatch(const Line &row, const Line &column);
  std::optional<Line> getRow(flash::StepOpInterface op, const Line &resident);
  LogicalResult countSegmentTiles(flash::SegmentTileOp tile);
  FailureOr<TileMap> makeMap();
  void findPositions(Operation *loop, flash::StepOpInterface op);
  bool decidesTiles(Operation *loop, Value counter);

  /// What is known, or none: after a diagnostic on `op`, the first of all, if the iterations are not to be split.
  template <typename T> std::optional<T> orDiagnose(Operation *op, std::optional<T> known) {
    if (!known && !evaluator.isSplitting())
      diagnoseUnknown(op);
    return known;
  }
  std::optional<Line> get(Operation *op, Value value) { return orDiagnose(op, evaluator.get(value)); }
  void diagnoseUnknown(Operation *op);

  func::FuncOp function;
  ArrayRef<LaunchArgument> arguments;
  LineEvaluator evaluator;
  TileGrid grid;
  /// How many loops, one in the other, are run at once.
  const unsigned maxLoops;
  bool variesByBatch = false, variesByHead = false;
  /// Which of the nests of a backward pass is run: what its steps add to.
  std::optional<Attribute> gradients;
  std::vector<Note> notes;
  /// The ops around tiles, and the counters that say where these begin.
  DenseSet<Operation *> ancestors;
  DenseSet<Value> positions;
  bool isDiagnosed = false;
  /// What decidesTiles answered.
  DenseMap<Value, bool> deciding;
};

} // namespace

static CallArguments makeCall(func::FuncOp function, ArrayRef<LaunchArgument> arguments) {
  CallArguments call;
  for (auto [value, argument] : llvm::zip(function.getArguments(), arguments)) {
    if (!isa<ShapedType>(value.getType())) {
      call.setScalar(value, argument.scalar);
      continue;
    }
    call.setShape(value, argument.shape);
    if (argument.address)
      call.setElements(value, reinterpret_cast<const void *>(argument.address), argument.strides);
  }
  return call;
}

LoopRunner::LoopRunner(func::FuncOp function, ArrayRef<LaunchArgument> arguments, const TileGrid &grid, bool oneByOne)
    : function(function), arguments(arguments), evaluator(makeCall(function, arguments)), grid(grid),
      maxLoops(oneByOne ? 0 : LineEvaluator::kMaxLoops) {}

void LoopRunner::diagnoseUnknown(Operation *op) {
  if (std::exchange(isDiagnosed, true))
    return;
  Value unknown = evaluator.getUnknown();
  auto argument = dyn_cast_if_present<BlockArgument>(unknown);
  if (!argument || argument.getOwner()->getParentOp() != function) {
    Operation *source = argument ? argument.getOwner()->getParentOp() : unknown ? unknown.getDefiningOp() : op;
    op->emitError("cannot say which tiles are visited: which keys the mask keeps depends on '")
        << source->getName() << "', whose value is not known";
    return;
  }
  unsigned number = argument.getArgNumber();
  InFlightDiagnostic error = op->emitError("expected the elements of argument ") << number;
  if (auto name = function.getArgAttrOfType<StringAttr>(number, flash::kArgumentNameAttr))
    error << " (" << name.getValue() << ")";
  error << ", which loop bounds read, got " << (arguments[number].address ? "a position outside" : "none");
}

//===--------------------------------------------------------------------------------------------------------------===//
// What the loops are about
//===--------------------------------------------------------------------------------------------------------------===//

flash::StepOpInterface LoopRunner::matchStep(Operation *op) const {
  auto step = dyn_cast<flash::StepOpInterface>(op);
  return step && (!gradients || step->getAttr("gradients") == *gradients) ? step : nullptr;
}

/// Takes the loops' tile shape, and decides how many maps there are.
LogicalResult LoopRunner::findTiles() {
  bool isTiled = false;
  WalkResult result = function.walk([&](Operation *op) {
    isTiled |= isa<flash::FinalizeOp>(op); // stays where the mask keeps nothing at all
    flash::StepOpInterface step = matchStep(op);
    if (!step)
      return WalkResult::advance();
    gradients = op->getAttr("gradients");
    flash::ScoresOpInterface scores = step.getScores();
    if (!scores) {
      op->emitError("expected a step with scores, whose mask says which tiles there are");
      return WalkResult::interrupt();
    }
    ShapedType q = scores.getQType(), k = scores.getKType();
    if (q.getDimSize(0) != 1 || q.getDimSize(1) != 1 || q.isDynamicDim(2) || k.isDynamicDim(2)) {
      op->emitError("expected tiles of one head and of a fixed shape, got ") << q << " and " << k;
      return WalkResult::interrupt();
    }
    isTiled = true;
    grid.qTile = q.getDimSize(2);
    grid.kvTile = k.getDimSize(2);
    grid.streamsQueries = step.getStreamedDim() == StepDim::I;
    auto tile = step.getPositionIn(StepDim::I).getDefiningOp<flash::SegmentTileOp>();
    if (tile && failed(countSegmentTiles(tile)))
      return WalkResult::interrupt();
    for (Operation *loop = op->getParentOp(); loop != function; loop = loop->getParentOp()) {
      ancestors.insert(loop);
      findPositions(loop, step);
      variesByBatch |= decidesTiles(loop, step.getPositionIn(StepDim::B));
      variesByHead |= decidesTiles(loop, step.getPositionIn(StepDim::H));
    }
    return WalkResult::advance();
  });
  if (result.wasInterrupted())
    return failure();
  if (!isTiled)
    return function.emitError("expected loops over tiles of one attention, got none");
  return success();
}

/// Where tiles of queries and of keys begin.
static SmallVector<Value> getTilePositions(flash::StepOpInterface op) {
  return {op.getPositionIn(StepDim::I), op.getPositionIn(StepDim::J)};
}

/// The counters of `loop` that say where tiles of queries and of keys begin. A batch may, too, where it has sequences
/// of its own; it is run by itself.
void LoopRunner::findPositions(Operation *loop, flash::StepOpInterface op) {
  for (BlockArgument counter : loop->getRegion(0).getArguments())
    if (counter != op.getPositionIn(StepDim::B) && counter != op.getPositionIn(StepDim::H) &&
        isComputedFrom(getTilePositions(op), counter))
      positions.insert(counter);
}

/// Whether `counter` is one of `loop`, and the tiles that are visited inside depend on it.
bool LoopRunner::decidesTiles(Operation *loop, Value counter) {
  auto argument = dyn_cast<BlockArgument>(counter);
  if (!argument || argument.getOwner()->getParentOp() != loop)
    return false;
  auto [entry, isNew] = deciding.try_emplace(counter, false);
  if (!isNew)
    return entry->second;
  WalkResult result = loop->walk([&](Operation *op) {
    SmallVector<Value> values;
    if (flash::StepOpInterface step = matchStep(op))
      values = getTilePositions(step);
    else if (op != loop && isa<scf::ForOp, scf::ForallOp>(op))
      llvm::copy_if(op->getOperands(), std::back_inserter(values), [](Value v) { return v.getType().isIndex(); });
    return isComputedFrom(values, argument) ? WalkResult::interrupt() : WalkResult::advance();
  });
  return deciding[counter] = result.wasInterrupted();
}

LogicalResult LoopRunner::countSegmentTiles(flash::SegmentTileOp tile) {
  auto length = get(tile, tile.getLength()), segments = evaluator.getExtent(tile.getSorted(), tile.getIndices().size());
  if (!length || !segments)
    return failure();
  grid.segmentTiles = llvm::divideCeil(length->base + 1, grid.qTile) + segments->base;
  return success();
}

//===--------------------------------------------------------------------------------------------------------------===//
// Loops
//===--------------------------------------------------------------------------------------------------------------===//

FailureOr<TileMap> LoopRunner::run() {
  if (failed(findTiles()) || failed(runBlock(function.getBody().front())))
    return failure();
  return makeMap();
}

LogicalResult LoopRunner::runBlock(Block &block) {
  for (Operation &op : block) {
    if (flash::StepOpInterface step = matchStep(&op); step && failed(note(step)))
      return failure();
    if (ancestors.contains(&op) && failed(runLoop(&op)))
      return failure();
  }
  return success();
}

LogicalResult LoopRunner::runLoop(Operation *op) {
  if (!isa<scf::ForOp, scf::ForallOp>(op))
    return op->emitError("cannot say which tiles are visited by '") << op->getName() << "'";
  return runCounters(op, getLoopCounters(op));
}

/// Iterations that visit the same tiles as the first one are left out.
LogicalResult LoopRunner::runCounters(Operation *loop, ArrayRef<Counter> counters) {
  if (counters.empty())
    return runBlock(loop->getRegion(0).front());
  Value counter = counters.front().value;
  std::optional<Iterations> iterations = orDiagnose(loop, evaluator.getIterations(counters.front()));
  if (!iterations)
    return failure();
  auto run = [&] { return runCounters(loop, counters.drop_front()); };
  if (!positions.contains(counter) || evaluator.getNumLoops() >= maxLoops)
    return evaluator.forEachNumber(*iterations, /*firstOnly=*/!decidesTiles(loop, counter), run);
  return evaluator.forEachPart(*iterations, [&] {
    size_t before = notes.size();
    LogicalResult result = run();
    if (failed(result))
      notes.resize(before);
    return result;
  });
}

//===--------------------------------------------------------------------------------------------------------------===//
// Notes
//===--------------------------------------------------------------------------------------------------------------===//

/// Tiles of queries by number, since those that follow sequences begin anywhere.
std::optional<Line> LoopRunner::getRow(flash::StepOpInterface op, const Line &resident) {
  if (auto tile = op.getPositionIn(StepDim::I).getDefiningOp<flash::SegmentTileOp>())
    return get(op, tile.getTile());
  return evaluator.divide(resident, grid.streamsQueries ? grid.kvTile : grid.qTile);
}

LogicalResult LoopRunner::note(flash::StepOpInterface op) {
  std::optional<Line> lines[4];
  for (auto [line, position] : llvm::zip_equal(lines, op.getPosition()))
    if (!(line = get(op, position)))
      return failure();
  auto &[batch, head, query, key] = lines;
  auto isInside = [&](const Line &line, int64_t extent) {
    LineEvaluator::Range range = evaluator.getRange(line);
    return range.low >= 0 && range.high < extent;
  };
  const Line &resident = grid.streamsQueries ? *key : *query, &streamed = grid.streamsQueries ? *query : *key;
  int64_t rows = grid.streamsQueries ? grid.kvTile : grid.qTile, columns = grid.streamsQueries ? grid.qTile : grid.kvTile;
  bool isOfSegment = bool(op.getPositionIn(StepDim::I).getDefiningOp<flash::SegmentTileOp>());
  bool isTile = isOfSegment || llvm::all_of(ArrayRef{resident.base, resident.slope[0], resident.slope[1]},
                                            [&](int64_t part) { return part % rows == 0; });
  if (!isTile || !isInside(*batch, grid.batch) || !isInside(*head, grid.heads) || !isInside(*query, grid.queries) ||
      !isInside(*key, grid.keys))
    return op->emitError("expected a tile of the attention, got one at batch ")
           << batch->base << ", head " << head->base << ", query " << query->base << ", key " << key->base;
  // Moved tiles of a row begin in a column each, too.
  std::optional<Line> row = getRow(op, resident), column = row ? evaluator.divide(streamed, columns) : std::nullopt;
  std::optional<TilePatch> patch = column ? makePatch(*row, *column) : std::nullopt;
  if (!patch)
    return failure();
  patch->tileClass = op.hasMask() ? TileClass::Partial : TileClass::Full;
  notes.push_back({variesByBatch ? batch->base : 0, variesByHead ? head->base : 0, *patch});
  return success();
}

/// One iteration moves either the row or, by one, the column. Otherwise the iterations are split.
std::optional<TilePatch> LoopRunner::makePatch(const Line &row, const Line &column) {
  unsigned numLoops = evaluator.getNumLoops();
  Line outer = numLoops > 0 ? evaluator.getCount(0) : Line{1}, inner = numLoops > 1 ? evaluator.getCount(1) : Line{1};
  auto isRow = [&](unsigned loop) { return row.slope[loop] != 0; };
  auto isColumn = [&](unsigned loop) { return row.slope[loop] == 0 && column.slope[loop] == 1; };
  bool isInnerRow = inner.isConstant() && isRow(1) && column.slope[1] == 0;
  TilePatch patch;
  patch.row = row.base;
  patch.column = column.base;
  auto setRows = [&](unsigned loop, int64_t count) {
    patch.rows = count;
    patch.rowStep = count > 1 ? row.slope[loop] : 1;
    patch.columnStep = column.slope[loop];
  };
  bool isOuterSingle = outer.base == 1, isInnerSingle = inner.isConstant() && inner.base == 1;
  if ((isRow(0) || isOuterSingle) && (isColumn(1) || isInnerSingle)) {
    setRows(0, outer.base);
    patch.width = inner.base;
    patch.widthStep = inner.slope[0];
  } else if ((isColumn(0) || isOuterSingle) && (isInnerRow || isInnerSingle)) {
    setRows(1, inner.base);
    patch.width = outer.base;
  } else {
    evaluator.splitInHalves();
    return std::nullopt;
  }
  return patch;
}

FailureOr<TileMap> LoopRunner::makeMap() {
  TileMap map(grid, variesByBatch, variesByHead);
  for (const Note &note : notes)
    map.add(note.batch, note.head, note.patch);
  if (auto shared = map.findSharedTile())
    return function.emitError("expected every tile once, got the one in row ")
           << (*shared)[0] << ", column " << (*shared)[1] << " again";
  return map;
}

FailureOr<TileMap> flashc::mapTiles(func::FuncOp function, ArrayRef<LaunchArgument> arguments, TileGrid grid,
                                    bool oneByOne) {
  return LoopRunner(function, arguments, grid, oneByOne).run();
}
