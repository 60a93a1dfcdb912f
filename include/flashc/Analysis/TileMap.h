//===- TileMap.h - which tiles the loops skip, mask and compute as they are ---------------------------------------===//
// A map of the tiles that a kernel visits: the loops around a step at L1 are run with the numbers of one call.
//===--------------------------------------------------------------------------------------------------------------===//
#ifndef FLASHC_ANALYSIS_TILEMAP_H
#define FLASHC_ANALYSIS_TILEMAP_H

#include "flashc/Runtime/KernelParameters.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/DynamicAPInt.h"

#include <vector>

namespace flashc {

enum class TileClass : uint8_t {
  Skipped, ///< never visited
  Partial, ///< visited with the mask
  Full     ///< visited without the mask
};

/// Counts of tiles. The integers have arbitrary precision: 2^31 queries and keys are 2^50 tiles a head.
struct TileCounts {
  llvm::DynamicAPInt skipped, partial, full;

  TileCounts &operator+=(const TileCounts &other);
  TileCounts operator*(int64_t times) const;
  bool operator==(const TileCounts &other) const;
  llvm::DynamicAPInt total() const { return skipped + partial + full; }
};

/// The extents of an attention and the shape of its tiles.
struct TileGrid {
  int64_t batch = 1, heads = 1, queries = 1, keys = 1;
  int64_t qTile = 1, kvTile = 1;
  /// The number of tiles of queries, including empty ones, if tiles begin where packed sequences begin
  /// (flash.segment_tile). 0 if tiles do not follow sequences.
  int64_t segmentTiles = 0;
  /// Whether loops stream queries past resident keys, as for gradients of keys. Then a row of the map is a tile of
  /// keys.
  bool streamsQueries = false;

  int64_t getRows() const {
    return segmentTiles ? segmentTiles : streamsQueries ? countKeyTiles() : llvm::divideCeil(queries, qTile);
  }
  int64_t getColumns() const { return streamsQueries ? llvm::divideCeil(queries, qTile) : countKeyTiles(); }

private:
  int64_t countKeyTiles() const { return llvm::divideCeil(keys, kvTile); }
};

/// Consecutive tiles of a row that are visited in the same way: columns [begin, end).
struct TileStretch {
  TileClass tileClass = TileClass::Partial;
  int64_t begin = 0, end = 0;
};

/// The class of every tile of a call. The map has a row for each resident tile (a tile of queries, unless queries are
/// streamed), and a column for each streamed tile. If a call has too many rows to run them all, the map has evenly
/// spaced rows, and its counts are estimates.
class TileMap {
public:
  /// Makes a map in which every tile is skipped. Unless `variesByBatch`, all batches share one map. Unless
  /// `variesByHead`, all heads share one map. Only one in `rowStep` rows is known; the first known row is the middle
  /// one of the first `rowStep` rows.
  TileMap(const TileGrid &grid, bool variesByBatch, bool variesByHead, int64_t rowStep = 1);

  const TileGrid &getGrid() const { return grid; }
  /// Whether batches may have different maps, and whether heads may.
  bool getVariesByBatch() const { return variesByBatch; }
  bool getVariesByHead() const { return variesByHead; }
  /// The numbers of batches and of heads that have maps of their own.
  int64_t getNumBatches() const { return variesByBatch ? grid.batch : 1; }
  int64_t getNumHeads() const { return variesByHead ? grid.heads : 1; }
  /// The known rows: every `getRowStep()`-th row, from `getFirstRow()` on. `getKnownRows()` is their number.
  int64_t getRowStep() const { return rowStep; }
  int64_t getFirstRow() const { return std::min(rowStep / 2, grid.getRows() - 1); }
  int64_t getKnownRows() const { return llvm::divideCeil(grid.getRows() - getFirstRow(), rowStep); }
  bool isKnown(int64_t row) const {
    return row >= getFirstRow() && row < grid.getRows() && (row - getFirstRow()) % rowStep == 0;
  }
  bool isSample() const { return rowStep > 1; }

  /// Adds tiles to a known row. Returns false if the row already has one of these tiles.
  bool add(int64_t batch, int64_t head, int64_t row, const TileStretch &tiles);

  /// Counts the tiles of one head, or of all heads of all batches. The counts of a sample are estimates.
  TileCounts count(int64_t batch, int64_t head) const;
  TileCounts count() const;

  /// Returns the classes of the tiles of one head, row by row. The map must not be a sample.
  std::vector<TileClass> getTiles(int64_t batch, int64_t head) const;

private:
  using Row = llvm::SmallVector<TileStretch, 2>;
  size_t getFirst(int64_t batch, int64_t head) const;
  llvm::ArrayRef<Row> getMap(int64_t batch, int64_t head) const;

  TileGrid grid;
  bool variesByBatch, variesByHead;
  int64_t rowStep;
  std::vector<Row> rows;
};

/// The cost of mapping a row, in tiles, if the mask is not evaluated at run time.
constexpr int64_t kTilesOfRow = 16;

/// Maps the tiles that the loops of `function` (at L1) visit in a call with `arguments`. If there are several nests, as
/// for gradients, maps the tiles of the first nest. The addresses of arguments are in the memory of this process, or 0
/// if the elements are unknown. The tile shape of `grid` is ignored and taken from the loops. Fails after a diagnostic.
/// If a loop bound reads an unknown argument, the diagnostic names the argument.
///
/// If the cost of mapping all rows would exceed `maxTiles`, the map is a sample of the rows. A row costs kTilesOfRow.
/// However, if the mask is evaluated at run time (flash.tile_runs), a row costs the map's number of columns.
mlir::FailureOr<TileMap> mapTiles(mlir::func::FuncOp function, mlir::ArrayRef<LaunchArgument> arguments, TileGrid grid,
                                  int64_t maxTiles = int64_t(1) << 22);

} // namespace flashc

#endif // FLASHC_ANALYSIS_TILEMAP_H
