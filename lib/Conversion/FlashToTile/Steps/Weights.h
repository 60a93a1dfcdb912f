//===- Weights.h - probabilities from the log-sum-exp, on tiles ---------------------------------------------------===//
//
// What steps share that compute exp(S - lse) again: of the queries, which are a tile's rows or its columns, there is
// one element each in device memory.
//
//===--------------------------------------------------------------------------------------------------------------===//
#ifndef FLASHC_LIB_CONVERSION_FLASHTOTILE_STEPS_WEIGHTS_H
#define FLASHC_LIB_CONVERSION_FLASHTOTILE_STEPS_WEIGHTS_H

#include "KernelFrame.h"

namespace flashc {

/// Where queries are resident: the element of the operand `name` of each row, loaded once. Null after an error.
mlir::Value emitRowsOfQueries(KernelFrame &frame, llvm::StringRef name);

/// `compute` of each element of `tile` and of what its query has in the operand `name`: `values` of rows
/// (emitRowsOfQueries) or of columns, or without those by column from memory. Null after an error.
mlir::Value emitWithQueries(KernelFrame &frame, mlir::Value visit, mlir::Value position, mlir::Value tile,
                            llvm::StringRef name, mlir::Value values,
                            llvm::function_ref<mlir::Value(mlir::Value, mlir::Value)> compute);

/// exp(score - lse) of the products of a visit, whose first streamed position is `position`, and 0 where the mask keeps
/// nothing. `lse`: of rows, where queries are resident; else null, or the shifts -log2(e) lse of columns. Null after an
/// error.
mlir::Value emitWeights(KernelFrame &frame, mlir::Value visit, mlir::Value position, mlir::Value products,
                        mlir::Value lse);

} // namespace flashc

#endif // FLASHC_LIB_CONVERSION_FLASHTOTILE_STEPS_WEIGHTS_H
