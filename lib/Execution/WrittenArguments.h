//===- WrittenArguments.h - which arrays of its caller a function changes -----------------------------------------===//
#ifndef FLASHC_LIB_EXECUTION_WRITTENARGUMENTS_H
#define FLASHC_LIB_EXECUTION_WRITTENARGUMENTS_H

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/BitVector.h"

namespace flashc {

/// A bit for each argument of `function` that is a memref and that it may write: by itself, through views, or in what
/// it calls. What is not known to be read only counts as written.
llvm::BitVector findWrittenArguments(mlir::func::FuncOp function);

} // namespace flashc

#endif // FLASHC_LIB_EXECUTION_WRITTENARGUMENTS_H
