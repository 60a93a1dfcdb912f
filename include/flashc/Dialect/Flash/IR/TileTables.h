//===- TileTables.h - what is known at run time only --------------------------------------------------------------===//
//
// The code of flash.row_table, flash.tile_range, flash.tile_classes and flash.tile_runs, where it is the same on the
// CPU and in a kernel.
//
//===--------------------------------------------------------------------------------------------------------------===//
#ifndef FLASHC_DIALECT_FLASH_IR_TILETABLES_H
#define FLASHC_DIALECT_FLASH_IR_TILETABLES_H

#include "flashc/Dialect/Flash/IR/Flash.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"

namespace mlir::flash {

/// The classes of tiles: of flash.tile_classes, and what the region of a flash.tile_runs yields.
enum class TileVisit { Skipped, Masked, Full };

/// The class of a tile by whether a pair of it is kept, and whether one is not: i32 from two i1.
Value emitTileClass(ImplicitLocOpBuilder &b, Value isKept, Value isCut);

/// Runs that flash-bound-loops asks for: their fifteen loops take four steps of a search, and a kernel's row of the
/// table one line of a cache, 128 bytes.
constexpr int64_t kTileRuns = 5;

/// The runs of one tile of queries while its tiles of keys go by in ascending order, as values of type index. Each run
/// has four keys (see flash.tile_runs); behind the last run stand the ends of the row of full tiles that is seen now.
///
/// A new run pushes the others forward: of the runs and the new one, the neighbours with the least between them become
/// one. At first all runs are empty, so that these go first, and a run that touches the new tile takes it.
class RunsBuilder {
public:
  RunsBuilder(ImplicitLocOpBuilder &b, int64_t numRuns, int64_t kvTile) : b(b), numRuns(numRuns), kvTile(kvTile) {}

  SmallVector<Value> emitNone();
  /// The state behind a tile at `key` that is visited.
  SmallVector<Value> emitVisit(ValueRange state, Value key, Value isFull);
  /// The four keys of each run.
  ValueRange getRuns(ValueRange state) const { return state.take_front(4 * numRuns); }

private:
  Value index(int64_t value) { return arith::ConstantIndexOp::create(b, value); }
  Value sub(Value x, Value y) { return arith::SubIOp::create(b, x, y); }
  Value compare(arith::CmpIPredicate predicate, Value x, Value y) { return arith::CmpIOp::create(b, predicate, x, y); }
  Value select(Value condition, Value x, Value y) { return arith::SelectOp::create(b, condition, x, y); }
  Value emitMergePosition(ArrayRef<Value> runs);
  void emitFull(MutableArrayRef<Value> state, Value key, Value next, Value isFull);

  ImplicitLocOpBuilder &b;
  int64_t numRuns, kvTile;
};

/// The place in the table of a flash.tile_runs that a bound of a loop is read from; null for another bound.
tensor::ExtractOp matchRunsElement(OpFoldResult bound);

/// An element as it is compared: an i64.
Value emitRangedElement(ImplicitLocOpBuilder &b, Value element);

/// The ops as loops on the CPU.
Value expandInPlace(OpBuilder &b, RowTableOp op);
SmallVector<Value> expandInPlace(OpBuilder &b, TileRangeOp op);
Value expandInPlace(OpBuilder &b, TileClassesOp op);
Value expandInPlace(OpBuilder &b, TileRunsOp op);

} // namespace mlir::flash

#endif // FLASHC_DIALECT_FLASH_IR_TILETABLES_H
