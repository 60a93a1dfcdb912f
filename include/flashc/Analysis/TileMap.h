//===- TileMap.h - which tiles the loops skip, mask and compute as they are ---------------------------------------===//
//
// The loops of a step at L1, run with numbers for one call: what a kernel of the same tiles visits.
//
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
  Full     ///< visited without
};

/// Counts of any size: 2^31 queries and keys are 2^50 tiles a head.
struct TileCounts {
  llvm::DynamicAPInt skipped, partial, full;

  TileCounts &operator+=(const TileCounts &other);
  TileCounts operator*(int64_t times) const;
  bool operator==(const TileCounts &other) const;
  llvm::DynamicAPInt total() const { return skipped + partial + full; }
};

/// What is computed, and by which tiles.
struct TileGrid {
  int64_t batch = 1, heads = 1, queries = 1, keys = 1;
  int64_t qTile = 1, kvTile = 1;
  /// The number of tiles of queries that follow sequences (flash.segment_tile), some of them empty; 0: no tiles do.
  int64_t segmentTiles = 0;
  /// Whether queries come past resident keys, as for gradients of keys: a row is a tile of keys then.
  bool streamsQueries = false;

  int64_t getRows() const {
    return segmentTiles ? segmentTiles : streamsQueries ? countKeyTiles() : llvm::divideCeil(queries, qTile);
  }
  int64_t getColumns() const { return streamsQueries ? llvm::divideCeil(queries, qTile) : countKeyTiles(); }

private:
  int64_t countKeyTiles() const { return llvm::divideCeil(keys, kvTile); }
};

/// Neighbours in a row of tiles that are visited, all in the same way: the columns begin to end - 1.
struct TileStretch {
  TileClass tileClass = TileClass::Partial;
  int64_t begin = 0, end = 0;
};

/// The class of every tile: a row for each resident tile, of queries as a rule, a column for each one that comes past.
/// A call with too many rows to run has evenly spaced ones, and its counts are estimates.
class TileMap {
public:
  /// Every tile skipped. Maps that do not vary are kept once. One in `rowStep` rows is known, from the middle of the
  /// first `rowStep` on.
  TileMap(const TileGrid &grid, bool variesByBatch, bool variesByHead, int64_t rowStep = 1);

  const TileGrid &getGrid() const { return grid; }
  /// Whether batches (heads) may have different maps.
  bool getVariesByBatch() const { return variesByBatch; }
  bool getVariesByHead() const { return variesByHead; }
  /// The known rows: one in `getRowStep()`, from the first one on, and their number.
  int64_t getRowStep() const { return rowStep; }
  int64_t getFirstRow() const { return std::min(rowStep / 2, grid.getRows() - 1); }
  int64_t getKnownRows() const { return llvm::divideCeil(grid.getRows() - getFirstRow(), rowStep); }
  bool isKnown(int64_t row) const {
    return row >= getFirstRow() && row < grid.getRows() && (row - getFirstRow()) % rowStep == 0;
  }
  bool isSample() const { return rowStep > 1; }

  /// Adds tiles to a known row. Returns false if one of them is there already.
  bool add(int64_t batch, int64_t head, int64_t row, const TileStretch &tiles);

  /// Tiles of one head, and of all heads of all batches: exact, or from the rows that are known.
  TileCounts count(int64_t batch, int64_t head) const;
  TileCounts count() const;

  /// The classes of the tiles of one head, row by row. Not of a sample.
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

/// The map of the loops in `function` (L1; of several nests, as of gradients, those of the first) called with
/// `arguments`, whose addresses are in the memory of this process, or 0: elements that are not known. The grid's tiles
/// are those of the loops, if there are any. Fails after a diagnostic, which names what a loop bound reads and nobody
/// gave.
///
/// The time grows with the number of rows and, where the mask is run (flash.tile_runs), of tiles. Of more than
/// `maxTiles` tiles, a row whose bounds are formulas being as dear as kTilesOfRow, it is a sample.
constexpr int64_t kTilesOfRow = 16;
mlir::FailureOr<TileMap> mapTiles(mlir::func::FuncOp function, mlir::ArrayRef<LaunchArgument> arguments, TileGrid grid,
                                  int64_t maxTiles = int64_t(1) << 22);

} // namespace flashc

#endif // FLASHC_ANALYSIS_TILEMAP_H
