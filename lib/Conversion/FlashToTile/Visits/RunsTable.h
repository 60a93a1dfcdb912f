//===- RunsTable.h - the runs of a tile of queries as a kernel reads them -----------------------------------------===//
#ifndef FLASHC_LIB_CONVERSION_FLASHTOTILE_RUNSTABLE_H
#define FLASHC_LIB_CONVERSION_FLASHTOTILE_RUNSTABLE_H

#include "LoopNest.h"

namespace flashc {

/// A row of the table that stands for a flash.tile_runs in the workspace, in i32. It numbers the visits as `Visits`
/// does: first those of masked tiles, then those of full ones, each from the last key to the first. The tiles between
/// two keys of the op are a piece; visit u lies in the last piece that begins at u or before, and its first key is the
/// piece's key less u tiles. So a kernel keeps no piece in registers, of which the producer has few.
///
///   masked visits | all visits | where each piece begins | the key of each piece
struct RunsRow {
  int64_t numRuns;

  /// Of run R - 1 the tiles behind the full ones and those in front of them, then of run R - 2, ...; then the full
  /// ones.
  int64_t getNumMasked() const { return 2 * numRuns; }
  int64_t getNumPieces() const { return 3 * numRuns; }

  static constexpr int64_t kMaskedVisits = 0, kVisits = 1;
  int64_t getBegin(int64_t piece) const { return 2 + piece; }
  int64_t getKey(int64_t piece) const { return 2 + getNumPieces() + piece; }
  int64_t size() const { return 2 + 2 * getNumPieces(); }
};

/// Finds the table that the nest's segments are read from. If one is of a run, all must be: of each run in order the
/// tiles in front of the full ones, these, and those behind. Emits an error and fails otherwise.
mlir::LogicalResult matchRuns(LoopNest &nest);

} // namespace flashc

#endif // FLASHC_LIB_CONVERSION_FLASHTOTILE_RUNSTABLE_H
