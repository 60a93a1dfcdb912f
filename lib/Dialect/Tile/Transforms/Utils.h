//===- Utils.h - what the schedule passes share -------------------------------------------------------------------===//
#ifndef FLASHC_LIB_DIALECT_TILE_TRANSFORMS_UTILS_H
#define FLASHC_LIB_DIALECT_TILE_TRANSFORMS_UTILS_H

#include "flashc/Dialect/Tile/IR/ScalarCode.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

namespace mlir::tile {

/// The tile.draw that says what the next iteration of `loop` works on, or null.
DrawOp findDraw(scf::ForOp loop);
/// The iter_args that carry what has been drawn, by their numbers.
SmallVector<unsigned> getDrawnArgs(scf::ForOp loop);

/// In a loop whose body has two products in flight at once, the first one's slot is released right behind its wait.
/// Moves the release to the wait for the other product, and ties it to `elements` of the exponentials between them, so
/// that ptxas leaves that wait behind them. Returns whether it has found all that.
bool delayRelease(scf::ForOp loop, int64_t elements);

/// The schedule of the kernel that `program` is the body of. Emits an error and fails if there is none.
FailureOr<ScheduleAttr> getSchedule(Operation *program);

} // namespace mlir::tile

#endif // FLASHC_LIB_DIALECT_TILE_TRANSFORMS_UTILS_H
