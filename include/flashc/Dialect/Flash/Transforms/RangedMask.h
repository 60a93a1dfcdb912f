//===- RangedMask.h - masks that are evaluated at run time --------------------------------------------------------===//
#ifndef FLASHC_DIALECT_FLASH_TRANSFORMS_RANGEDMASK_H
#define FLASHC_DIALECT_FLASH_TRANSFORMS_RANGEDMASK_H

#include "flashc/Dialect/Flash/IR/Flash.h"
#include "mlir/IR/IRMapping.h"

namespace mlir::flash {

/// The runs of streamed tiles to be visited for a mask whose bounds are not exact. A flash.tile_runs before all loops
/// computes them from the classes of tiles. A flash.tile_classes computes the classes: from the ranges of positions and
/// of arrays in each tile, and by running the mask on tiles that these leave undecided. The destructor erases the ops
/// if they are unused.
class RangedMask {
public:
  /// Creates the tables of `op`. Null if the loops around `op` do not go over tiles from 0, or the mask needs values
  /// that only these loops have. `mask` is the mask region of `op`, which may have been moved out of it.
  static std::unique_ptr<RangedMask> create(StepOpInterface op, Region &mask);
  ~RangedMask();
  RangedMask(const RangedMask &) = delete;

  /// The arrays whose ranges in a tile the classes are computed from.
  ArrayRef<Value> getArrays() const { return arrays; }

  /// Also skips tiles outside of `ranges` of the streamed dimension, which are computed before the loop over it, for
  /// the resident tile. Does nothing if the ranges depend on values that are not known outside of the loops.
  void restrictTo(ArrayRef<std::pair<OpFoldResult, OpFoldResult>> ranges);

  /// Reads the four ends of each run (see flash.tile_runs) before the streamed loop, as indices. Keeps the table.
  SmallVector<OpFoldResult> emitRuns();

private:
  RangedMask(StepOpInterface op, Operation *anchor) : op(op), anchor(anchor) {}
  bool emitClasses(Region &mask);
  bool copyMask(Region &mask);
  void emitTable();
  Value copyIntoTable(OpBuilder &b, Value value, IRMapping &mapping);

  bool isDual() { return op.getStreamedDim() == StepDim::I; }

  StepOpInterface op;
  /// The op before which the tables are created.
  Operation *anchor;
  TileClassesOp classes;
  TileRunsOp table;
  SmallVector<Value> arrays;
};

} // namespace mlir::flash

#endif // FLASHC_DIALECT_FLASH_TRANSFORMS_RANGEDMASK_H
