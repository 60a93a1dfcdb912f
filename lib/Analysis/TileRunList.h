//===- TileRunList.h - the runs of flash.tile_runs, in numbers ----------------------------------------------------===//
#ifndef FLASHC_LIB_ANALYSIS_TILERUNLIST_H
#define FLASHC_LIB_ANALYSIS_TILERUNLIST_H

#include "llvm/ADT/SmallVector.h"

#include <array>
#include <cstdint>

namespace flashc {

/// What RunsBuilder computes in a program (Dialect/Flash/IR/TileTables.h), of one tile of queries.
class TileRunList {
public:
  TileRunList(int64_t numRuns, int64_t kvTile) : runs(numRuns, Run{0, 0, 0, 0}), kvTile(kvTile) {}

  /// Another tile that is visited; they ascend.
  void visit(int64_t key, bool isFull);

  /// `field` says which of begin, full_begin, full_end, end.
  int64_t get(int64_t run, int64_t field) const { return runs[run][field]; }

private:
  using Run = std::array<int64_t, 4>;

  llvm::SmallVector<Run, 8> runs;
  int64_t kvTile, rowBegin = 0, rowEnd = 0;
};

} // namespace flashc

#endif // FLASHC_LIB_ANALYSIS_TILERUNLIST_H
