//===- Flash.h - the flash dialect (L0, L1) -----------------------------------------------------------------------===//
//
// The ops of L0, such as flash.attention, say what is computed. The ops of L1, such as flash.online_attention and
// flash.finalize, say by which algorithm it is computed. FlashOps.td describes the ops and their constraints.
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

/// The gradients that a backward pass computes.
constexpr Gradients kAllGradients = Gradients::DQ | Gradients::DK | Gradients::DV;

/// Adds up `c`, `[B, Hq, Nk]` or `[B, Hq, Nk, D]`, over the `groupSize` query heads of each of `keyHeads` key heads.
Value emitGroupSums(OpBuilder &b, Location loc, Value c, OpFoldResult keyHeads, int64_t groupSize);
/// Emits the gradients of sinks, `[Hq]` in f32: minus the sum over batches and queries of exp(sinks - lse) * delta.
Value emitSinkGradients(OpBuilder &b, Location loc, Value sinks, Value lse, Value delta);

/// The operands of `emitSinkGradients`. `matchSinkGradients` returns them if `value` is a result of
/// `emitSinkGradients`, otherwise none.
struct SinkGradients {
  Value sinks, lse, delta;
};
std::optional<SinkGradients> matchSinkGradients(Value value);

/// Emits the delta of a backward pass, `[B, Hq, Nq]` in f32: rowsum(o * dout), minus `dlse` if it is not null.
Value emitRowDots(OpBuilder &b, Location loc, Value o, Value dout, Value dlse);
/// The operands of `emitRowDots`. `matchRowDots` returns them if `delta` is a result of `emitRowDots`, otherwise none.
struct RowDots {
  Value o, dout, dlse;
};
std::optional<RowDots> matchRowDots(Value delta);
/// Rounds `x`, a tensor of rank 4 in f32, to `type`.
Value emitRounded(OpBuilder &b, Location loc, Value x, Type type);
/// Whether `op` is an op that `emitRounded` creates.
bool isRounding(linalg::GenericOp op);

/// Emits the position (b, h, i, j) that belongs to an element of the sums of a flash.scatter_sum (see the description
/// of this op). `at` are the indices of the element, `gradients` is the kind of the sums, and `queries` is the number
/// of queries.
SmallVector<Value> emitPairOfSum(OpBuilder &b, Location loc, Gradients gradients, ValueRange at, Value queries);

/// Adapts the regions of `op`, a step on whole sequences, so that tiles may exceed the sequences. The mask then keeps
/// no pair beyond the last query or key. Reads in the regions stay inside of their arrays, even for such a pair.
void guardTilesOfPairs(OpBuilder &b, StepOpInterface op);

/// Returns the group size if `keyHead` is computed as `head floordiv` the group size, which is a constant. 0 otherwise.
int64_t getGroupOfKeyHead(OpFoldResult keyHead, Value head);

/// Clones the ops of the single block of `region` to the insertion point of `b`, with `arguments` in place of the
/// block's arguments. Returns the value that the region yields.
Value inlineRegion(OpBuilder &b, Region &region, ValueRange arguments);

} // namespace mlir::flash

#endif // FLASHC_DIALECT_FLASH_IR_FLASH_H
