//===- LoopRunner.cpp - the loops of a step, run with numbers -----------------------------------------------------===//
// Runs the loops iteration by iteration. Leaves out batches and heads that visit the same tiles as the first one, and,
// if the map is a sample, rows that the map does not know. A loop that only visits one tile after another is recorded
// as a whole.
//===--------------------------------------------------------------------------------------------------------------===//

#include "CallEvaluator.h"
#include "flashc/Analysis/TileMap.h"
#include "flashc/Dialect/Flash/IR/Arguments.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

using namespace mlir;
using namespace flashc;
using flash::StepDim;

namespace {

/// Runs the loops with numbers and records the tiles that they visit.
class LoopRunner {
public:
  LoopRunner(func::FuncOp function, ArrayRef<LaunchArgument> arguments, const TileGrid &grid);
  FailureOr<TileMap> run(int64_t maxTiles);

private:
  LogicalResult findTiles();
  LogicalResult findTiles(flash::StepOpInterface step);
  bool decidesTiles(Operation *loop, Value counter);
  LogicalResult countSegmentTiles(flash::SegmentTileOp tile);
  int64_t chooseRowStep(int64_t maxTiles);

  LogicalResult runBlock(Block &block);
  LogicalResult runLoop(Operation *op);
  LogicalResult runCounters(Operation *loop, ArrayRef<LoopCounter> counters);
  bool isStretch(Operation *loop, const LoopCounter &counter, const Iterations &iterations);
  /// Records `count` consecutive tiles of a row. The first of them is the tile at the current position of step `op`.
  LogicalResult note(flash::StepOpInterface op, int64_t count = 1);
  /// Returns `op` if it is a step of the nest that is run, else null.
  flash::StepOpInterface matchStep(Operation *op) const;
  Value getResident(flash::StepOpInterface op) const {
    return op.getPositionIn(grid.streamsQueries ? StepDim::J : StepDim::I);
  }
  Value getStreamed(flash::StepOpInterface op) const {
    return op.getPositionIn(grid.streamsQueries ? StepDim::I : StepDim::J);
  }

  /// Returns `known`, or nullopt after a diagnostic on `op`.
  template <typename T> std::optional<T> orDiagnose(Operation *op, std::optional<T> known) {
    if (!known)
      diagnoseUnknown(op);
    return known;
  }
  std::optional<int64_t> get(Operation *op, Value value) { return orDiagnose(op, evaluator.get(value)); }
  void diagnoseUnknown(Operation *op);

  func::FuncOp function;
  ArrayRef<LaunchArgument> arguments;
  CallEvaluator evaluator;
  TileGrid grid;
  bool variesByBatch = false, variesByHead = false;
  std::optional<TileMap> map;
  /// The `gradients` attribute of the steps that are run. The attribute tells the nests of a backward pass apart: only
  /// the first nest is run.
  std::optional<Attribute> gradients;
  /// `ancestors` are the ops around the steps. `rows` are the counters from which the positions of resident tiles are
  /// computed.
  DenseSet<Operation *> ancestors;
  DenseSet<Value> rows;
  /// Cached results of decidesTiles.
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

LoopRunner::LoopRunner(func::FuncOp function, ArrayRef<LaunchArgument> arguments, const TileGrid &grid)
    : function(function), arguments(arguments), evaluator(makeCall(function, arguments)), grid(grid) {}

void LoopRunner::diagnoseUnknown(Operation *op) {
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
// Which loops there are
//===--------------------------------------------------------------------------------------------------------------===//

flash::StepOpInterface LoopRunner::matchStep(Operation *op) const {
  auto step = dyn_cast<flash::StepOpInterface>(op);
  return step && (!gradients || step->getAttr("gradients") == *gradients) ? step : nullptr;
}

/// Reads the tile shape from the loops, and finds the counters that the visited tiles depend on.
LogicalResult LoopRunner::findTiles() {
  bool isTiled = false;
  WalkResult result = function.walk([&](Operation *op) {
    isTiled |= isa<flash::FinalizeOp>(op); // flash.finalize is there even if the mask keeps nothing
    flash::StepOpInterface step = matchStep(op);
    isTiled |= bool(step);
    return step && failed(findTiles(step)) ? WalkResult::interrupt() : WalkResult::advance();
  });
  if (result.wasInterrupted())
    return failure();
  if (!isTiled)
    return function.emitError("expected loops over tiles of one attention, got none");
  return success();
}

LogicalResult LoopRunner::findTiles(flash::StepOpInterface step) {
  gradients = step->getAttr("gradients");
  flash::ScoresOpInterface scores = step.getScores();
  if (!scores)
    return step->emitError("expected a step with scores, whose mask says which tiles there are");
  ShapedType q = scores.getQType(), k = scores.getKType();
  if (q.getDimSize(0) != 1 || q.getDimSize(1) != 1 || q.isDynamicDim(2) || k.isDynamicDim(2))
    return step->emitError("expected tiles of one head and of a fixed shape, got ") << q << " and " << k;
  grid.qTile = q.getDimSize(2);
  grid.kvTile = k.getDimSize(2);
  grid.streamsQueries = step.getStreamedDim() == StepDim::I;
  auto tile = step.getPositionIn(StepDim::I).getDefiningOp<flash::SegmentTileOp>();
  if (tile && failed(countSegmentTiles(tile)))
    return failure();
  Value batch = step.getPositionIn(StepDim::B), head = step.getPositionIn(StepDim::H);
  for (Operation *loop = step->getParentOp(); loop != function; loop = loop->getParentOp()) {
    ancestors.insert(loop);
    variesByBatch |= decidesTiles(loop, batch);
    variesByHead |= decidesTiles(loop, head);
    // These counters decide to which row of the map a tile belongs. The batch does not, even where the resident
    // position depends on it because each batch has sequences of its own.
    for (BlockArgument counter : loop->getRegion(0).getArguments())
      if (counter != batch && counter != head && isComputedFrom(getResident(step), counter))
        rows.insert(counter);
  }
  return success();
}

/// Whether `counter` is a counter of `loop` on which the tiles visited inside the loop depend.
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
      values = {step.getPositionIn(StepDim::I), step.getPositionIn(StepDim::J)};
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
  grid.segmentTiles = llvm::divideCeil(*length + 1, grid.qTile) + *segments;
  return success();
}

/// Returns n, where the map knows every n-th row (TileMap::getRowStep). This n is so large that the run takes at most
/// about as long as visiting `maxTiles` tiles.
int64_t LoopRunner::chooseRowStep(int64_t maxTiles) {
  bool runsMask = function.walk([](flash::TileRunsOp) { return WalkResult::interrupt(); }).wasInterrupted();
  int64_t maps = (variesByBatch ? grid.batch : 1) * (variesByHead ? grid.heads : 1);
  int64_t maxRows = maxTiles / (runsMask ? grid.getColumns() : kTilesOfRow) / maps;
  return llvm::divideCeil(grid.getRows(), std::max<int64_t>(maxRows, 1));
}

//===--------------------------------------------------------------------------------------------------------------===//
// Loops
//===--------------------------------------------------------------------------------------------------------------===//

FailureOr<TileMap> LoopRunner::run(int64_t maxTiles) {
  if (failed(findTiles()))
    return failure();
  map.emplace(grid, variesByBatch, variesByHead, chooseRowStep(maxTiles));
  if (failed(runBlock(function.getBody().front())))
    return failure();
  return std::move(*map);
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

LogicalResult LoopRunner::runCounters(Operation *loop, ArrayRef<LoopCounter> counters) {
  if (counters.empty())
    return runBlock(loop->getRegion(0).front());
  std::optional<Iterations> iterations = orDiagnose(loop, evaluator.getIterations(counters.front()));
  if (!iterations)
    return failure();
  auto [begin, step, count] = *iterations;
  Value counter = counters.front().value;
  if (count > 0 && isStretch(loop, counters.front(), *iterations)) {
    evaluator.set(counter, begin);
    return note(*loop->getRegion(0).getOps<flash::StepOpInterface>().begin(), count);
  }
  bool isSampled = rows.contains(counter);
  // If all iterations visit the same tiles, only the first one is run.
  int64_t end = decidesTiles(loop, counter) ? count : std::min<int64_t>(count, 1);
  for (int64_t k = isSampled ? map->getFirstRow() : 0; k < end; k += isSampled ? map->getRowStep() : 1) {
    evaluator.set(counter, begin + k * step);
    if (failed(runCounters(loop, counters.drop_front())))
      return failure();
  }
  return success();
}

/// Whether the iterations of `loop`, which has one counter, visit consecutive tiles of a row.
bool LoopRunner::isStretch(Operation *loop, const LoopCounter &counter, const Iterations &iterations) {
  Block &body = loop->getRegion(0).front();
  auto steps = body.getOps<flash::StepOpInterface>();
  bool isInnermost = llvm::none_of(body, [&](Operation &op) { return ancestors.contains(&op); });
  return isa<scf::ForOp>(loop) && isInnermost && llvm::hasSingleElement(steps) &&
         getStreamed(*steps.begin()) == counter.value &&
         iterations.step == (grid.streamsQueries ? grid.qTile : grid.kvTile);
}

/// If tiles of queries follow sequences, the row of the map is the number of the tile, since a tile may begin at any
/// position.
LogicalResult LoopRunner::note(flash::StepOpInterface op, int64_t count) {
  SmallVector<int64_t, 4> position;
  for (Value value : op.getPosition()) {
    std::optional<int64_t> number = get(op, value);
    if (!number)
      return failure();
    position.push_back(*number);
  }
  auto [batch, head, query, key] = std::tuple(position[0], position[1], position[2], position[3]);
  auto [height, width] = grid.streamsQueries ? std::pair(grid.kvTile, grid.qTile) : std::pair(grid.qTile, grid.kvTile);
  int64_t resident = grid.streamsQueries ? key : query, streamed = grid.streamsQueries ? query : key;
  int64_t last = streamed + (count - 1) * width, row = resident / height;
  bool isTile = resident % height == 0;
  if (auto tile = op.getPositionIn(StepDim::I).getDefiningOp<flash::SegmentTileOp>()) {
    row = *get(op, tile.getTile()); // known, since the position that it determines is known
    isTile = true;
  }
  auto isInside = [](int64_t number, int64_t extent) { return number >= 0 && number < extent; };
  if (!isTile || !isInside(batch, grid.batch) || !isInside(head, grid.heads) || !isInside(query, grid.queries) ||
      !isInside(key, grid.keys) || !isInside(last, grid.streamsQueries ? grid.queries : grid.keys) ||
      !map->isKnown(row))
    return op->emitError("expected a tile of the attention, got one at batch ")
           << batch << ", head " << head << ", query " << query << ", key " << key;
  int64_t column = streamed / width; // unique even if tiles are moved: no two tiles begin in one column
  if (map->add(batch, head, row, {op.hasMask() ? TileClass::Partial : TileClass::Full, column, column + count}))
    return success();
  return function.emitError("expected every tile once, got the one in row ")
         << row << ", column " << column << " again";
}

FailureOr<TileMap> flashc::mapTiles(func::FuncOp function, ArrayRef<LaunchArgument> arguments, TileGrid grid,
                                    int64_t maxTiles) {
  return LoopRunner(function, arguments, grid).run(maxTiles);
}
