//===- TileTables.h - tables that are computed at run time --------------------------------------------------------===//
//
// The code for flash.row_table, flash.tile_range, flash.tile_classes and flash.tile_runs that the CPU and kernels
// share.
//
//===--------------------------------------------------------------------------------------------------------------===//
#ifndef FLASHC_DIALECT_FLASH_IR_TILETABLES_H
#define FLASHC_DIALECT_FLASH_IR_TILETABLES_H

#include "flashc/Dialect/Flash/IR/Flash.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"

namespace mlir::flash {

/// The classes of tiles. They are the elements of flash.tile_classes, and the region of flash.tile_runs yields one.
enum class TileVisit { Skipped, Masked, Full };

/// Emits the class of a tile as an i32. The i1 `isKept` says whether some pair of the tile is kept, and the i1 `isCut`
/// whether some pair is not kept.
Value emitTileClass(ImplicitLocOpBuilder &b, Value isKept, Value isCut);

/// The number of runs that flash-bound-loops asks for. Each run has three loops, so a binary search finds one of the
/// fifteen loops in four steps. The twenty keys of the five runs fit a cache line of 128 bytes.
constexpr int64_t kTileRuns = 5;

/// Emits code that builds the runs of one tile of queries. The code visits the tiles of keys that are not skipped, in
/// ascending order, and updates a state. The state has values of type index: four keys for each run (see
/// flash.tile_runs), and then the begin and the end of the current sequence of consecutive full tiles.
///
/// A tile that touches the last run extends this run. Any other tile begins a new run. Then the two neighbouring runs
/// with the smallest gap between them are merged, so that the number of runs stays the same. One of these two runs may
/// be the new one. At first all runs are empty, and empty runs are merged first.
class RunsBuilder {
public:
  RunsBuilder(ImplicitLocOpBuilder &b, int64_t numRuns, int64_t kvTile) : b(b), numRuns(numRuns), kvTile(kvTile) {}

  SmallVector<Value> emitNone();
  /// Emits the state after the visit of the tile that begins at `key`.
  SmallVector<Value> emitVisit(ValueRange state, Value key, Value isFull);
  /// Returns the four keys of each run.
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

/// If `bound`, a bound of a loop, is read from a flash.tile_runs table, returns this read. Null for other bounds.
tensor::ExtractOp matchRunsElement(OpFoldResult bound);

/// Converts `element` to an i64. Elements are compared in this type when their range is computed.
Value emitRangedElement(ImplicitLocOpBuilder &b, Value element);

/// Expands `op` into loops for the CPU.
Value expandInPlace(OpBuilder &b, RowTableOp op);
SmallVector<Value> expandInPlace(OpBuilder &b, TileRangeOp op);
Value expandInPlace(OpBuilder &b, TileClassesOp op);
Value expandInPlace(OpBuilder &b, TileRunsOp op);

} // namespace mlir::flash

#endif // FLASHC_DIALECT_FLASH_IR_TILETABLES_H
