//===- TileMap.cpp - which tiles the loops skip, mask and compute as they are -------------------------------------===//
// LoopRunner.cpp runs the loops that fill a map.
//===--------------------------------------------------------------------------------------------------------------===//

#include "flashc/Analysis/TileMap.h"

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

TileMap::TileMap(const TileGrid &grid, bool variesByBatch, bool variesByHead, int64_t rowStep)
    : grid(grid), variesByBatch(variesByBatch), variesByHead(variesByHead), rowStep(rowStep) {
  rows.resize(getNumBatches() * getNumHeads() * getKnownRows());
}

size_t TileMap::getFirst(int64_t batch, int64_t head) const {
  int64_t map = (variesByBatch ? batch : 0) * getNumHeads() + (variesByHead ? head : 0);
  return map * getKnownRows();
}

ArrayRef<TileMap::Row> TileMap::getMap(int64_t batch, int64_t head) const {
  return ArrayRef(rows).slice(getFirst(batch, head), getKnownRows());
}

bool TileMap::add(int64_t batch, int64_t head, int64_t row, const TileStretch &tiles) {
  Row &known = rows[getFirst(batch, head) + (row - getFirstRow()) / rowStep];
  auto isShared = [&](const TileStretch &other) { return tiles.begin < other.end && other.begin < tiles.end; };
  if (llvm::any_of(known, isShared))
    return false;
  if (!known.empty() && known.back().end == tiles.begin && known.back().tileClass == tiles.tileClass)
    known.back().end = tiles.end;
  else
    known.push_back(tiles);
  return true;
}

TileCounts TileMap::count(int64_t batch, int64_t head) const {
  TileCounts counts;
  for (const Row &row : getMap(batch, head))
    for (const TileStretch &tiles : row)
      (tiles.tileClass == TileClass::Full ? counts.full : counts.partial) += tiles.end - tiles.begin;
  for (DynamicAPInt *count : {&counts.partial, &counts.full})
    *count = *count * grid.getRows() / getKnownRows();
  counts.skipped = DynamicAPInt(grid.getRows()) * grid.getColumns() - counts.partial - counts.full;
  return counts;
}

TileCounts TileMap::count() const {
  TileCounts counts;
  for (int64_t batch = 0; batch < getNumBatches(); ++batch)
    for (int64_t head = 0; head < getNumHeads(); ++head)
      counts += count(batch, head);
  return counts * (grid.batch / getNumBatches()) * (grid.heads / getNumHeads());
}

std::vector<TileClass> TileMap::getTiles(int64_t batch, int64_t head) const {
  std::vector<TileClass> tiles(grid.getRows() * grid.getColumns(), TileClass::Skipped);
  for (auto [number, row] : llvm::enumerate(getMap(batch, head)))
    for (const TileStretch &stretch : row) {
      auto first = tiles.begin() + number * grid.getColumns();
      std::fill(first + stretch.begin, first + stretch.end, stretch.tileClass);
    }
  return tiles;
}
