//===- Weights.h - probabilities from the log-sum-exp, on tiles ---------------------------------------------------===//
//
// Code for the steps that compute exp(S - lse) again. Queries are the rows or the columns of a tile. Device memory has
// one element of lse for each query.
//
//===--------------------------------------------------------------------------------------------------------------===//
#ifndef FLASHC_LIB_CONVERSION_FLASHTOTILE_STEPS_WEIGHTS_H
#define FLASHC_LIB_CONVERSION_FLASHTOTILE_STEPS_WEIGHTS_H

#include "KernelFrame.h"

namespace flashc {

/// Loads, for each row, the element that operand `name` has for the row's query. Only if queries are resident. Null
/// after an error.
mlir::Value emitRowsOfQueries(KernelFrame &frame, llvm::StringRef name);

/// Emits a tile by calling `compute` with each element of `tile` and the element that operand `name` has for its query.
/// `values` holds the operand's elements for the rows (emitRowsOfQueries) or for the columns. If `values` is null, the
/// elements of the columns are loaded from memory. Null after an error.
mlir::Value emitWithQueries(KernelFrame &frame, mlir::Value visit, mlir::Value position, mlir::Value tile,
                            llvm::StringRef name, mlir::Value values,
                            llvm::function_ref<mlir::Value(mlir::Value, mlir::Value)> compute);

/// Emits exp(score - lse) from the products of a visit, with 0 where the mask keeps nothing. `position` is the first
/// streamed position. If queries are resident, `lse` has one value for each row. Otherwise `lse` is null or holds the
/// shifts of the columns, -log2(e) * lse. Null after an error.
mlir::Value emitWeights(KernelFrame &frame, mlir::Value visit, mlir::Value position, mlir::Value products,
                        mlir::Value lse);

} // namespace flashc

#endif // FLASHC_LIB_CONVERSION_FLASHTOTILE_STEPS_WEIGHTS_H
