//===- Points.h - which points a CTA works on, and where they lie -------------------------------------------------===//
#ifndef FLASHC_LIB_DIALECT_TILE_TRANSFORMS_POINTS_H
#define FLASHC_LIB_DIALECT_TILE_TRANSFORMS_POINTS_H

#include "flashc/Dialect/Tile/IR/Tile.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"

namespace mlir::tile {

/// The loop over the points of one CTA, and where each of them lies.
class Points {
public:
  /// Those of a program with a grid: by a list, or in the order that it says.
  static std::unique_ptr<Points> create(ProgramOp program, ImplicitLocOpBuilder &b);
  virtual ~Points() = default;

  virtual scf::ForOp emitLoop() = 0;

  /// The point (x, y, z) of an iteration.
  virtual std::array<Value, 3> emitPoint(scf::ForOp loop) = 0;

  /// The numbers of the list that a point has, and the warpgroup's own; after emitPoint.
  ArrayRef<Value> getNumbers() const { return numbers; }

protected:
  SmallVector<Value> numbers;
};

} // namespace mlir::tile

#endif // FLASHC_LIB_DIALECT_TILE_TRANSFORMS_POINTS_H
