//===- BoundsEmitter.h - bounds of loops as values ----------------------------------------------------------------===//
#ifndef FLASHC_LIB_DIALECT_FLASH_TRANSFORMS_BOUNDSEMITTER_H
#define FLASHC_LIB_DIALECT_FLASH_TRANSFORMS_BOUNDSEMITTER_H

#include "KeySegments.h"
#include "mlir/IR/IRMapping.h"

namespace mlir::flash {

/// Turns the expressions of LoopBounds into IR.
class BoundsEmitter {
public:
  BoundsEmitter(StepOpInterface op, const KeyRange &range, const LoopBounds &bounds);

protected:
  static bool isSame(OpFoldResult x, OpFoldResult y);

  AffineExpr symbol(unsigned position) const;

  /// Whether the tile of queries may be one that has none, as some of segments have.
  bool mayHaveNoQuery() const;

  /// Where the loop ends, rounded to tiles from where it begins.
  AffineExpr getEnd(bool isCeil) const;

  /// The last tile boundary up to `position`, or the first from it on, of tiles that begin at `begin`.
  OpFoldResult roundFrom(OpFoldResult begin, OpFoldResult position, bool isCeil);

  /// The least or the greatest of some expressions.
  OpFoldResult reduce(ArrayRef<AffineExpr> exprs, bool isMin);
  OpFoldResult clamp(OpFoldResult value, OpFoldResult limit, bool isMin);

  /// `value` if all conditions are >= 0, else `otherwise`.
  OpFoldResult unless(ArrayRef<AffineExpr> conditions, OpFoldResult value, OpFoldResult otherwise);

  /// `end`, but at most as far behind `begin` as an interval has room.
  OpFoldResult clampRooms(const TileInterval &interval, OpFoldResult begin, OpFoldResult end);

  const LoopBounds &bounds;
  /// What the expressions' symbols are.
  SmallVector<OpFoldResult> symbols;

private:
  void mapRows(Value first);
  Value hoist(Value value, IRMapping &mapping);
  Value makeIndex(Value value);

  StepOpInterface op;
  OpBuilder b;
  Location loc;
  bool mayBeEmpty;
  /// What has been copied out of the mask region, by where it is evaluated.
  IRMapping hoisted[3];
};

} // namespace mlir::flash

#endif // FLASHC_LIB_DIALECT_FLASH_TRANSFORMS_BOUNDSEMITTER_H
