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

/// Emits a tile by calling `compute` with two values for each element: the element of `tile`, and the element that
/// operand `name` has for the same query. `values` holds the operand's elements for the rows (emitRowsOfQueries) or for
/// the columns. If `values` is null, queries are the columns, and the elements are loaded from memory. Null after an
/// error.
mlir::Value emitWithQueries(KernelFrame &frame, mlir::Value visit, mlir::Value position, mlir::Value tile,
                            llvm::StringRef name, mlir::Value values,
                            llvm::function_ref<mlir::Value(mlir::Value, mlir::Value)> compute);

/// Emits exp(score - lse) from the products of a visit, with 0 for pairs that the mask does not keep. `position` is the
/// first streamed position. If queries are the rows of the tile, `lse` holds the log-sum-exp of each row's query. If
/// queries are the columns, `lse` holds the shift of each column's query (DeltaKernel.cpp): -log2(e) times the
/// log-sum-exp, or -inf if the log-sum-exp is -inf. In this case `lse` may be null, and the log-sum-exps are then
/// loaded from memory. Returns null after an error.
mlir::Value emitWeights(KernelFrame &frame, mlir::Value visit, mlir::Value position, mlir::Value products,
                        mlir::Value lse);

} // namespace flashc

#endif // FLASHC_LIB_CONVERSION_FLASHTOTILE_STEPS_WEIGHTS_H
