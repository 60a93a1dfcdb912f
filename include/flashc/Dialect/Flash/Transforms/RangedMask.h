//===- RangedMask.h - a mask over any data, by its range in each tile ---------------------------------------------===//
#ifndef FLASHC_DIALECT_FLASH_TRANSFORMS_RANGEDMASK_H
#define FLASHC_DIALECT_FLASH_TRANSFORMS_RANGEDMASK_H

#include "flashc/Dialect/Flash/IR/Flash.h"
#include "mlir/IR/IRMapping.h"

namespace mlir::flash {

/// The runs of streamed tiles that a mask visits which bounds do not say it all of: which ones, a flash.tile_runs in
/// front of all loops says, from the classes of tiles. Those a flash.tile_classes finds by running the mask, where the
/// ranges of positions, and of arrays in each tile, leave a tile open. Erased when it dies, unless it has been kept.
class RangedMask {
public:
  /// Null where the loops around `op` do not go over tiles from 0, or the mask needs what only they know. `mask` is the
  /// op's region, wherever it is now.
  static std::unique_ptr<RangedMask> create(StepOpInterface op, Region &mask);
  ~RangedMask();
  RangedMask(const RangedMask &) = delete;

  /// The arrays whose ranges in a tile say something about it.
  ArrayRef<Value> getArrays() const { return arrays; }

  /// Skips what lies outside of these stretches of the streamed dimension, too: computed in front of the loop over it,
  /// for the resident tile. Does nothing where they hang on what is not known outside.
  void restrictTo(ArrayRef<std::pair<OpFoldResult, OpFoldResult>> stretches);

  /// The four ends of each run (see flash.tile_runs), in front of the streamed loop, as indices. The table stays.
  SmallVector<OpFoldResult> emitRuns();

private:
  RangedMask(StepOpInterface op, Operation *anchor) : op(op), anchor(anchor) {}
  bool emitClasses(Region &mask);
  bool copyMask(Region &mask);
  void emitTable();
  Value copyIntoTable(OpBuilder &b, Value value, IRMapping &mapping);

  bool isDual() { return op.getStreamedDim() == StepDim::I; }

  StepOpInterface op;
  /// In front of it the tables stand.
  Operation *anchor;
  TileClassesOp classes;
  TileRunsOp table;
  SmallVector<Value> arrays;
};

} // namespace mlir::flash

#endif // FLASHC_DIALECT_FLASH_TRANSFORMS_RANGEDMASK_H
