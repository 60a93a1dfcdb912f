//===- Arguments.h - the arguments of a function that computes attentions -----------------------------------------===//
#ifndef FLASHC_DIALECT_FLASH_IR_ARGUMENTS_H
#define FLASHC_DIALECT_FLASH_IR_ARGUMENTS_H

#include "mlir/IR/Value.h"

namespace mlir::flash {

/// The name of the attribute that names a function's argument.
constexpr llvm::StringLiteral kArgumentNameAttr = "flash.name";

/// Returns the argument of the entry block that `value` is, through casts and bufferization.to_tensor, or null.
BlockArgument getRootArgument(Value value);

} // namespace mlir::flash

#endif // FLASHC_DIALECT_FLASH_IR_ARGUMENTS_H
