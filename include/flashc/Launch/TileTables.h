//===- TileTables.h - where tables that kernels of their own compute lie ------------------------------------------===//
#ifndef FLASHC_LAUNCH_TILETABLES_H
#define FLASHC_LAUNCH_TILETABLES_H

#include "flashc/Runtime/GridFormula.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

#include <optional>

namespace flashc {

/// A row of the table that stores the results of a flash.tile_runs in the mask map, in i32. A row lists the visited
/// tiles by their first keys (first queries in a dual op): masked tiles, then full tiles, each group in ascending
/// order. The table lists single tiles, whereas the op has at most a fixed number of runs and may visit more tiles. So
/// a kernel needs no registers for runs, which matters for the producer.
///
///   masked visits | all visits | the key of each visit, or 0 where there is none | room for as many as there are tiles
struct VisitsRow {
  static constexpr int64_t kMaskedVisits = 0, kVisits = 1, kKeys = 2;
  /// Elements of a row that are not one for each tile.
  static constexpr int64_t kMoreElements = kKeys + 1;
};

/// Rows of a flash.row_table that are computed as one tile.
constexpr int64_t kTableRows = 32;

/// An extent of the host function as a formula of the manifest. None if the extent is neither a constant nor a
/// dimension of an argument.
std::optional<GridFormula> getFormula(mlir::OpFoldResult extent);
std::optional<GridFormula> getFormula(mlir::Value array, int64_t dim);

/// The places of the results of a function's flash.row_table, flash.tile_classes and flash.tile_runs in a launch's mask
/// map: one table after another, row by row. Other data that kernels of a launch pass to each other is in the
/// workspace.
class TileTables {
public:
  struct Table {
    mlir::Value value;
    GridFormula tiles; // number of tiles
    int64_t bytes;     // bytes of a tile
    /// The warps of the kernel that computes the table, one for each tile of the table's op. None: as many as the table
    /// has tiles.
    std::optional<GridFormula> warps = {};
  };

  /// Finds the tables of `host`. Emits an error and fails if an extent of a table is no formula.
  static mlir::FailureOr<TileTables> get(mlir::func::FuncOp host);

  /// Adds a table before the others, unless it is already there. Its bytes are rounded up to a multiple of 16, so that
  /// the tables after it stay aligned to 16 bytes.
  void add(Table table) {
    if (!getNumber(table.value))
      tables.insert(tables.begin(), std::move(table));
  }
  llvm::ArrayRef<Table> getTables() const { return tables; }
  bool empty() const { return tables.empty(); }
  /// The number of the table that holds `value`, or none.
  std::optional<unsigned> getNumber(mlir::Value value) const;
  mlir::Type getElementType(unsigned number) const;
  bool isInMaskMap(unsigned number) const;
  /// The byte at which a table begins in its memory. None: the table is the first.
  std::optional<GridFormula> getOffset(unsigned number) const { return getBytes(isInMaskMap(number), number); }
  std::optional<GridFormula> getWorkspaceBytes() const { return getBytes(/*ofMaskMap=*/false, tables.size()); }
  std::optional<GridFormula> getMaskMapBytes() const { return getBytes(/*ofMaskMap=*/true, tables.size()); }

private:
  /// The bytes of those of the first `count` tables that are in the mask map (`ofMaskMap`) or in the workspace.
  std::optional<GridFormula> getBytes(bool ofMaskMap, unsigned count) const;

  llvm::SmallVector<Table> tables;
};

} // namespace flashc

#endif // FLASHC_LAUNCH_TILETABLES_H
