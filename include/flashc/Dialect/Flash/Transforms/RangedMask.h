//===- RangedMask.h - masks that are evaluated at run time --------------------------------------------------------===//
#ifndef FLASHC_DIALECT_FLASH_TRANSFORMS_RANGEDMASK_H
#define FLASHC_DIALECT_FLASH_TRANSFORMS_RANGEDMASK_H

#include "flashc/Dialect/Flash/IR/Flash.h"
#include "mlir/IR/IRMapping.h"

namespace mlir::flash {

/// Computes the runs of streamed tiles that are visited, for a mask whose bounds are not exact. A flash.tile_classes,
/// before all loops, computes the class of each tile from the ranges that positions and elements of arrays have in the
/// tile. Where the ranges do not decide the class, the flash.tile_classes runs the mask on the tile. A flash.tile_runs
/// then computes the runs from the classes. The destructor erases the flash.tile_classes if it is unused.
class RangedMask {
public:
  /// Creates the tables of `op`. Null if the loops around `op` do not go over tiles from 0 on, or if the mask needs a
  /// value that is computed inside of these loops. `mask` is the mask region of `op`; a SearchedMask may hold it in
  /// place of `op`.
  static std::unique_ptr<RangedMask> create(StepOpInterface op, Region &mask);
  ~RangedMask();
  RangedMask(const RangedMask &) = delete;

  /// The arrays whose elements help to decide the classes of tiles, by their ranges in each tile.
  ArrayRef<Value> getArrays() const { return arrays; }

  /// Makes the op skip the tiles outside of `ranges`, too. These are ranges of streamed positions for the resident
  /// tile. The code that computes them is before the loop over the streamed dimension. Does nothing if a range depends
  /// on values that are not known outside of the loops.
  void restrictTo(ArrayRef<std::pair<OpFoldResult, OpFoldResult>> ranges);

  /// Emits the table of runs. Before the streamed loop, emits reads of the four keys of each run (see flash.tile_runs),
  /// and returns the results of these reads as indices. After that the destructor keeps the tables.
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
