//===- HeadRows.h - consecutive rows of one head ------------------------------------------------------------------===//
#ifndef FLASHC_LIB_CONVERSION_FLASHTOTILE_ROWS_HEADROWS_H
#define FLASHC_LIB_CONVERSION_FLASHTOTILE_ROWS_HEADROWS_H

#include "Rows/Rows.h"

namespace flashc {

/// Tiles begin at multiples of their size; a CTA has one tile, of which each unit has its rows in turn.
class HeadRows : public Rows {
public:
  using Rows::Rows;

  mlir::FailureOr<std::array<GridFormula, 3>> getExtents() override;
  mlir::LogicalResult emitPlace(KernelFrame &frame) override;
  void store(KernelFrame &frame, mlir::Value tile, mlir::Value array, mlir::Value batch, bool isMatrix) override;

protected:
  /// The number of tiles of the resident dimension; none: no formula.
  virtual std::optional<GridFormula> countTiles();
  /// The first row of a tile; sets the end of the rows that are stored. Null after an error.
  virtual mlir::Value emitFirstRow(KernelFrame &frame, mlir::Value tile, mlir::Value extent);
};

} // namespace flashc

#endif // FLASHC_LIB_CONVERSION_FLASHTOTILE_ROWS_HEADROWS_H
