//===- TileRunList.cpp - the runs of flash.tile_runs, in numbers --------------------------------------------------===//

#include "TileRunList.h"

using namespace flashc;

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
