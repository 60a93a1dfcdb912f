//===- GroupSums.h - sums over the query heads that share a key head ----------------------------------------------===//
#ifndef FLASHC_DIALECT_FLASH_IR_GROUPSUMS_H
#define FLASHC_DIALECT_FLASH_IR_GROUPSUMS_H

#include "llvm/ADT/StringRef.h"

namespace mlir::flash {

/// On what adds up the heads of groups (emitGroupSums): a kernel may take the sum in any order. Without it every run
/// has the order of the heads' numbers.
constexpr llvm::StringLiteral kAnyOrderAttr = "flash.any_order";

} // namespace mlir::flash

#endif // FLASHC_DIALECT_FLASH_IR_GROUPSUMS_H
