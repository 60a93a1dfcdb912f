//===- TileTables.h - where tables that kernels of their own compute lie ------------------------------------------===//
#ifndef FLASHC_LAUNCH_TILETABLES_H
#define FLASHC_LAUNCH_TILETABLES_H

#include "flashc/Runtime/GridFormula.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

#include <optional>

namespace flashc {

/// A row of the table that stands for a flash.tile_runs in the mask map, in i32: the tiles that are visited, by their
/// first keys (queries, if dual), those with the mask in front of the full ones, each in ascending order. It is not
/// held to the number of the op's runs, which visit more tiles or as many. So a kernel keeps no run in registers, of
/// which the producer has few.
///
///   masked visits | all visits | the key of each visit, or 0 where there is none | room for as many as there are tiles
struct VisitsRow {
  static constexpr int64_t kMaskedVisits = 0, kVisits = 1, kKeys = 2;
  /// Beside one for each tile.
  static constexpr int64_t kMoreElements = kKeys + 1;
};

/// Rows of a flash.row_table that are one tile.
constexpr int64_t kTableRows = 32;

/// An extent of the host function as a formula of the manifest; none if it is neither a constant nor an argument's.
std::optional<GridFormula> getFormula(mlir::OpFoldResult extent);
std::optional<GridFormula> getFormula(mlir::Value array, int64_t dim);

/// Where the results of a function's flash.row_table, flash.tile_classes and flash.tile_runs lie: one behind the
/// other, row by row, in a launch's mask map. What else kernels of a launch pass to each other lies in its
/// workspace.
class TileTables {
public:
  struct Table {
    mlir::Value value;
    GridFormula tiles; // how many
    int64_t bytes;     // of a tile
    /// Warps of the kernel that computes it, each of which has a tile of its op; none: as many as the table has.
    std::optional<GridFormula> warps = {};
  };

  /// Emits an error and fails if an extent is no formula.
  static mlir::FailureOr<TileTables> get(mlir::func::FuncOp host);

  /// Before those that are there already, unless it is one of them. Its bytes are a multiple of 16: it lies at one, as
  /// do those before it.
  void add(Table table) {
    if (!getNumber(table.value))
      tables.insert(tables.begin(), std::move(table));
  }
  llvm::ArrayRef<Table> getTables() const { return tables; }
  bool empty() const { return tables.empty(); }
  /// The number of a table; none if the value is not one.
  std::optional<unsigned> getNumber(mlir::Value value) const;
  mlir::Type getElementType(unsigned number) const;
  bool isInMaskMap(unsigned number) const;
  /// Where a table begins in its memory, in bytes; none: at the first.
  std::optional<GridFormula> getOffset(unsigned number) const { return getBytes(isInMaskMap(number), number); }
  std::optional<GridFormula> getWorkspaceBytes() const { return getBytes(/*ofMaskMap=*/false, tables.size()); }
  std::optional<GridFormula> getMaskMapBytes() const { return getBytes(/*ofMaskMap=*/true, tables.size()); }

private:
  /// The bytes of the first `count` tables, as far as they lie in one of the memories.
  std::optional<GridFormula> getBytes(bool ofMaskMap, unsigned count) const;

  llvm::SmallVector<Table> tables;
};

} // namespace flashc

#endif // FLASHC_LAUNCH_TILETABLES_H
