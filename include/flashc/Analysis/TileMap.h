//===- TileMap.h - which tiles the loops skip, mask and compute as they are ---------------------------------------===//
//
// The loops of an attention at L1, run with numbers for one call: what a kernel of the same tiles visits.
//
//===--------------------------------------------------------------------------------------------------------------===//
#ifndef FLASHC_ANALYSIS_TILEMAP_H
#define FLASHC_ANALYSIS_TILEMAP_H

#include "flashc/Runtime/KernelParameters.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

#include <vector>

namespace flashc {

enum class TileClass : uint8_t {
  Skipped, ///< never visited
  Partial, ///< visited with the mask
  Full     ///< visited without
};

struct TileCounts {
  int64_t skipped = 0, partial = 0, full = 0;

  TileCounts &operator+=(const TileCounts &other);
  bool operator==(const TileCounts &other) const;
  int64_t total() const { return skipped + partial + full; }
};

/// What is computed, and by which tiles.
struct TileGrid {
  int64_t batch = 1, heads = 1, queries = 1, keys = 1;
  int64_t qTile = 1, kvTile = 1;
  /// Of tiles of queries that follow sequences (flash.segment_tile) their number, some of them empty; 0: they do not.
  int64_t segmentTiles = 0;

  int64_t getRows() const { return segmentTiles ? segmentTiles : llvm::divideCeil(queries, qTile); }
  int64_t getColumns() const { return llvm::divideCeil(keys, kvTile); }
};

/// The class of every tile: a row for each tile of queries, a column for each tile of keys.
class TileMap {
public:
  /// Every tile skipped. Maps that do not vary are kept once.
  TileMap(const TileGrid &grid, bool variesByBatch, bool variesByHead);

  const TileGrid &getGrid() const { return grid; }
  /// Whether batches (heads) may have different maps.
  bool getVariesByBatch() const { return variesByBatch; }
  bool getVariesByHead() const { return variesByHead; }

  TileClass &at(int64_t batch, int64_t head, int64_t row, int64_t column);
  /// Row by row.
  mlir::ArrayRef<TileClass> getTiles(int64_t batch, int64_t head) const;
  /// Of one head, and of all heads of all batches.
  TileCounts count(int64_t batch, int64_t head) const;
  TileCounts count() const;

private:
  size_t getStart(int64_t batch, int64_t head) const;

  TileGrid grid;
  bool variesByBatch, variesByHead;
  std::vector<TileClass> tiles;
};

/// The map of the loops in `function` (L1, with one attention) called with `arguments`, whose addresses are in the
/// memory of this process, or 0: elements that are not known. The grid's tiles are those of the loops, if there are
/// any. Fails after a diagnostic, which names what a loop bound reads and nobody gave.
mlir::FailureOr<TileMap> mapTiles(mlir::func::FuncOp function, mlir::ArrayRef<LaunchArgument> arguments, TileGrid grid);

} // namespace flashc

#endif // FLASHC_ANALYSIS_TILEMAP_H
