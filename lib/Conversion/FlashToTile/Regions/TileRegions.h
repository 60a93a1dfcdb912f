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
/// columns are streamed positions.
class TileRegions {
public:
  /// The regions of the frame's nest.
  explicit TileRegions(KernelFrame &frame);

  /// Emits values of the regions that are the same for all elements of a row, at the frame's insertion point, before
  /// the loop over streamed tiles.
  mlir::LogicalResult emitInvariants();

  /// Whether scores pass through `emitScore`. This is so if there is a score region, or if the exponent's factor cannot
  /// include the scale. (The maximum is taken of unscaled scores, so the scale must be positive, and neither tiny nor
  /// huge.)
  bool hasScoreMap() const;
  double getScale() const { return nest.getStep().getScores().getScale().convertToFloat(); }

  /// Emits the scores of a tile: applies the scale and the score region to `products`. `column` is the first streamed
  /// position. `isMasked`, if not null, says whether the tile may have positions that do not exist. Null after an
  /// error.
  mlir::tile::MapOp emitScore(mlir::Value products, mlir::Value column, mlir::Value isMasked) {
    return emitOfScore(nest.score, products, column, isMasked);
  }
  /// Emits the score's derivative, from the same arguments as emitScore.
  mlir::tile::MapOp emitDerivative(mlir::Value products, mlir::Value column, mlir::Value isMasked) {
    return emitOfScore(nest.derivative, products, column, isMasked);
  }
  /// Emits the elements of a tile. Elements that the mask does not keep become `masked`. Null after an error.
  mlir::Value emitMask(mlir::Value source, mlir::Value column, double masked);

private:
  /// A value that a region computes once for each row.
  struct RowValue {
    mlir::Region *region;
    mlir::Value inL1, tile;
  };

  mlir::LogicalResult emitRows(mlir::Region &region);
  /// Returns the arguments of a region that differ between rows.
  llvm::SmallVector<mlir::Value, 2> getRowArguments(mlir::Region &region);
  mlir::tile::MapOp emitOfScore(mlir::Region *region, mlir::Value products, mlir::Value column, mlir::Value isMasked);
  mlir::tile::MapOp beginMap(mlir::Value tile, mlir::Value column, mlir::Region *region);
  llvm::SmallVector<mlir::Value> getPosition(mlir::tile::MapOp map);
  /// Emits, before the map of a tile, values of a mask that are the same for all elements of the tile. Makes `inside`
  /// use these values.
  mlir::LogicalResult emitOfTile(mlir::Region &region, mlir::tile::MapOp map, ScalarCloner &inside);
  /// Returns the region's argument for a row's position.
  mlir::Value getRowArgument(mlir::Region &region);

  KernelFrame &frame;
  const LoopNest &nest;
  ScalarCloner &scalars;
  mlir::ImplicitLocOpBuilder &b;
  /// The number of the first row (Rows::emitFirst).
  mlir::Value row;
  llvm::SmallVector<RowValue> rowValues;
};

} // namespace flashc

#endif // FLASHC_LIB_CONVERSION_FLASHTOTILE_REGIONS_TILEREGIONS_H
