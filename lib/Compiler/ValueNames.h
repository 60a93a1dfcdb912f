//===- ValueNames.h - formulas for people -------------------------------------------------------------------------===//
#ifndef FLASHC_LIB_COMPILER_VALUENAMES_H
#define FLASHC_LIB_COMPILER_VALUENAMES_H

#include "flashc/Dialect/Flash/IR/Flash.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/AsmState.h"

#include <string>
#include <vector>

namespace flashc {

/// Writes the values of a function at L1 as formulas of what its caller knows: extents (B, Hq, Hk, Nq, Nk), arguments
/// by their names, the positions b, h, i, j of a mask and i0, j0 of a tile.
class ValueNames {
public:
  /// `arguments`: the names of the function's arguments.
  ValueNames(mlir::func::FuncOp function, mlir::flash::OnlineAttentionOp tile, std::vector<std::string> arguments);

  /// `text`, printed by `state`, with formulas in the place of SSA names.
  std::string rewrite(llvm::StringRef text, mlir::AsmState &state);
  /// A sum or product is in parentheses. Names by `state` what has no formula.
  std::string describe(mlir::Value value, mlir::AsmState &state);

private:
  std::string describeOp(mlir::Operation *op, mlir::AsmState &state);
  std::string describeExtent(mlir::Operation *dim, mlir::AsmState &state);

  mlir::func::FuncOp function;
  std::vector<std::string> arguments;
  llvm::DenseMap<mlir::Value, std::string> names;
};

} // namespace flashc

#endif // FLASHC_LIB_COMPILER_VALUENAMES_H
