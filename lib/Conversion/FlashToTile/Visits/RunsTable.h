//===- RunsTable.h - the runs of a tile of queries as a kernel reads them -----------------------------------------===//
#ifndef FLASHC_LIB_CONVERSION_FLASHTOTILE_RUNSTABLE_H
#define FLASHC_LIB_CONVERSION_FLASHTOTILE_RUNSTABLE_H

#include "LoopNest.h"

namespace flashc {

/// Finds the table from which the nest's segments are read. If one segment is of a run, all must be: for each run in
/// order, the tiles before its full ones, the full ones, and the tiles after them. Emits an error and fails otherwise.
mlir::LogicalResult matchRuns(LoopNest &nest);

} // namespace flashc

#endif // FLASHC_LIB_CONVERSION_FLASHTOTILE_RUNSTABLE_H
