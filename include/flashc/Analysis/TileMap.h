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

#include <optional>
#include <vector>

namespace flashc {

enum class TileClass : uint8_t {
  Skipped, ///< never visited
  Partial, ///< visited with the mask
  Full     ///< visited without
};

/// Of any size: 2^31 queries and keys are 2^50 tiles a head.
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
  /// Of tiles of queries that follow sequences (flash.segment_tile) their number, some of them empty; 0: they do not.
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

/// Tiles of one class that are visited, neighbours in each row of tiles. Of the rows `row` + k * `rowStep`, 0 <= k <
/// `rows`, those in the columns from `column` + k * `columnStep` on, `width` + k * `widthStep` of them.
struct TilePatch {
  TileClass tileClass = TileClass::Partial;
  int64_t row = 0, rowStep = 1, rows = 1;
  int64_t column = 0, columnStep = 0, width = 1, widthStep = 0;

  int64_t getRow(int64_t k) const { return row + k * rowStep; }
  int64_t getBegin(int64_t k) const { return column + k * columnStep; }
  int64_t getEnd(int64_t k) const { return getBegin(k) + width + k * widthStep; }
  llvm::DynamicAPInt count() const;
};

/// The class of every tile: a row for each resident tile, of queries as a rule, a column for each one that comes past.
/// What is kept is not tiles but patches, so that its size does not depend on theirs.
class TileMap {
public:
  /// Every tile skipped. Maps that do not vary are kept once.
  TileMap(const TileGrid &grid, bool variesByBatch, bool variesByHead);

  const TileGrid &getGrid() const { return grid; }
  /// Whether batches (heads) may have different maps.
  bool getVariesByBatch() const { return variesByBatch; }
  bool getVariesByHead() const { return variesByHead; }

  /// Patches of a map share no tile (findSharedTile).
  void add(int64_t batch, int64_t head, const TilePatch &patch) { patches[getIndex(batch, head)].push_back(patch); }
  mlir::ArrayRef<TilePatch> getPatches(int64_t batch, int64_t head) const { return patches[getIndex(batch, head)]; }
  /// Row and column of a tile that two patches have.
  std::optional<std::array<int64_t, 2>> findSharedTile() const;

  /// Of one head, and of all heads of all batches.
  TileCounts count(int64_t batch, int64_t head) const;
  TileCounts count() const;

  /// The classes of the tiles of one head, row by row.
  std::vector<TileClass> getTiles(int64_t batch, int64_t head) const;
  /// The same of blocks of side x side tiles: skipped if all of them are, full if all of them are, partial otherwise.
  std::vector<TileClass> getBlocks(int64_t batch, int64_t head, int64_t side) const;

private:
  size_t getIndex(int64_t batch, int64_t head) const;

  TileGrid grid;
  bool variesByBatch, variesByHead;
  std::vector<std::vector<TilePatch>> patches;
};

/// The map of the loops in `function` (L1; of several nests, as of gradients, those of the first) called with `arguments`, whose addresses are in the
/// memory of this process, or 0: elements that are not known. The grid's tiles are those of the loops, if there are
/// any. Fails after a diagnostic, which names what a loop bound reads and nobody gave.
///
/// The time depends on how often loop bounds change their course (lib/Analysis/LineEvaluator.h), and not on the number
/// of tiles. `oneByOne` runs every iteration by itself instead, for tests to compare with.
mlir::FailureOr<TileMap> mapTiles(mlir::func::FuncOp function, mlir::ArrayRef<LaunchArgument> arguments, TileGrid grid,
                                  bool oneByOne = false);

} // namespace flashc

#endif // FLASHC_ANALYSIS_TILEMAP_H
