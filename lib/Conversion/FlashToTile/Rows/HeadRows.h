//===- HeadRows.h - consecutive rows of one head ------------------------------------------------------------------===//
#ifndef FLASHC_LIB_CONVERSION_FLASHTOTILE_ROWS_HEADROWS_H
#define FLASHC_LIB_CONVERSION_FLASHTOTILE_ROWS_HEADROWS_H

#include "Rows/Rows.h"

namespace flashc {

/// Consecutive rows of one head. Tiles begin at multiples of their size. The units of a CTA have consecutive rows of
/// the CTA's tile.
class HeadRows : public Rows {
public:
  using Rows::Rows;

  mlir::FailureOr<std::array<GridFormula, 3>> getExtents() override;
  mlir::Value emitNumHeads(KernelFrame &frame, mlir::Value extent) const override;
  mlir::LogicalResult emitPlace(KernelFrame &frame) override;
  void store(KernelFrame &frame, mlir::Value tile, mlir::Value array, mlir::Value batch, bool isMatrix) override;

protected:
  /// Returns the number of tiles of the resident dimension. None if the number is no formula.
  virtual std::optional<GridFormula> countTiles();
  /// Emits the first row of a tile, and sets the end of the rows that are stored. Null after an error.
  virtual mlir::Value emitFirstRow(KernelFrame &frame, mlir::Value tile, mlir::Value extent);
  mlir::LogicalResult emitPartSize(KernelFrame &frame, mlir::Value firstRow);
  /// The number of heads of a tile.
  virtual int64_t countHeads() const { return 1; }
};

} // namespace flashc

#endif // FLASHC_LIB_CONVERSION_FLASHTOTILE_ROWS_HEADROWS_H
