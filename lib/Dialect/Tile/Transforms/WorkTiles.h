//===- WorkTiles.h - the work tiles of a CTA, and their coordinates -----------------------------------------------===//
#ifndef FLASHC_LIB_DIALECT_TILE_TRANSFORMS_WORKTILES_H
#define FLASHC_LIB_DIALECT_TILE_TRANSFORMS_WORKTILES_H

#include "flashc/Dialect/Tile/IR/Tile.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"

namespace mlir::tile {

/// Emits the loop over the work tiles of one CTA, and the coordinates of each work tile.
class WorkTiles {
public:
  /// Creates the distribution of `program`, which has a grid: by its work list, by its #tile.work, or evenly if it has
  /// neither.
  static std::unique_ptr<WorkTiles> create(ProgramOp program, ImplicitLocOpBuilder &b);
  virtual ~WorkTiles() = default;

  /// Emits the loop over work tiles. Null if each CTA has one work tile.
  virtual scf::ForOp emitLoop() = 0;

  /// Emits the work tile (x, y, z) of an iteration of `loop`.
  virtual std::array<Value, 3> emitWorkTile(scf::ForOp loop) = 0;

  /// Returns the numbers that the work list has for the work tile: first those for all warpgroups, then those for this
  /// warpgroup alone. emitWorkTile must be called before.
  ArrayRef<Value> getNumbers() const { return numbers; }

protected:
  SmallVector<Value> numbers;
};

} // namespace mlir::tile

#endif // FLASHC_LIB_DIALECT_TILE_TRANSFORMS_WORKTILES_H
