//===- RangedMask.h - a mask over any data, by its range in each tile ---------------------------------------------===//
#ifndef FLASHC_DIALECT_FLASH_TRANSFORMS_RANGEDMASK_H
#define FLASHC_DIALECT_FLASH_TRANSFORMS_RANGEDMASK_H

#include "flashc/Dialect/Flash/IR/Flash.h"
#include "mlir/IR/IRMapping.h"

namespace mlir::flash {

/// The runs of key tiles that a mask over arrays visits: which ones, a flash.tile_runs in front of all loops says, from
/// the least and the greatest element of each tile. Erased when it dies, unless it has been kept.
class RangedMask {
public:
  /// Null where the mask reads no array at the position of the query or of the key in a way that says something about a
  /// tile, or the loops around `op` do not go over tiles from 0. `mask` is the op's region, wherever it is now.
  static std::unique_ptr<RangedMask> create(OnlineAttentionOp op, Region &mask);
  ~RangedMask();
  RangedMask(const RangedMask &) = delete;

  /// The arrays whose elements decide.
  ArrayRef<Value> getArrays() const { return arrays; }

  /// Skips what lies outside of these stretches of keys, too: computed in front of the loop over keys, for its tile of
  /// queries. Does nothing where they hang on what is not known outside.
  void restrictTo(ArrayRef<std::pair<OpFoldResult, OpFoldResult>> stretches);

  /// The four keys of each run (see flash.tile_runs), in front of the loop over keys, as indices. The table stays.
  SmallVector<OpFoldResult> emitRuns();

private:
  RangedMask(OnlineAttentionOp op, Operation *anchor) : op(op), anchor(anchor) {}
  bool emitTable(Region &mask);
  Value copyIntoTable(OpBuilder &b, Value value, IRMapping &mapping);

  OnlineAttentionOp op;
  /// In front of it the tables stand.
  Operation *anchor;
  TileRunsOp table;
  SmallVector<Value> arrays;
};

} // namespace mlir::flash

#endif // FLASHC_DIALECT_FLASH_TRANSFORMS_RANGEDMASK_H
