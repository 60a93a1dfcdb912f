//===- RunsTable.h - the runs of a tile of queries as a kernel reads them -----------------------------------------===//
#ifndef FLASHC_LIB_CONVERSION_FLASHTOTILE_RUNSTABLE_H
#define FLASHC_LIB_CONVERSION_FLASHTOTILE_RUNSTABLE_H

#include "LoopNest.h"

namespace flashc {

/// Finds the table that the nest's segments are read from. If one is of a run, all must be: of each run in order the
/// tiles in front of the full ones, these, and those behind. Emits an error and fails otherwise.
mlir::LogicalResult matchRuns(LoopNest &nest);

} // namespace flashc

#endif // FLASHC_LIB_CONVERSION_FLASHTOTILE_RUNSTABLE_H
