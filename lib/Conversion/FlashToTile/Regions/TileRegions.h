//===- TileRegions.h - a step's score and mask regions, on tiles --------------------------------------------------===//
#ifndef FLASHC_LIB_CONVERSION_FLASHTOTILE_REGIONS_TILEREGIONS_H
#define FLASHC_LIB_CONVERSION_FLASHTOTILE_REGIONS_TILEREGIONS_H

#include "LoopNest.h"
#include "flashc/Conversion/HostToKernel/ScalarCloner.h"
#include "flashc/Dialect/Tile/IR/Tile.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"

namespace flashc {

class KernelFrame;

/// Copies the score and mask regions of a nest into `tile.map`s over tiles whose rows are resident positions and whose
/// columns are streamed ones.
class TileRegions {
public:
  /// Regions of the frame's nest.
  explicit TileRegions(KernelFrame &frame);

  /// Emits what the regions compute that is the same for all elements of a row of the frame, where it is now, before
  /// the loop over streamed tiles.
  mlir::LogicalResult emitInvariants();

  /// Whether scores pass through `emitScore`: there is a score region, or the scale cannot be left to an exponent's
  /// factor (the maximum is taken of unscaled scores, so it must be positive, and neither tiny nor huge).
  bool hasScoreMap() const;
  double getScale() const { return nest.getStep().getScores().getScale().convertToFloat(); }

  /// The scores of a tile, from products and the first streamed position: the scale, and the score region. Null after
  /// an error. `isMasked`, if it is not null, says whether the tile may have positions that do not exist.
  mlir::tile::MapOp emitScore(mlir::Value products, mlir::Value column, mlir::Value isMasked) {
    return emitOfScore(nest.score, products, column, isMasked);
  }
  /// In the same way, the score's derivative.
  mlir::tile::MapOp emitDerivative(mlir::Value products, mlir::Value column, mlir::Value isMasked) {
    return emitOfScore(nest.derivative, products, column, isMasked);
  }
  /// The elements of a tile, with `masked` where the mask keeps nothing. Null after an error.
  mlir::Value emitMask(mlir::Value source, mlir::Value column, double masked);

private:
  /// A value that a region computes once per row.
  struct RowValue {
    mlir::Region *region;
    mlir::Value inL1, tile;
  };

  mlir::LogicalResult emitRows(mlir::Region &region);
  /// The arguments of a region that differ between rows.
  llvm::SmallVector<mlir::Value, 2> getRowArguments(mlir::Region &region);
  mlir::tile::MapOp emitOfScore(mlir::Region *region, mlir::Value products, mlir::Value column, mlir::Value isMasked);
  mlir::tile::MapOp beginMap(mlir::Value tile, mlir::Value column, mlir::Region *region);
  llvm::SmallVector<mlir::Value> getPosition(mlir::tile::MapOp map);
  /// Emits what a mask computes that is the same in a whole tile, in front of its map, and maps it in `inside`.
  mlir::LogicalResult emitOfTile(mlir::Region &region, mlir::tile::MapOp map, ScalarCloner &inside);
  /// Which argument of a region with `numArguments`, counted from the last, is the row.
  mlir::Value getRowArgument(mlir::Region &region);

  KernelFrame &frame;
  const LoopNest &nest;
  ScalarCloner &scalars;
  mlir::ImplicitLocOpBuilder &b;
  /// What the first row is called (Rows).
  mlir::Value row;
  llvm::SmallVector<RowValue> rowValues;
};

} // namespace flashc

#endif // FLASHC_LIB_CONVERSION_FLASHTOTILE_REGIONS_TILEREGIONS_H
