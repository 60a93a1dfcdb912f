//===- ValueNames.h - formulas for people -------------------------------------------------------------------------===//
#ifndef FLASHC_LIB_COMPILER_VALUENAMES_H
#define FLASHC_LIB_COMPILER_VALUENAMES_H

#include "flashc/Analysis/MaskSet.h"
#include "flashc/Dialect/Flash/IR/Flash.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/AsmState.h"

#include <string>
#include <vector>

namespace flashc {

/// Writes values of a function at L1 as formulas. The formulas use names that people know: the extents B, Hq, Hk, Nq
/// and Nk, the names of arguments, the positions b, h, i and j in a mask, and the begins i0 and j0 of a tile.
class ValueNames {
public:
  /// `arguments` are the names of the function's arguments.
  ValueNames(mlir::func::FuncOp function, mlir::flash::StepOpInterface tile, std::vector<std::string> arguments);

  using At = mlir::flash::MaskSpace::At;
  /// Returns the formula of `value` for any query, or for the first or the last query of the tile. A sum or a product
  /// is in parentheses. If a value has no formula, its SSA name stands for it.
  std::string describe(mlir::Value value, At at = At::Anywhere);

private:
  std::string describeOp(mlir::Operation *op, At at);
  std::string describeExtent(mlir::Operation *dim);
  std::string printOperand(mlir::Value value);

  mlir::AsmState state;
  std::vector<std::string> arguments;
  /// The names of values, indexed by At: names that hold for any query of the tile, for its first one, and for its last
  /// one.
  llvm::DenseMap<mlir::Value, std::string> names[3];
};

} // namespace flashc

#endif // FLASHC_LIB_COMPILER_VALUENAMES_H
