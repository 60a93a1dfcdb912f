//===- Weights.h - probabilities from the log-sum-exp, on tiles ---------------------------------------------------===//
//
// Code that steps share which compute exp(S - lse) again. Queries are the rows or the columns of a tile, and device
// memory has one element of lse for each.
//
//===--------------------------------------------------------------------------------------------------------------===//
#ifndef FLASHC_LIB_CONVERSION_FLASHTOTILE_STEPS_WEIGHTS_H
#define FLASHC_LIB_CONVERSION_FLASHTOTILE_STEPS_WEIGHTS_H

#include "KernelFrame.h"

namespace flashc {

/// If queries are resident: the element of operand `name` for each row, loaded once. Null after an error.
mlir::Value emitRowsOfQueries(KernelFrame &frame, llvm::StringRef name);

/// Emits `compute` of each element of `tile` and of the element of operand `name` for its query: `values` for rows
/// (emitRowsOfQueries) or for columns; null `values` are loaded from memory for each column. Null after an error.
mlir::Value emitWithQueries(KernelFrame &frame, mlir::Value visit, mlir::Value position, mlir::Value tile,
                            llvm::StringRef name, mlir::Value values,
                            llvm::function_ref<mlir::Value(mlir::Value, mlir::Value)> compute);

/// Emits exp(score - lse) of the products of a visit, whose first streamed position is `position`, and 0 where the mask
/// keeps nothing. `lse`: one value for each row if queries are resident; otherwise null, or the shifts -log2(e) lse of
/// columns. Null after an error.
mlir::Value emitWeights(KernelFrame &frame, mlir::Value visit, mlir::Value position, mlir::Value products,
                        mlir::Value lse);

} // namespace flashc

#endif // FLASHC_LIB_CONVERSION_FLASHTOTILE_STEPS_WEIGHTS_H
