//===- WorkTiles.h - which work tiles a CTA works on, and where they lie -----------------------------------------===//
#ifndef FLASHC_LIB_DIALECT_TILE_TRANSFORMS_WORKTILES_H
#define FLASHC_LIB_DIALECT_TILE_TRANSFORMS_WORKTILES_H

#include "flashc/Dialect/Tile/IR/Tile.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"

namespace mlir::tile {

/// The loop over the work tiles of one CTA, and where each of them lies.
class WorkTiles {
public:
  /// Those of a program with a grid: by a list, or in the order that it says.
  static std::unique_ptr<WorkTiles> create(ProgramOp program, ImplicitLocOpBuilder &b);
  virtual ~WorkTiles() = default;

  /// Null where a CTA has one work tile.
  virtual scf::ForOp emitLoop() = 0;

  /// The work tile (x, y, z) of an iteration.
  virtual std::array<Value, 3> emitWorkTile(scf::ForOp loop) = 0;

  /// The numbers of the list that a work tile has, and the warpgroup's own; after emitWorkTile.
  ArrayRef<Value> getNumbers() const { return numbers; }

protected:
  SmallVector<Value> numbers;
};

} // namespace mlir::tile

#endif // FLASHC_LIB_DIALECT_TILE_TRANSFORMS_WORKTILES_H
