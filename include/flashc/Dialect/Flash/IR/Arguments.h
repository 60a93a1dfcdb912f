//===- Arguments.h - the arguments of a function that computes attentions -----------------------------------------===//
#ifndef FLASHC_DIALECT_FLASH_IR_ARGUMENTS_H
#define FLASHC_DIALECT_FLASH_IR_ARGUMENTS_H

#include "mlir/IR/Value.h"

namespace mlir::flash {

/// The name of the attribute that names a function's argument.
constexpr llvm::StringLiteral kArgumentNameAttr = "flash.name";

/// If `value` is an argument of a function, or results from one by casts, bufferization.to_tensor and
/// flash.assume_sorted only, returns the argument. Null for other values.
BlockArgument getRootArgument(Value value);

} // namespace mlir::flash

#endif // FLASHC_DIALECT_FLASH_IR_ARGUMENTS_H
