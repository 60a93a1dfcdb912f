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

  /// Whether the tile of queries may be empty, as some tiles of segments are.
  bool mayHaveNoQuery() const;

  /// The loop's end, rounded to whole tiles from the loop's begin.
  AffineExpr getEnd(bool isCeil) const;

  /// Rounds `position` down, or up with `isCeil`, to a boundary of tiles that begin at `begin`.
  OpFoldResult roundFrom(OpFoldResult begin, OpFoldResult position, bool isCeil);

  /// The minimum or the maximum of some expressions.
  OpFoldResult reduce(ArrayRef<AffineExpr> exprs, bool isMin);
  OpFoldResult clamp(OpFoldResult value, OpFoldResult limit, bool isMin);

  /// `value` if all conditions are >= 0, else `otherwise`.
  OpFoldResult unless(ArrayRef<AffineExpr> conditions, OpFoldResult value, OpFoldResult otherwise);

  /// The minimum of `end` and `begin` plus each of the interval's rooms (limits on its number of tiles).
  OpFoldResult clampRooms(const TileInterval &interval, OpFoldResult begin, OpFoldResult end);

  const LoopBounds &bounds;
  /// The values of the expressions' symbols.
  SmallVector<OpFoldResult> symbols;

private:
  void mapRows(Value first);
  Value hoist(Value value, IRMapping &mapping);
  Value makeIndex(Value value);

  StepOpInterface op;
  OpBuilder b;
  Location loc;
  bool mayBeEmpty;
  /// The values that are copied out of the mask region, a mapping for each MaskSpace::At.
  IRMapping hoisted[3];
};

} // namespace mlir::flash

#endif // FLASHC_LIB_DIALECT_FLASH_TRANSFORMS_BOUNDSEMITTER_H
