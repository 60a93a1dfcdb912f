//===- GroupSums.h - sums over the query heads that share a key head ----------------------------------------------===//
#ifndef FLASHC_DIALECT_FLASH_IR_GROUPSUMS_H
#define FLASHC_DIALECT_FLASH_IR_GROUPSUMS_H

#include "llvm/ADT/StringRef.h"

namespace mlir::flash {

/// The attribute on a sum over the heads of groups (emitGroupSums) that lets a kernel add in any order. Without it the
/// heads are added in the order of their numbers.
constexpr llvm::StringLiteral kAnyOrderAttr = "flash.any_order";

} // namespace mlir::flash

#endif // FLASHC_DIALECT_FLASH_IR_GROUPSUMS_H
