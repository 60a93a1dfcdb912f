//===- TileMap.cpp - which tiles the loops skip, mask and compute as they are -------------------------------------===//
//
// The loops that fill a map are run in LoopRunner.cpp.
//
//===--------------------------------------------------------------------------------------------------------------===//

#include "flashc/Analysis/TileMap.h"

#include <numeric>

using namespace mlir;
using namespace flashc;
using llvm::DynamicAPInt;

TileCounts &TileCounts::operator+=(const TileCounts &other) {
  skipped += other.skipped;
  partial += other.partial;
  full += other.full;
  return *this;
}

TileCounts TileCounts::operator*(int64_t times) const { return {skipped * times, partial * times, full * times}; }

bool TileCounts::operator==(const TileCounts &other) const {
  return skipped == other.skipped && partial == other.partial && full == other.full;
}

DynamicAPInt TilePatch::count() const {
  DynamicAPInt number(rows);
  return number * width + number * (number - 1) / 2 * widthStep;
}

TileMap::TileMap(const TileGrid &grid, bool variesByBatch, bool variesByHead)
    : grid(grid), variesByBatch(variesByBatch), variesByHead(variesByHead) {
  patches.resize((variesByBatch ? grid.batch : 1) * (variesByHead ? grid.heads : 1));
}

size_t TileMap::getIndex(int64_t batch, int64_t head) const {
  return (variesByBatch ? batch : 0) * (variesByHead ? grid.heads : 1) + (variesByHead ? head : 0);
}

//===--------------------------------------------------------------------------------------------------------------===//
// Counts
//===--------------------------------------------------------------------------------------------------------------===//

TileCounts TileMap::count(int64_t batch, int64_t head) const {
  TileCounts counts;
  for (const TilePatch &patch : getPatches(batch, head))
    (patch.tileClass == TileClass::Full ? counts.full : counts.partial) += patch.count();
  counts.skipped = DynamicAPInt(grid.getRows()) * grid.getColumns() - counts.partial - counts.full;
  return counts;
}

TileCounts TileMap::count() const {
  TileCounts counts;
  for (int64_t batch = 0; batch < (variesByBatch ? grid.batch : 1); ++batch)
    for (int64_t head = 0; head < (variesByHead ? grid.heads : 1); ++head)
      counts += count(batch, head);
  return counts * (variesByBatch ? 1 : grid.batch) * (variesByHead ? 1 : grid.heads);
}

//===--------------------------------------------------------------------------------------------------------------===//
// Tiles of two patches
//===--------------------------------------------------------------------------------------------------------------===//

static bool mayShareColumns(const TilePatch &a, const TilePatch &b) {
  auto getEnds = [](const TilePatch &patch) {
    int64_t last = patch.rows - 1;
    return std::array{std::min(patch.getBegin(0), patch.getBegin(last)), std::max(patch.getEnd(0), patch.getEnd(last))};
  };
  auto [beginA, endA] = getEnds(a);
  auto [beginB, endB] = getEnds(b);
  return beginA < endB && beginB < endA;
}

static bool mayShareRows(const TilePatch &a, const TilePatch &b) {
  return a.row <= b.getRow(b.rows - 1) && b.row <= a.getRow(a.rows - 1) &&
         (a.row - b.row) % std::gcd(a.rowStep, b.rowStep) == 0;
}

/// Whether one lies in front of the other in its first row and its last, and so in all of them.
static bool isInFrontOf(const TilePatch &a, const TilePatch &b) {
  bool sameRows = a.row == b.row && a.rows == b.rows && (a.rowStep == b.rowStep || a.rows == 1);
  return sameRows && a.getEnd(0) <= b.getBegin(0) && a.getEnd(a.rows - 1) <= b.getBegin(b.rows - 1);
}

static std::optional<std::array<int64_t, 2>> findShared(const TilePatch &a, const TilePatch &b) {
  if (!mayShareRows(a, b) || !mayShareColumns(a, b) || isInFrontOf(a, b) || isInFrontOf(b, a))
    return std::nullopt;
  for (int64_t k = 0; k < a.rows; ++k) {
    int64_t distance = a.getRow(k) - b.row, other = distance / b.rowStep;
    if (distance < 0 || distance % b.rowStep || other >= b.rows)
      continue;
    int64_t column = std::max(a.getBegin(k), b.getBegin(other));
    if (column < std::min(a.getEnd(k), b.getEnd(other)))
      return std::array{a.getRow(k), column};
  }
  return std::nullopt;
}

std::optional<std::array<int64_t, 2>> TileMap::findSharedTile() const {
  for (std::vector<TilePatch> map : patches) {
    llvm::stable_sort(map, [](const TilePatch &a, const TilePatch &b) { return a.row < b.row; });
    SmallVector<const TilePatch *> open; // those that may have rows that come
    for (const TilePatch &patch : map) {
      llvm::erase_if(open, [&](const TilePatch *other) { return other->getRow(other->rows - 1) < patch.row; });
      for (const TilePatch *other : open)
        if (auto shared = findShared(patch, *other))
          return shared;
      open.push_back(&patch);
    }
  }
  return std::nullopt;
}

//===--------------------------------------------------------------------------------------------------------------===//
// Tiles, and blocks of them
//===--------------------------------------------------------------------------------------------------------------===//

std::vector<TileClass> TileMap::getTiles(int64_t batch, int64_t head) const {
  std::vector<TileClass> tiles(grid.getRows() * grid.getColumns(), TileClass::Skipped);
  for (const TilePatch &patch : getPatches(batch, head))
    for (int64_t k = 0; k < patch.rows; ++k) {
      auto line = tiles.begin() + patch.getRow(k) * grid.getColumns();
      std::fill(line + patch.getBegin(k), line + patch.getEnd(k), patch.tileClass);
    }
  return tiles;
}

namespace {

/// How many tiles of each block are visited. Sums along rows come last: until then, an element is how much its block
/// has more than the one in front.
class BlockCounts {
public:
  BlockCounts(const TileGrid &grid, int64_t side)
      : side(side), width(llvm::divideCeil(grid.getColumns(), side) + 1),
        changes(llvm::divideCeil(grid.getRows(), side) * width) {}

  /// The tiles from `begin` to `end` in a row of tiles.
  void add(int64_t row, int64_t begin, int64_t end);
  void sum();
  int64_t get(int64_t row, int64_t column) const { return changes[row * width + column]; }

private:
  int64_t side, width;
  std::vector<int64_t> changes;
};

} // namespace

void BlockCounts::add(int64_t row, int64_t begin, int64_t end) {
  if (begin == end)
    return;
  int64_t *line = &changes[row / side * width];
  int64_t first = begin / side, last = (end - 1) / side;
  auto addTo = [&](int64_t from, int64_t to, int64_t count) {
    line[from] += count;
    line[to] -= count;
  };
  if (first == last)
    return addTo(first, first + 1, end - begin);
  addTo(first, first + 1, (first + 1) * side - begin);
  addTo(first + 1, last, side);
  addTo(last, last + 1, end - last * side);
}

void BlockCounts::sum() {
  for (auto line = changes.begin(); line != changes.end(); line += width)
    std::partial_sum(line, line + width, line);
}

std::vector<TileClass> TileMap::getBlocks(int64_t batch, int64_t head, int64_t side) const {
  BlockCounts visited(grid, side), full(grid, side);
  for (const TilePatch &patch : getPatches(batch, head))
    for (int64_t k = 0; k < patch.rows; ++k) {
      visited.add(patch.getRow(k), patch.getBegin(k), patch.getEnd(k));
      if (patch.tileClass == TileClass::Full)
        full.add(patch.getRow(k), patch.getBegin(k), patch.getEnd(k));
    }
  visited.sum();
  full.sum();
  std::vector<TileClass> classes;
  for (int64_t row = 0; row < grid.getRows(); row += side)
    for (int64_t column = 0; column < grid.getColumns(); column += side) {
      int64_t tiles = std::min(side, grid.getRows() - row) * std::min(side, grid.getColumns() - column);
      int64_t y = row / side, x = column / side;
      classes.push_back(visited.get(y, x) == 0    ? TileClass::Skipped
                        : full.get(y, x) == tiles ? TileClass::Full
                                                  : TileClass::Partial);
    }
  return classes;
}
