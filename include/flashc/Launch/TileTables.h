//===- TileTables.h - where tables that kernels of their own compute lie ------------------------------------------===//
#ifndef FLASHC_LAUNCH_TILETABLES_H
#define FLASHC_LAUNCH_TILETABLES_H

#include "flashc/Runtime/GridFormula.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

#include <optional>

namespace flashc {

/// A row of the table that stores the results of a flash.tile_runs in the mask map, in i32. A row lists the visited
/// tiles by their first keys (by their first queries, if the op is `dual`): first the masked tiles and then the full
/// tiles, both in ascending order. So the table lists single tiles. The op's result, in contrast, has a fixed number of
/// runs, which may contain tiles that need no visit. A kernel that reads the table needs no registers for runs, which
/// matters for the producer.
///
///   number of masked visits | number of all visits | the key of each visit (one 0 if there are no visits) | unused
struct VisitsRow {
  static constexpr int64_t kMaskedVisits = 0, kVisits = 1, kKeys = 2;
  /// How many elements a row has in addition to one for each streamed tile.
  static constexpr int64_t kMoreElements = kKeys + 1;
};

/// The number of rows of a flash.row_table that are computed as one tile.
constexpr int64_t kTableRows = 32;

/// Returns an extent of the host function as a formula of the manifest. None if the extent is neither a constant nor
/// computed from dimensions of arguments.
std::optional<GridFormula> getFormula(mlir::OpFoldResult extent);
std::optional<GridFormula> getFormula(mlir::Value array, int64_t dim);

/// The tables that kernels of a launch pass to each other, and their places. The results of a function's
/// flash.row_table, flash.tile_classes and flash.tile_runs are in the mask map, and other tables are in the workspace.
/// In both memories one table follows another, and each table is stored row by row.
class TileTables {
public:
  struct Table {
    mlir::Value value;
    GridFormula tiles; // number of tiles
    int64_t bytes;     // bytes of a tile: a multiple of 16, so that the next table is aligned to 16 bytes
    /// The number of warps of the kernel that computes the table. If none, there are as many warps as `tiles`.
    std::optional<GridFormula> warps = {};
  };

  /// Finds the tables of `host`. Emits an error and fails if an extent of a table is no formula.
  static mlir::FailureOr<TileTables> get(mlir::func::FuncOp host);

  /// Adds `table` before the other tables, unless it is already there.
  void add(Table table) {
    if (!getNumber(table.value))
      tables.insert(tables.begin(), std::move(table));
  }
  llvm::ArrayRef<Table> getTables() const { return tables; }
  bool empty() const { return tables.empty(); }
  /// Returns the number of the table that holds `value`. None if there is no such table.
  std::optional<unsigned> getNumber(mlir::Value value) const;
  mlir::Type getElementType(unsigned number) const;
  bool isInMaskMap(unsigned number) const;
  /// Returns the byte at which a table begins in its memory. None if the table is the first one there.
  std::optional<GridFormula> getOffset(unsigned number) const { return getBytes(isInMaskMap(number), number); }
  std::optional<GridFormula> getWorkspaceBytes() const { return getBytes(/*ofMaskMap=*/false, tables.size()); }
  std::optional<GridFormula> getMaskMapBytes() const { return getBytes(/*ofMaskMap=*/true, tables.size()); }

private:
  /// Returns the total bytes of those of the first `count` tables that one memory holds: the mask map if `ofMaskMap`,
  /// else the workspace.
  std::optional<GridFormula> getBytes(bool ofMaskMap, unsigned count) const;

  llvm::SmallVector<Table> tables;
};

} // namespace flashc

#endif // FLASHC_LAUNCH_TILETABLES_H
