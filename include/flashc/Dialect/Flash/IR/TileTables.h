//===- TileTables.h - tables that are computed at run time --------------------------------------------------------===//
//
// The code of flash.row_table, flash.tile_range, flash.tile_classes and flash.tile_runs that the CPU and kernels share.
//
//===--------------------------------------------------------------------------------------------------------------===//
#ifndef FLASHC_DIALECT_FLASH_IR_TILETABLES_H
#define FLASHC_DIALECT_FLASH_IR_TILETABLES_H

#include "flashc/Dialect/Flash/IR/Flash.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"

namespace mlir::flash {

/// The classes of tiles: the elements of flash.tile_classes, and the values that the region of a flash.tile_runs
/// yields.
enum class TileVisit { Skipped, Masked, Full };

/// Emits the class of a tile (i32) from two i1: whether a pair of the tile is kept, and whether a pair is not kept.
Value emitTileClass(ImplicitLocOpBuilder &b, Value isKept, Value isCut);

/// The number of runs that flash-bound-loops asks for. A search finds one of their fifteen loops in four steps, and a
/// row of the table fits one cache line of 128 bytes.
constexpr int64_t kTileRuns = 5;

/// Emits code that builds the runs of one tile of queries from its tiles of keys, in ascending order. The state
/// consists of values of type index: four keys for each run (see flash.tile_runs), and then the two ends of the current
/// row of full tiles.
///
/// A tile that touches the last run extends it. Otherwise it begins a new run, for which the two neighbouring runs, the
/// new one included, with the smallest gap are merged. At first all runs are empty, and these are merged first.
class RunsBuilder {
public:
  RunsBuilder(ImplicitLocOpBuilder &b, int64_t numRuns, int64_t kvTile) : b(b), numRuns(numRuns), kvTile(kvTile) {}

  SmallVector<Value> emitNone();
  /// Emits the state after a tile at `key` that is visited.
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

/// Returns the read of a flash.tile_runs table that `bound`, a bound of a loop, is; null for other bounds.
tensor::ExtractOp matchRunsElement(OpFoldResult bound);

/// Converts `element`, a value whose range is computed, to an i64, as which it is compared.
Value emitRangedElement(ImplicitLocOpBuilder &b, Value element);

/// Expands the ops into loops on the CPU.
Value expandInPlace(OpBuilder &b, RowTableOp op);
SmallVector<Value> expandInPlace(OpBuilder &b, TileRangeOp op);
Value expandInPlace(OpBuilder &b, TileClassesOp op);
Value expandInPlace(OpBuilder &b, TileRunsOp op);

} // namespace mlir::flash

#endif // FLASHC_DIALECT_FLASH_IR_TILETABLES_H
