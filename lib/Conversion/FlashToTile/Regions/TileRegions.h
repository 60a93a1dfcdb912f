//===- TileRegions.h - a step's score and mask regions, on tiles --------------------------------------------------===//
#ifndef FLASHC_LIB_CONVERSION_FLASHTOTILE_REGIONS_TILEREGIONS_H
#define FLASHC_LIB_CONVERSION_FLASHTOTILE_REGIONS_TILEREGIONS_H

#include "LoopNest.h"
#include "flashc/Conversion/HostToKernel/ScalarCloner.h"
#include "flashc/Dialect/Tile/IR/Tile.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"

namespace flashc {

/// Copies the score and mask regions of a nest into `tile.map`s over tiles whose rows are resident positions and whose
/// columns are streamed ones.
class TileRegions {
public:
  /// Where rows are query heads times tokens: row r of a tile is head `head` + r / tokens and query `query` + r mod
  /// tokens.
  struct Packing {
    int64_t heads, tokens;
    mlir::Value head, query;
  };

  TileRegions(const LoopNest &nest, ScalarCloner &scalars, mlir::ImplicitLocOpBuilder &b)
      : nest(nest), scalars(scalars), b(b) {}

  /// Emits what the regions compute that is the same for all elements of a row, in front of the loop over streamed
  /// tiles.
  mlir::LogicalResult emitInvariants(mlir::Value batch, mlir::Value head, mlir::Value row);
  /// The same of packed rows, whose positions are from 0 on.
  mlir::LogicalResult emitInvariants(mlir::Value batch, const Packing &packing);
  /// The head and the query of a packed row.
  std::pair<mlir::Value, mlir::Value> emitHeadAndQuery(mlir::Value row);

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

  mlir::LogicalResult emitAllInvariants();
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

  const LoopNest &nest;
  ScalarCloner &scalars;
  mlir::ImplicitLocOpBuilder &b;
  mlir::Value batch, head, row;
  std::optional<Packing> packing;
  llvm::SmallVector<RowValue> rowValues;
};

} // namespace flashc

#endif // FLASHC_LIB_CONVERSION_FLASHTOTILE_REGIONS_TILEREGIONS_H
