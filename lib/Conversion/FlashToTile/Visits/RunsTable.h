//===- RunsTable.h - the runs of a tile of queries as a kernel reads them -----------------------------------------===//
#ifndef FLASHC_LIB_CONVERSION_FLASHTOTILE_RUNSTABLE_H
#define FLASHC_LIB_CONVERSION_FLASHTOTILE_RUNSTABLE_H

#include "LoopNest.h"

namespace flashc {

/// Finds the table from which the nest's segments are read. If one segment is read from a table, all must be. Each run
/// must have three segments, in this order: the tiles before its full ones, the full ones, and the tiles after them.
/// Emits an error and fails otherwise.
mlir::LogicalResult matchRuns(LoopNest &nest);

} // namespace flashc

#endif // FLASHC_LIB_CONVERSION_FLASHTOTILE_RUNSTABLE_H
