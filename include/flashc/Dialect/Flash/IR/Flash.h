//===- Flash.h - the flash dialect (L0, L1) -----------------------------------------------------------------------===//
//
// `flash.attention` and `flash.column_sums` say what is computed; `flash.online_attention`, `flash.finalize` and
// `flash.accumulate_column_sums` say by which algorithm. The ops and their constraints are described in FlashOps.td.
//
//===--------------------------------------------------------------------------------------------------------------===//
#ifndef FLASHC_DIALECT_FLASH_IR_FLASH_H
#define FLASHC_DIALECT_FLASH_IR_FLASH_H

#include "flashc/Dialect/Flash/IR/Dropout.h"
#include "flashc/Dialect/Flash/IR/Step.h"
#include "mlir/Bytecode/BytecodeOpInterface.h"
#include "mlir/Dialect/Bufferization/IR/BufferizableOpInterface.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Dialect.h"
#include "mlir/IR/OpDefinition.h"
#include "mlir/Interfaces/ControlFlowInterfaces.h"
#include "mlir/Interfaces/DestinationStyleOpInterface.h"
#include "mlir/Interfaces/InferTypeOpInterface.h"
#include "mlir/Interfaces/ParallelCombiningOpInterface.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "mlir/Interfaces/TilingInterface.h"
#include "mlir/Interfaces/ViewLikeInterface.h"

#include "flashc/Dialect/Flash/IR/FlashOpsDialect.h.inc"
#include "flashc/Dialect/Flash/IR/FlashOpsEnums.h.inc"

#define GET_ATTRDEF_CLASSES
#include "flashc/Dialect/Flash/IR/FlashOpsAttrs.h.inc"

#include "flashc/Dialect/Flash/IR/FlashInterfaces.h.inc"

#define GET_OP_CLASSES
#include "flashc/Dialect/Flash/IR/FlashOps.h.inc"

namespace mlir::flash {

/// What a backward pass computes.
constexpr Gradients kAllGradients = Gradients::DQ | Gradients::DK | Gradients::DV;

/// `c [B, Hq, Nk]` or `[B, Hq, Nk, D]`, added up over the `groupSize` query heads of each of `keyHeads` key heads.
Value emitGroupSums(OpBuilder &b, Location loc, Value c, OpFoldResult keyHeads, int64_t groupSize);
/// The gradients of sinks, `[Hq]`: minus the sum over batches and queries of exp(sinks - lse) * delta. In f32.
Value emitSinkGradients(OpBuilder &b, Location loc, Value sinks, Value lse, Value delta);

/// What emitSinkGradients was given; nothing if `value` is not what it makes.
struct SinkGradients {
  Value sinks, lse, delta;
};
std::optional<SinkGradients> matchSinkGradients(Value value);

/// The delta of a backward pass, `[B, Hq, Nq]`: rowsum(o * dout), minus `dlse` if it is not null. In f32.
Value emitRowDots(OpBuilder &b, Location loc, Value o, Value dout, Value dlse);
/// What `emitRowDots` was given, if `delta` is its result.
struct RowDots {
  Value o, dout, dlse;
};
std::optional<RowDots> matchRowDots(Value delta);
/// `x`, a tensor of rank 4 in f32, rounded to `type`.
Value emitRounded(OpBuilder &b, Location loc, Value x, Type type);
/// Whether `op` is what `emitRounded` makes.
bool isRounding(linalg::GenericOp op);

/// The position (b, h, i, j) that the region of a flash.scatter_sum is given for the element `at` of sums of
/// `gradients`, where there are `queries` queries.
SmallVector<Value> emitPairOfSum(OpBuilder &b, Location loc, Gradients gradients, ValueRange at, Value queries);

/// Has the regions of a step on whole sequences take pairs beyond the last query or key, too, which its tiles stick out
/// to: its mask keeps none of them, and reads stay inside their arrays.
void guardTilesOfPairs(OpBuilder &b, StepOpInterface op);

/// Clones the single block of `region` here with `arguments` for its arguments; returns what it yields.
Value inlineRegion(OpBuilder &b, Region &region, ValueRange arguments);

} // namespace mlir::flash

#endif // FLASHC_DIALECT_FLASH_IR_FLASH_H
