//===- Utils.h - functions that the schedule passes share ---------------------------------------------------------===//
#ifndef FLASHC_LIB_DIALECT_TILE_TRANSFORMS_UTILS_H
#define FLASHC_LIB_DIALECT_TILE_TRANSFORMS_UTILS_H

#include "flashc/Dialect/Tile/IR/ScalarCode.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

namespace mlir::tile {

/// Returns the tile.draw in `loop` that fetches the work tile of the next iteration. Null if there is none.
DrawOp findDraw(scf::ForOp loop);
/// Returns the numbers of the iter_args of `loop` that carry results of a tile.draw.
SmallVector<unsigned> getDrawnArgs(scf::ForOp loop);

/// If the body of `loop` has two products in flight at once, and exponentials between their waits, delays the release
/// of the first product's slot from the first wait to the second one. The release then depends on `elements` of the
/// exponentials of each thread. So ptxas leaves the second wait after the exponentials. Returns whether the loop has
/// this form.
bool delayRelease(scf::ForOp loop, int64_t elements);

/// Returns the schedule of the kernel around `program`. Emits an error and fails if there is none.
FailureOr<ScheduleAttr> getSchedule(Operation *program);

} // namespace mlir::tile

#endif // FLASHC_LIB_DIALECT_TILE_TRANSFORMS_UTILS_H
