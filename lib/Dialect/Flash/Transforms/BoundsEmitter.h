//===- BoundsEmitter.h - bounds of loops as values ----------------------------------------------------------------===//
#ifndef FLASHC_LIB_DIALECT_FLASH_TRANSFORMS_BOUNDSEMITTER_H
#define FLASHC_LIB_DIALECT_FLASH_TRANSFORMS_BOUNDSEMITTER_H

#include "KeySegments.h"
#include "mlir/IR/IRMapping.h"

namespace mlir::flash {

/// Emits the expressions of LoopBounds as IR.
class BoundsEmitter {
public:
  BoundsEmitter(StepOpInterface op, const KeyRange &range, const LoopBounds &bounds);

protected:
  static bool isSame(OpFoldResult x, OpFoldResult y);

  AffineExpr symbol(unsigned position) const;

  /// Whether the tile of queries may have no query, as a tile of flash.segment_tile may.
  bool mayHaveNoQuery() const;

  /// Returns the loop's end, rounded to where a tile ends: to the loop's begin plus a multiple of the tile size. Rounds
  /// up with `isCeil`, else down.
  AffineExpr getEnd(bool isCeil) const;

  /// Rounds `position` to `begin` plus a multiple of the tile size. Rounds up with `isCeil`, else down.
  OpFoldResult roundFrom(OpFoldResult begin, OpFoldResult position, bool isCeil);

  /// Returns the minimum of `exprs` if `isMin`, else their maximum.
  OpFoldResult reduce(ArrayRef<AffineExpr> exprs, bool isMin);
  OpFoldResult clamp(OpFoldResult value, OpFoldResult limit, bool isMin);

  /// Returns `value` if all `conditions` are >= 0, else `otherwise`.
  OpFoldResult unless(ArrayRef<AffineExpr> conditions, OpFoldResult value, OpFoldResult otherwise);

  /// Returns `end`, limited to `begin` plus (room + 1) tiles for each room of the interval (`TileInterval::rooms`).
  OpFoldResult clampRooms(const TileInterval &interval, OpFoldResult begin, OpFoldResult end);

  const LoopBounds &bounds;
  /// The values of the symbols that the expressions of `bounds` use.
  SmallVector<OpFoldResult> symbols;

private:
  void mapRows(Value first);
  Value hoist(Value value, IRMapping &mapping);
  Value makeIndex(Value value);

  StepOpInterface op;
  OpBuilder b;
  Location loc;
  bool mayBeEmpty;
  /// Maps values of the mask region to their copies outside of the region: one mapping for each MaskSpace::At.
  IRMapping hoisted[3];
};

} // namespace mlir::flash

#endif // FLASHC_LIB_DIALECT_FLASH_TRANSFORMS_BOUNDSEMITTER_H
