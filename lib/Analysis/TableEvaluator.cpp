//===- TableEvaluator.cpp - searches of arrays, and the contents of tables ----------------------------------------===//

#include "CallEvaluator.h"
#include "flashc/Dialect/Flash/IR/SortedData.h"
#include "flashc/Dialect/Flash/IR/TileTables.h"
#include "llvm/ADT/bit.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace flashc;
using Number = CallEvaluator::Number;

Number CallEvaluator::load(Value array, ArrayRef<int64_t> positions) {
  if (auto rows = array.getDefiningOp<flash::RowTableOp>())
    return yield(rows.getBody().front(), positions);
  // Evaluates only the first region, which computes the class of a tile without running the mask. Where the class is
  // not known in this way, the region yields 1: the tile counts as visited with the mask.
  if (auto classes = array.getDefiningOp<flash::TileClassesOp>())
    return yield(classes.getKnown().front(), {positions[0], positions[1], positions[2] * int64_t(classes.getQTile()),
                                              positions[3] * int64_t(classes.getKvTile())});
  if (auto runs = array.getDefiningOp<flash::TileRunsOp>())
    return readRuns(runs, positions);
  return toNumber(read(array, positions), getElementTypeOrSelf(array));
}

/// Returns the number that the region of `body` yields. The number must depend only on `arguments` and on the call.
Number CallEvaluator::yield(Block &body, ArrayRef<int64_t> arguments) {
  auto &inside = regions[&body];
  if (!inside)
    inside.reset(new CallEvaluator(call));
  for (auto [argument, number] : llvm::zip_equal(body.getArguments(), arguments))
    inside->set(argument, number);
  Number number = inside->get(cast<flash::YieldOp>(body.getTerminator()).getValue());
  if (!number)
    unknown = inside->unknown;
  return number;
}

//===--------------------------------------------------------------------------------------------------------------===//
// Sorted arrays
//===--------------------------------------------------------------------------------------------------------------===//

Number CallEvaluator::readSorted(Value sorted, ValueRange indices, int64_t position) {
  auto positions = getAll(indices);
  if (!positions)
    return std::nullopt;
  positions->push_back(position);
  return load(sorted, *positions);
}

/// Takes the same steps as the kernel does (expandSortedRead), so that both have the same result even if the array is
/// not sorted.
Number CallEvaluator::countElements(flash::CountLeOp op) {
  Number value = get(op.getValue()), extent = getExtent(op.getSorted(), op.getIndices().size());
  if (!value || !extent)
    return std::nullopt;
  int64_t count = 0;
  for (int64_t step = llvm::bit_floor(uint64_t(*extent)); step > 0; step /= 2) {
    Number element = readSorted(op.getSorted(), op.getIndices(), std::min(count + step, *extent) - 1);
    if (!element)
      return std::nullopt;
    bool isCounted = op.getStrict() ? *element < *value : *element <= *value;
    if (count + step <= *extent && isCounted)
      count += step;
  }
  return count;
}

Number CallEvaluator::getNth(flash::NthOp op) {
  Number position = get(op.getPosition()), extent = getExtent(op.getSorted(), op.getIndices().size());
  if (!position || !extent)
    return std::nullopt;
  if (*position < 0 || *position >= *extent)
    return *position < 0 ? -flash::kFarPosition : flash::kFarPosition;
  Number element = readSorted(op.getSorted(), op.getIndices(), *position);
  return element ? Number(std::clamp(*element, -flash::kFarPosition, flash::kFarPosition)) : std::nullopt;
}

/// Returns the number, the begin and the end of the segment to which a tile belongs. The search takes the same steps as
/// expandSegmentTile.
std::optional<std::array<int64_t, 3>> CallEvaluator::findSegment(flash::SegmentTileOp op, int64_t length,
                                                                 int64_t tile) {
  Number extent = getExtent(op.getSorted(), op.getIndices().size());
  if (!extent)
    return std::nullopt;
  int64_t size = op.getTileSize(), segment = 0;
  auto getBegin = [&](int64_t segment) -> Number {
    if (segment == 0 || segment > *extent)
      return segment == 0 ? 0 : length;
    Number element = readSorted(op.getSorted(), op.getIndices(), segment - 1);
    return element ? Number(std::max<int64_t>(std::min(*element, length), 0)) : std::nullopt;
  };
  for (int64_t step = llvm::bit_floor(uint64_t(*extent)); step > 0; step /= 2) {
    Number begin = getBegin(std::min(segment + step, *extent));
    if (!begin)
      return std::nullopt;
    if (segment + step <= *extent && *begin / size + segment + step <= tile)
      segment += step;
  }
  Number begin = getBegin(segment), end = getBegin(segment + 1);
  return begin && end ? std::optional(std::array{segment, *begin, *end}) : std::nullopt;
}

Number CallEvaluator::placeTile(flash::SegmentTileOp op, unsigned result) {
  Number tile = get(op.getTile()), length = get(op.getLength());
  auto found = tile && length ? findSegment(op, *length, *tile) : std::nullopt;
  if (!found)
    return std::nullopt;
  auto [number, segmentBegin, segmentEnd] = *found;
  int64_t size = op.getTileSize(), firstTile = segmentBegin / size + number;
  int64_t begin = std::min(segmentBegin + (*tile - firstTile) * size, segmentEnd);
  switch (result) {
  case 0:
    return std::max<int64_t>(std::min(begin, *length - 1), 0);
  case 1:
    return std::min(segmentEnd - begin, size);
  default:
    return number;
  }
}

//===--------------------------------------------------------------------------------------------------------------===//
// Tables of tiles
//===--------------------------------------------------------------------------------------------------------------===//

/// Returns the minimum and the maximum of the values that the op's region yields in the tile.
std::optional<CallEvaluator::Ends> CallEvaluator::findEnds(flash::TileRangeOp op) {
  auto operands = getAll(op->getOperands());
  if (!operands)
    return std::nullopt;
  Place place{op, {operands->begin(), operands->end()}};
  if (auto found = ends.find(place); found != ends.end())
    return found->second;
  bool isFlag = op.getValue().getType().isInteger(1);
  int64_t batch = operands->front(), head = (*operands)[1], first = (*operands)[2];
  Ends result{std::numeric_limits<int64_t>::max(), std::numeric_limits<int64_t>::min()};
  for (int64_t position = first; position < std::min<int64_t>(first + op.getTile(), operands->back()); ++position) {
    Number value = yield(op.getBody().front(), {batch, head, position});
    if (!value)
      return std::nullopt;
    int64_t number = isFlag ? *value != 0 : *value;
    result = {std::min(result[0], number), std::max(result[1], number)};
  }
  return ends[place] = result;
}

namespace {
/// The runs of one row of tiles. A compiled program computes the same runs with RunsBuilder
/// (Dialect/Flash/IR/TileTables.h).
class TileRunList {
public:
  using Run = std::array<int64_t, 4>; // begin, full_begin, full_end, end

  TileRunList(int64_t numRuns, int64_t tile) : runs(numRuns, Run{0, 0, 0, 0}), tile(tile) {}

  /// Adds a visited tile; tiles are added in ascending order.
  void visit(int64_t first, bool isFull);
  std::vector<Run> take() { return std::move(runs); }

private:
  std::vector<Run> runs;
  int64_t tile, rowBegin = 0, rowEnd = 0;
};
} // namespace

void TileRunList::visit(int64_t key, bool isFull) {
  runs.push_back({key, key, key, key});
  size_t first = runs.size() - 2;
  auto getGap = [&](size_t run) { return runs[run + 1][0] - runs[run][3]; };
  for (size_t run = first; run-- > 0;)
    if (getGap(run) < getGap(first))
      first = run;
  Run &merged = runs[first];
  const Run &next = runs[first + 1];
  if (merged[2] - merged[1] < next[2] - next[1])
    merged[1] = next[1], merged[2] = next[2];
  merged[3] = next[3];
  runs.erase(runs.begin() + first + 1);

  Run &last = runs.back();
  last[3] = key + tile;
  if (!isFull)
    return;
  rowBegin = rowEnd == key ? rowBegin : key;
  rowEnd = key + tile;
  if (rowEnd - rowBegin > last[2] - last[1])
    last[1] = rowBegin, last[2] = rowEnd;
}

Number CallEvaluator::readRuns(flash::TileRunsOp op, ArrayRef<int64_t> place) {
  Place row{op, {place.begin(), place.begin() + 3}};
  if (auto found = runs.find(row); found != runs.end())
    return found->second[place[3]][place[4]];
  Number end = get(op.getStreamed());
  if (!end)
    return std::nullopt;
  TileRunList list(op.getNumRuns(), op.getStreamedTile());
  for (int64_t streamed = 0; streamed < *end; streamed += op.getStreamedTile()) {
    std::array<int64_t, 4> position = {place[0], place[1], place[2] * op.getResidentTile(), streamed};
    if (op.getDual())
      std::swap(position[2], position[3]);
    Number visit = yield(op.getBody().front(), position);
    if (!visit)
      return std::nullopt;
    if (*visit > 0)
      list.visit(streamed, *visit == int64_t(flash::TileVisit::Full));
  }
  return runs.emplace(row, list.take()).first->second[place[3]][place[4]];
}
