//===- TileMap.cpp - which tiles the loops skip, mask and compute as they are -------------------------------------===//

#include "flashc/Analysis/TileMap.h"
#include "IndexEvaluator.h"
#include "flashc/Analysis/LaunchInterface.h"
#include "flashc/Dialect/Flash/IR/Flash.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

using namespace mlir;
using namespace flashc;

TileCounts &TileCounts::operator+=(const TileCounts &other) {
  skipped += other.skipped;
  partial += other.partial;
  full += other.full;
  return *this;
}

bool TileCounts::operator==(const TileCounts &other) const {
  return skipped == other.skipped && partial == other.partial && full == other.full;
}

TileMap::TileMap(const TileGrid &grid, bool variesByBatch, bool variesByHead)
    : grid(grid), variesByBatch(variesByBatch), variesByHead(variesByHead) {
  int64_t maps = (variesByBatch ? grid.batch : 1) * (variesByHead ? grid.heads : 1);
  tiles.resize(maps * grid.getRows() * grid.getColumns(), TileClass::Skipped);
}

size_t TileMap::getStart(int64_t batch, int64_t head) const {
  int64_t map = (variesByBatch ? batch : 0) * (variesByHead ? grid.heads : 1) + (variesByHead ? head : 0);
  return map * grid.getRows() * grid.getColumns();
}

TileClass &TileMap::at(int64_t batch, int64_t head, int64_t row, int64_t column) {
  return tiles[getStart(batch, head) + row * grid.getColumns() + column];
}

ArrayRef<TileClass> TileMap::getTiles(int64_t batch, int64_t head) const {
  return ArrayRef(tiles).slice(getStart(batch, head), grid.getRows() * grid.getColumns());
}

TileCounts TileMap::count(int64_t batch, int64_t head) const {
  TileCounts counts;
  for (TileClass tile : getTiles(batch, head))
    ++(tile == TileClass::Full ? counts.full : tile == TileClass::Partial ? counts.partial : counts.skipped);
  return counts;
}

TileCounts TileMap::count() const {
  TileCounts counts;
  for (int64_t batch = 0; batch < (variesByBatch ? grid.batch : 1); ++batch)
    for (int64_t head = 0; head < (variesByHead ? grid.heads : 1); ++head)
      counts += count(batch, head);
  int64_t times = (variesByBatch ? 1 : grid.batch) * (variesByHead ? 1 : grid.heads);
  return {counts.skipped * times, counts.partial * times, counts.full * times};
}

//===--------------------------------------------------------------------------------------------------------------===//
// Running the loops
//===--------------------------------------------------------------------------------------------------------------===//

namespace {

/// Runs the loops with numbers and notes the tiles that they visit.
class LoopRunner {
public:
  LoopRunner(func::FuncOp function, ArrayRef<LaunchArgument> arguments, TileGrid grid);
  FailureOr<TileMap> run();

private:
  LogicalResult findTiles();
  LogicalResult runBlock(Block &block);
  LogicalResult runLoop(Operation *op);
  LogicalResult runIterations(Operation *loop, ArrayRef<Value> counters, ArrayRef<std::array<int64_t, 3>> ranges);
  LogicalResult note(flash::OnlineAttentionOp op);
  LogicalResult countSegmentTiles(flash::SegmentTileOp tile);
  bool decidesTiles(Operation *loop, Value counter);
  /// The number, or none after a diagnostic on `op`: the first of all.
  template <typename T> std::optional<int64_t> get(Operation *op, T value);
  void diagnoseUnknown(Operation *op);

  func::FuncOp function;
  ArrayRef<LaunchArgument> arguments;
  IndexEvaluator evaluator;
  TileGrid grid;
  std::optional<TileMap> map;
  /// The ops around tiles.
  DenseSet<Operation *> ancestors;
  bool isDiagnosed = false;
  /// What decidesTiles answered.
  DenseMap<Value, bool> deciding;
};

} // namespace

LoopRunner::LoopRunner(func::FuncOp function, ArrayRef<LaunchArgument> arguments, TileGrid grid)
    : function(function), arguments(arguments), grid(grid) {
  for (auto [value, argument] : llvm::zip(function.getArguments(), arguments)) {
    if (!isa<ShapedType>(value.getType())) {
      evaluator.setScalar(value, argument.scalar);
      continue;
    }
    evaluator.setShape(value, argument.shape);
    if (argument.address)
      evaluator.setElements(value, reinterpret_cast<const void *>(argument.address), argument.strides);
  }
}

template <typename T> std::optional<int64_t> LoopRunner::get(Operation *op, T value) {
  std::optional<int64_t> number = evaluator.get(value);
  if (!number)
    diagnoseUnknown(op);
  return number;
}

void LoopRunner::diagnoseUnknown(Operation *op) {
  if (std::exchange(isDiagnosed, true))
    return;
  Value unknown = evaluator.getUnknown();
  auto argument = dyn_cast<BlockArgument>(unknown);
  if (!argument || argument.getOwner()->getParentOp() != function) {
    Operation *source = argument ? argument.getOwner()->getParentOp() : unknown.getDefiningOp();
    op->emitError("cannot say which tiles are visited: a loop bound depends on '") << source->getName() << "'";
    return;
  }
  unsigned number = argument.getArgNumber();
  InFlightDiagnostic error = op->emitError("expected the elements of argument ") << number;
  if (auto name = function.getArgAttrOfType<StringAttr>(number, kArgumentNameAttr))
    error << " (" << name.getValue() << ")";
  error << ", which loop bounds read, got " << (arguments[number].address ? "a position outside" : "none");
}

/// Takes the loops' tile shape, and decides how many maps there are.
LogicalResult LoopRunner::findTiles() {
  bool variesByBatch = false, variesByHead = false, isTiled = false;
  WalkResult result = function.walk([&](Operation *op) {
    isTiled |= isa<flash::FinalizeOp>(op); // stays where the mask keeps nothing at all
    auto attention = dyn_cast<flash::OnlineAttentionOp>(op);
    if (!attention)
      return WalkResult::advance();
    ShapedType q = attention.getQType(), k = attention.getKType();
    if (q.getDimSize(0) != 1 || q.getDimSize(1) != 1 || q.isDynamicDim(2) || k.isDynamicDim(2)) {
      op->emitError("expected tiles of one head and of a fixed shape, got ") << q << " and " << k;
      return WalkResult::interrupt();
    }
    grid.qTile = q.getDimSize(2);
    grid.kvTile = k.getDimSize(2);
    if (auto tile = attention.getI0().getDefiningOp<flash::SegmentTileOp>(); tile && failed(countSegmentTiles(tile)))
      return WalkResult::interrupt();
    for (Operation *loop = op->getParentOp(); loop != function; loop = loop->getParentOp()) {
      ancestors.insert(loop);
      variesByBatch |= decidesTiles(loop, attention.getB0());
      variesByHead |= decidesTiles(loop, attention.getH0());
    }
    return WalkResult::advance();
  });
  if (result.wasInterrupted())
    return failure();
  if (!isTiled)
    return function.emitError("expected loops over tiles of one attention, got none");
  map.emplace(grid, variesByBatch, variesByHead);
  return success();
}

FailureOr<TileMap> LoopRunner::run() {
  if (failed(findTiles()) || failed(runBlock(function.getBody().front())))
    return failure();
  return std::move(*map);
}

LogicalResult LoopRunner::runBlock(Block &block) {
  for (Operation &op : block) {
    if (auto attention = dyn_cast<flash::OnlineAttentionOp>(op); attention && failed(note(attention)))
      return failure();
    if (ancestors.contains(&op) && failed(runLoop(&op)))
      return failure();
  }
  return success();
}

LogicalResult LoopRunner::runLoop(Operation *op) {
  auto loop = dyn_cast<LoopLikeOpInterface>(op);
  if (!isa<scf::ForOp, scf::ForallOp>(op))
    return op->emitError("cannot say which tiles are visited by '") << op->getName() << "'";
  auto counters = loop.getLoopInductionVars();
  auto lower = loop.getLoopLowerBounds(), upper = loop.getLoopUpperBounds(), steps = loop.getLoopSteps();
  SmallVector<std::array<int64_t, 3>> ranges;
  for (auto [first, last, step] : llvm::zip_equal(*lower, *upper, *steps)) {
    auto begin = get(loop, first), end = get(loop, last), by = get(loop, step);
    if (!begin || !end || !by)
      return failure();
    ranges.push_back({*begin, *end, std::max<int64_t>(*by, 1)});
  }
  return runIterations(loop, *counters, ranges);
}

/// Iterations that visit the same tiles as the first one are left out.
LogicalResult LoopRunner::runIterations(Operation *loop, ArrayRef<Value> counters,
                                        ArrayRef<std::array<int64_t, 3>> ranges) {
  if (counters.empty())
    return runBlock(loop->getRegion(0).front());
  auto [first, last, step] = ranges.front();
  if (!decidesTiles(loop, counters.front()))
    last = std::min(last, first + 1);
  for (int64_t value = first; value < last; value += step) {
    evaluator.setCounter(counters.front(), value);
    if (failed(runIterations(loop, counters.drop_front(), ranges.drop_front())))
      return failure();
  }
  return success();
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
    if (auto attention = dyn_cast<flash::OnlineAttentionOp>(op))
      values = {attention.getI0(), attention.getJ0()};
    else if (op != loop && isa<scf::ForOp, scf::ForallOp>(op))
      llvm::copy_if(op->getOperands(), std::back_inserter(values), [](Value v) { return v.getType().isIndex(); });
    return isComputedFrom(values, counter, loop) ? WalkResult::interrupt() : WalkResult::advance();
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

LogicalResult LoopRunner::note(flash::OnlineAttentionOp op) {
  auto batch = get(op, op.getB0()), head = get(op, op.getH0()), query = get(op, op.getI0()), key = get(op, op.getJ0());
  if (!batch || !head || !query || !key)
    return failure();
  bool isInside = *batch >= 0 && *batch < grid.batch && *head >= 0 && *head < grid.heads && *query >= 0 &&
                  *query < grid.queries && *key >= 0 && *key < grid.keys;
  auto ofSegments = op.getI0().getDefiningOp<flash::SegmentTileOp>();
  auto row = ofSegments ? get(op, ofSegments.getTile()) : *query / grid.qTile;
  if (!row)
    return failure();
  if (!isInside || (!ofSegments && *query % grid.qTile))
    return op.emitError("expected a tile of the attention, got one at batch ")
           << *batch << ", head " << *head << ", query " << *query << ", key " << *key;
  // Moved tiles of a row begin in a column each, too.
  TileClass &tile = map->at(*batch, *head, *row, *key / grid.kvTile);
  if (tile != TileClass::Skipped)
    return op.emitError("expected every tile once, got the one at query ") << *query << ", key " << *key << " again";
  tile = op.hasMask() ? TileClass::Partial : TileClass::Full;
  return success();
}

FailureOr<TileMap> flashc::mapTiles(func::FuncOp function, ArrayRef<LaunchArgument> arguments, TileGrid grid) {
  return LoopRunner(function, arguments, grid).run();
}
