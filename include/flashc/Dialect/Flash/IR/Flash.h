//===- Flash.h - the flash dialect (L0, L1) -----------------------------------------------------------------------===//
//
// `flash.attention` and `flash.column_sums` say what is computed; `flash.online_attention`, `flash.finalize` and
// `flash.accumulate_column_sums` say by which algorithm. The ops and their constraints are described in FlashOps.td.
//
//===--------------------------------------------------------------------------------------------------------------===//
#ifndef FLASHC_DIALECT_FLASH_IR_FLASH_H
#define FLASHC_DIALECT_FLASH_IR_FLASH_H

#include "flashc/Dialect/Flash/IR/Step.h"
#include "mlir/Bytecode/BytecodeOpInterface.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Dialect.h"
#include "mlir/IR/OpDefinition.h"
#include "mlir/Interfaces/ControlFlowInterfaces.h"
#include "mlir/Interfaces/DestinationStyleOpInterface.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "mlir/Interfaces/TilingInterface.h"

#include "flashc/Dialect/Flash/IR/FlashOpsDialect.h.inc"
#include "flashc/Dialect/Flash/IR/FlashOpsEnums.h.inc"

#define GET_ATTRDEF_CLASSES
#include "flashc/Dialect/Flash/IR/FlashOpsAttrs.h.inc"

#include "flashc/Dialect/Flash/IR/FlashInterfaces.h.inc"

#define GET_OP_CLASSES
#include "flashc/Dialect/Flash/IR/FlashOps.h.inc"

namespace mlir::flash {

/// `c [B, Hq, Nk]`, added up over the `groupSize` query heads of each of `keyHeads` key heads.
Value emitGroupSums(OpBuilder &b, Location loc, Value c, OpFoldResult keyHeads, int64_t groupSize);

/// Clones the single block of `region` here with `arguments` for its arguments; returns what it yields.
Value inlineRegion(OpBuilder &b, Region &region, ValueRange arguments);

} // namespace mlir::flash

#endif // FLASHC_DIALECT_FLASH_IR_FLASH_H
