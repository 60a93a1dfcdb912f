//===- LineTables.cpp - searches of arrays, and tables of what they hold ------------------------------------------===//

#include "KeyRanges.h"
#include "LineEvaluator.h"
#include "flashc/Dialect/Flash/IR/SortedData.h"
#include "llvm/ADT/bit.h"

#include <map>

using namespace mlir;
using namespace flashc;

namespace {
/// What RunsBuilder computes in a program (Dialect/Flash/IR/TileTables.h), of one tile of queries, in numbers.
class TileRunList {
public:
  TileRunList(int64_t numRuns, int64_t kvTile) : runs(numRuns, Run{0, 0, 0, 0}), kvTile(kvTile) {}

  /// Another tile that is visited; they ascend.
  void visit(int64_t key, bool isFull);

  /// `field` says which of begin, full_begin, full_end, end.
  int64_t get(int64_t run, int64_t field) const { return runs[run][field]; }

private:
  using Run = std::array<int64_t, 4>;

  SmallVector<Run, 8> runs;
  int64_t kvTile, rowBegin = 0, rowEnd = 0;
};
} // namespace

/// Rows of tables of tiles, which loops read again and again.
struct LineEvaluator::Tables {
  using Place = std::pair<Operation *, std::vector<int64_t>>;
  /// Of stretches of tiles, by the last one, too.
  std::map<std::pair<Place, int64_t>, std::array<int64_t, 2>> ends;
  std::map<Place, TileRunList> runs;
};

LineEvaluator::LineEvaluator(CallArguments call)
    : call(std::make_shared<const CallArguments>(std::move(call))), tables(std::make_shared<Tables>()) {}

Attribute LineEvaluator::load(Value array, ArrayRef<int64_t> positions) {
  Operation *table = array.getDefiningOp();
  if (auto classes = dyn_cast_or_null<flash::TileClassesOp>(table)) {
    std::optional<int64_t> known = readKnownClass(classes, positions);
    return known ? makeConstant(getElementTypeOrSelf(array), *known) : nullptr;
  }
  auto runs = dyn_cast_or_null<flash::TileRunsOp>(table);
  if (!runs)
    return read(array, positions);
  std::optional<int64_t> number = readRuns(runs, positions);
  return number ? makeConstant(getElementTypeOrSelf(array), *number) : nullptr;
}

//===--------------------------------------------------------------------------------------------------------------===//
// Searches
//===--------------------------------------------------------------------------------------------------------------===//

/// Step for step what the kernel does (expandSortedRead), so that this is also what it finds where a promise is broken.
std::optional<int64_t> LineEvaluator::countElements(flash::CountLeOp op, int64_t value) {
  std::optional<int64_t> extent = getNumber(getExtent(op.getSorted(), op.getIndices().size()));
  auto positions = getNumbers(op.getIndices());
  if (!extent || !positions)
    return std::nullopt;
  int64_t count = 0;
  positions->push_back(0);
  for (int64_t step = llvm::bit_floor(uint64_t(*extent)); step > 0; step /= 2) {
    positions->back() = std::min(count + step, *extent) - 1;
    std::optional<int64_t> element = getInteger(read(op.getSorted(), *positions));
    if (!element)
      return std::nullopt;
    bool isCounted = op.getStrict() ? *element < value : *element <= value;
    if (count + step <= *extent && isCounted)
      count += step;
  }
  return count;
}

/// A search ascends with what it searches for, whatever the array holds: where two searches part, the one for more has
/// counted a step that is longer than all that the other can still count. So it is constant where it is at both ends.
std::optional<Line> LineEvaluator::computeSearch(flash::CountLeOp op) {
  std::optional<Line> value = get(op.getValue());
  if (!value)
    return std::nullopt;
  Range range = getRange(*value);
  std::optional<int64_t> first = countElements(op, range.low);
  std::optional<int64_t> last = range.low == range.high ? first : countElements(op, range.high);
  if (!first || !last)
    return std::nullopt;
  if (*first == *last)
    return Line{*first};
  splitInHalves();
  return std::nullopt;
}

std::optional<Line> LineEvaluator::computeNth(flash::NthOp op) {
  std::optional<int64_t> position = getNumber(get(op.getPosition()));
  std::optional<int64_t> extent = getNumber(getExtent(op.getSorted(), op.getIndices().size()));
  auto positions = getNumbers(op.getIndices());
  if (!position || !extent || !positions)
    return std::nullopt;
  if (*position < 0 || *position >= *extent)
    return Line{*position < 0 ? -flash::kFarPosition : flash::kFarPosition};
  positions->push_back(*position);
  std::optional<int64_t> element = getInteger(read(op.getSorted(), *positions));
  return element ? std::optional(Line{std::clamp(*element, -flash::kFarPosition, flash::kFarPosition)}) : std::nullopt;
}

/// Like expandSegmentTile.
std::optional<LineEvaluator::Segment> LineEvaluator::findSegment(flash::SegmentTileOp op, int64_t length,
                                                                 int64_t tile) {
  std::optional<int64_t> extent = getNumber(getExtent(op.getSorted(), op.getIndices().size()));
  auto positions = getNumbers(op.getIndices());
  if (!extent || !positions)
    return std::nullopt;
  int64_t size = op.getTileSize(), segment = 0;
  positions->push_back(0);
  auto getBegin = [&](int64_t segment) -> std::optional<int64_t> {
    if (segment == 0 || segment > *extent)
      return segment == 0 ? 0 : length;
    positions->back() = segment - 1;
    std::optional<int64_t> element = getInteger(read(op.getSorted(), *positions));
    return element ? std::optional(std::max<int64_t>(std::min(*element, length), 0)) : std::nullopt;
  };
  for (int64_t step = llvm::bit_floor(uint64_t(*extent)); step > 0; step /= 2) {
    std::optional<int64_t> begin = getBegin(std::min(segment + step, *extent));
    if (!begin)
      return std::nullopt;
    if (segment + step <= *extent && *begin / size + segment + step <= tile)
      segment += step;
  }
  std::optional<int64_t> begin = getBegin(segment), end = getBegin(segment + 1);
  return begin && end ? std::optional(Segment{segment, *begin, *end}) : std::nullopt;
}

/// The segment is found by a search, which ascends with the tile's number.
std::optional<Line> LineEvaluator::computeSegmentTile(flash::SegmentTileOp op, unsigned result) {
  std::optional<Line> tile = get(op.getTile());
  std::optional<int64_t> length = tile ? getNumber(get(op.getLength())) : std::nullopt;
  if (!length)
    return std::nullopt;
  Range range = getRange(*tile);
  std::optional<Segment> first = findSegment(op, *length, range.low);
  std::optional<Segment> last = range.low == range.high ? first : findSegment(op, *length, range.high);
  if (!first || !last)
    return std::nullopt;
  if (first->number == last->number)
    return placeTile(op, *tile, *first, *length, result);
  splitInHalves();
  return std::nullopt;
}

/// Of tiles of one segment.
std::optional<Line> LineEvaluator::placeTile(flash::SegmentTileOp op, const Line &tile, const Segment &segment,
                                             int64_t length, unsigned result) {
  if (result == 2)
    return Line{segment.number};
  int64_t size = op.getTileSize(), firstTile = segment.begin / size + segment.number;
  std::optional<Line> begin = add(Line{segment.begin - firstTile * size}, tile, size);
  begin = begin ? getLesser(*begin, Line{segment.end}, /*isGreater=*/false) : std::nullopt;
  if (!begin)
    return std::nullopt;
  if (result == 1) {
    std::optional<Line> left = add(Line{segment.end}, *begin, -1);
    return left ? getLesser(*left, Line{size}, /*isGreater=*/false) : std::nullopt;
  }
  begin = getLesser(*begin, Line{length - 1}, /*isGreater=*/false);
  return begin ? getLesser(*begin, Line{0}, /*isGreater=*/true) : std::nullopt;
}

//===--------------------------------------------------------------------------------------------------------------===//
// Tables
//===--------------------------------------------------------------------------------------------------------------===//

std::optional<Line> LineEvaluator::computeRow(flash::RowTableOp op, ArrayRef<Line> place) {
  LineEvaluator inside(*this);
  inside.known.clear();
  for (auto [argument, position] : llvm::zip_equal(op.getBody().getArguments(), place))
    inside.arguments[argument] = position;
  std::optional<Line> value = inside.get(op.getValue());
  split = inside.split;
  unknown = inside.unknown;
  return value;
}

std::optional<std::array<int64_t, 2>> LineEvaluator::runTile(flash::TileRangeOp op, ArrayRef<int64_t> operands) {
  int64_t first = operands[2], end = std::min<int64_t>(first + op.getTile(), operands[3]);
  bool isFlag = op.getValue().getType().isInteger(1);
  std::array<int64_t, 2> ends{std::numeric_limits<int64_t>::max(), std::numeric_limits<int64_t>::min()};
  LineEvaluator inside(*this);
  for (int64_t position = first; position < end; ++position) {
    int64_t place[] = {operands[0], operands[1], position};
    for (auto [argument, number] : llvm::zip_equal(op.getBody().getArguments(), place))
      inside.setCounter(argument, number);
    std::optional<int64_t> value = inside.getNumber(inside.get(op.getValue()));
    split = inside.split;
    unknown = inside.unknown;
    if (!value)
      return std::nullopt;
    int64_t number = isFlag ? *value != 0 : *value;
    ends = {std::min(ends[0], number), std::max(ends[1], number)};
  }
  return ends;
}

/// By halves, which are asked about again and again.
std::optional<std::array<int64_t, 2>> LineEvaluator::findEnds(flash::TileRangeOp op, ArrayRef<int64_t> operands,
                                                              int64_t last) {
  std::pair<Tables::Place, int64_t> stretch{{op, operands.vec()}, last};
  if (auto found = tables->ends.find(stretch); found != tables->ends.end())
    return found->second;
  int64_t first = operands[2], tile = op.getTile();
  std::optional<std::array<int64_t, 2>> ends;
  if (first == last) {
    ends = runTile(op, operands);
  } else {
    SmallVector<int64_t, 4> behind(operands);
    behind[2] = first + ((last - first) / tile / 2 + 1) * tile;
    auto front = findEnds(op, operands, behind[2] - tile), back = front ? findEnds(op, behind, last) : std::nullopt;
    if (back)
      ends = {std::min((*front)[0], (*back)[0]), std::max((*front)[1], (*back)[1])};
  }
  if (ends)
    tables->ends[stretch] = *ends;
  return ends;
}

std::optional<Line> LineEvaluator::computeTileRange(flash::TileRangeOp op, unsigned result) {
  auto operands = getNumbers(op->getOperands());
  auto ends = operands ? findEnds(op, *operands, (*operands)[2]) : std::nullopt;
  return ends ? std::optional(Line{(*ends)[result]}) : std::nullopt;
}

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
  last[3] = key + kvTile;
  if (!isFull)
    return;
  rowBegin = rowEnd == key ? rowBegin : key;
  rowEnd = key + kvTile;
  if (rowEnd - rowBegin > last[2] - last[1])
    last[1] = rowBegin, last[2] = rowEnd;
}

/// What is known without running the mask: a tile that would be run counts as one with the mask.
std::optional<int64_t> LineEvaluator::readKnownClass(flash::TileClassesOp op, ArrayRef<int64_t> place) {
  LineEvaluator inside(*this);
  Block &body = op.getKnown().front();
  int64_t steps[] = {1, 1, int64_t(op.getQTile()), int64_t(op.getKvTile())};
  for (auto [argument, position, step] : llvm::zip_equal(body.getArguments(), place, steps))
    inside.setCounter(argument, position * step);
  std::optional<int64_t> known = inside.getNumber(inside.get(cast<flash::YieldOp>(body.getTerminator()).getValue()));
  split = inside.split;
  unknown = inside.unknown;
  return known;
}

std::optional<int64_t> LineEvaluator::readRuns(flash::TileRunsOp op, ArrayRef<int64_t> place) {
  Tables::Place tile{op, std::vector<int64_t>(place.begin(), place.begin() + 3)};
  if (auto found = tables->runs.find(tile); found != tables->runs.end())
    return found->second.get(place[3], place[4]);
  LineEvaluator row(*this);
  Block &body = op.getBody().front();
  for (auto [argument, value] : llvm::zip(body.getArguments().take_front(2), place))
    row.setCounter(argument, value);
  row.setCounter(op.getResidentArgument(), place[2] * op.getResidentTile());
  LineEvaluator single(row);
  KeyRanges stretches(op, row);
  std::optional<int64_t> end = getNumber(get(op.getStreamed()));
  TileRunList runs(op.getNumRuns(), op.getStreamedTile());
  SmallVector<std::array<int64_t, 2>> todo; // stretches of tiles, in descending order
  if (end && *end > 0)
    todo.push_back({0, llvm::divideCeilSigned(*end, op.getStreamedTile()) - 1});
  while (!todo.empty()) {
    auto [first, last] = todo.pop_back_val();
    std::optional<int64_t> visit = stretches.getAnswer(first, last);
    if (!visit && first < last) {
      int64_t middle = (first + last) / 2;
      todo.append({{middle + 1, last}, {first, middle}});
      continue;
    }
    if (!visit) {
      single.setCounter(op.getStreamedArgument(), first * op.getStreamedTile());
      visit = single.getNumber(single.get(cast<flash::YieldOp>(body.getTerminator()).getValue()));
      split = single.split;
      unknown = single.unknown;
      if (!visit)
        return std::nullopt;
    }
    for (int64_t tile = first; *visit > 0 && tile <= last; ++tile)
      runs.visit(tile * op.getStreamedTile(), *visit == 2);
  }
  if (!end)
    return std::nullopt;
  return tables->runs.emplace(tile, runs).first->second.get(place[3], place[4]);
}
