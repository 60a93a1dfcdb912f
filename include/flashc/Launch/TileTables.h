//===- TileTables.h - where tables that kernels of their own compute lie in the workspace -------------------------===//
#ifndef FLASHC_LAUNCH_TILETABLES_H
#define FLASHC_LAUNCH_TILETABLES_H

#include "flashc/Runtime/GridFormula.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

#include <optional>

namespace flashc {

/// A row of the table that stands for a flash.tile_runs in the workspace, in i32. It numbers the visits: first those of
/// masked tiles, then those of full ones, each from the last key to the first. The tiles between two keys of the op are
/// a piece; visit u lies in the last piece that begins at u or before, and its first key is the piece's key less u
/// tiles. So a kernel keeps no piece in registers, of which the producer has few.
///
///   masked visits | all visits | where each piece begins | the key of each piece
struct RunsRow {
  int64_t numRuns;

  /// Of run R - 1 the tiles behind the full ones and those in front of them, then of run R - 2, ...; then the full
  /// ones.
  int64_t getNumMasked() const { return 2 * numRuns; }
  int64_t getNumPieces() const { return 3 * numRuns; }

  static constexpr int64_t kMaskedVisits = 0, kVisits = 1;
  int64_t getBegin(int64_t piece) const { return 2 + piece; }
  int64_t getKey(int64_t piece) const { return 2 + getNumPieces() + piece; }
  int64_t size() const { return 2 + 2 * getNumPieces(); }
};

/// Rows of a flash.row_table that are one tile.
constexpr int64_t kTableRows = 32;

/// An extent of the host function as a formula of the manifest; none if it is neither a constant nor an argument's.
std::optional<GridFormula> getFormula(mlir::OpFoldResult extent);
std::optional<GridFormula> getFormula(mlir::Value array, int64_t dim);

/// Where the results of a function's flash.row_table, flash.tile_minmax and flash.tile_runs lie in the workspace: one
/// behind the other, row by row; and in front of them what else kernels of a launch pass to each other.
class TileTables {
public:
  struct Table {
    mlir::Value value;
    GridFormula tiles; // how many
    int64_t bytes;     // of a tile
  };

  /// Emits an error and fails if an extent is no formula.
  static mlir::FailureOr<TileTables> get(mlir::func::FuncOp host);

  /// In front of those that are there already. Its bytes are a multiple of 16: it lies at one, as do those in front.
  void add(Table table) { tables.insert(tables.begin(), std::move(table)); }
  llvm::ArrayRef<Table> getTables() const { return tables; }
  bool empty() const { return tables.empty(); }
  /// The number of a table; none if the value is not one.
  std::optional<unsigned> getNumber(mlir::Value value) const;
  mlir::Type getElementType(unsigned number) const;
  /// Where a table begins, in bytes; none: at the workspace's first.
  std::optional<GridFormula> getOffset(unsigned number) const;
  std::optional<GridFormula> getTotalBytes() const { return getOffset(tables.size()); }

private:
  llvm::SmallVector<Table> tables;
};

} // namespace flashc

#endif // FLASHC_LAUNCH_TILETABLES_H
