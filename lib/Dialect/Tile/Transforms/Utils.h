//===- Utils.h - functions that the schedule passes share ---------------------------------------------------------===//
#ifndef FLASHC_LIB_DIALECT_TILE_TRANSFORMS_UTILS_H
#define FLASHC_LIB_DIALECT_TILE_TRANSFORMS_UTILS_H

#include "flashc/Dialect/Tile/IR/ScalarCode.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

namespace mlir::tile {

/// Returns the tile.draw in `loop` that fetches the work tile of the next iteration, or null.
DrawOp findDraw(scf::ForOp loop);
/// The numbers of the iter_args that carry results of a tile.draw.
SmallVector<unsigned> getDrawnArgs(scf::ForOp loop);

/// Delays a release in a loop whose body has two products in flight at once, and releases the first product's slot
/// right after the wait for it. Moves the release to the wait for the second product. Lets the release depend on
/// `elements` of the exponentials between the two waits, so that ptxas leaves the second wait after them. Returns
/// whether the loop has this form.
bool delayRelease(scf::ForOp loop, int64_t elements);

/// Returns the schedule of the kernel around `program`. Emits an error and fails if there is none.
FailureOr<ScheduleAttr> getSchedule(Operation *program);

} // namespace mlir::tile

#endif // FLASHC_LIB_DIALECT_TILE_TRANSFORMS_UTILS_H
