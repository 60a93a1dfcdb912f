//===- TileTables.h - tables that kernels of their own compute ----------------------------------------------------===//
#ifndef FLASHC_LIB_CONVERSION_FLASHTOTILE_TILETABLES_H
#define FLASHC_LIB_CONVERSION_FLASHTOTILE_TILETABLES_H

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/GPU/IR/GPUDialect.h"

#include <optional>
#include <string>

namespace flashc {

/// An extent of the host function as a formula of the manifest, or an empty string.
std::string getFormula(mlir::OpFoldResult extent);
std::string getFormula(mlir::Value array, int64_t dim);

/// Where the results of a function's flash.row_table, flash.tile_minmax and flash.tile_runs lie in the workspace: one
/// behind the other, row by row.
class TileTables {
public:
  /// Emits an error and fails if an extent is no formula.
  static mlir::FailureOr<TileTables> get(mlir::func::FuncOp host);

  bool empty() const { return tables.empty(); }
  /// The number of a table; none if the value is not one.
  std::optional<unsigned> getNumber(mlir::Value value) const;
  mlir::Type getElementType(unsigned number) const;
  /// A formula: where a table begins, in bytes.
  std::string getOffset(unsigned number) const;
  std::string getTotalBytes() const { return getOffset(tables.size()); }

  /// Makes a kernel for tables of rows, another for those of arrays and a third one for those of runs, where there are
  /// such, behind `main`, which they are named for: eight warps in a CTA, a warp for each tile. Returns the manifest's
  /// `before`, or fails after an error.
  mlir::FailureOr<mlir::ArrayAttr> emitKernels(mlir::func::FuncOp host, mlir::gpu::GPUFuncOp main) const;

private:
  struct Table {
    mlir::Value value;
    std::string tiles; // how many
    int64_t bytes;     // of a tile
  };

  mlir::FailureOr<mlir::DictionaryAttr> emitKernel(mlir::func::FuncOp host, mlir::gpu::GPUFuncOp main,
                                                   llvm::StringRef suffix, llvm::ArrayRef<Table> some) const;

  llvm::SmallVector<Table> tables;
};

} // namespace flashc

#endif // FLASHC_LIB_CONVERSION_FLASHTOTILE_TILETABLES_H
