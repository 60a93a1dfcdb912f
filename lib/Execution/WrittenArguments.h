//===- WrittenArguments.h - which arrays of its caller a function changes -----------------------------------------===//
#ifndef FLASHC_LIB_EXECUTION_WRITTENARGUMENTS_H
#define FLASHC_LIB_EXECUTION_WRITTENARGUMENTS_H

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/BitVector.h"

namespace flashc {

/// Returns a bit for each argument of `function` that is a memref and that the function may write: directly, through
/// views, or in a function that it calls. A use that is not known to be a read counts as a write.
llvm::BitVector findWrittenArguments(mlir::func::FuncOp function);

} // namespace flashc

#endif // FLASHC_LIB_EXECUTION_WRITTENARGUMENTS_H
