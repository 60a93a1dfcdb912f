//===- TableKernel.h - the kernel that computes a table of tiles --------------------------------------------------===//
#ifndef FLASHC_CONVERSION_HOSTTOKERNEL_TABLEKERNEL_H
#define FLASHC_CONVERSION_HOSTTOKERNEL_TABLEKERNEL_H

#include "flashc/Conversion/HostToKernel/ScalarCloner.h"
#include "flashc/Dialect/Flash/IR/Flash.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"

namespace flashc {

constexpr int64_t kTableThreads = 256;

/// Writes the body of a kernel whose CTAs have kTableThreads threads, and whose warps compute a tile of a table each,
/// those of one table behind those of another:
///
///   flash.row_table     a tile is kTableRows rows; each lane computes one.
///   flash.tile_minmax   lane l of 32 looks at the elements l, l + 32, ... of the tile; then the lanes exchange what
///                       they have (shfl.sync), and the first one writes the least and the greatest.
///   flash.tile_runs     lane l looks at the key tile 32 n + l, in steps n; by a vote every lane learns which of the 32
///                       are visited, and which are full, and goes through those; the first one writes the runs.
///
/// Warps beyond the last tile leave; in those with exchanges all lanes meet every one.
class TableKernel {
public:
  TableKernel(mlir::gpu::GPUFuncOp kernel, KernelSignature &signature)
      : b(kernel.getLoc(), kernel.getContext()), kernel(kernel), signature(signature) {}

  /// Fails after an error. The ops make tables that do not read each other.
  mlir::LogicalResult emit(mlir::ArrayRef<mlir::Operation *> ops);

private:
  /// `first` is the first of the op's warps; returns how many it has.
  mlir::FailureOr<mlir::Value> emitTable(mlir::Operation *op, mlir::Value first);
  mlir::LogicalResult emitRowValue(mlir::flash::RowTableOp op, mlir::ValueRange place);
  mlir::LogicalResult emitMinMax(mlir::flash::TileMinMaxOp op, mlir::ValueRange place);
  mlir::LogicalResult emitRuns(mlir::flash::TileRunsOp op, mlir::ValueRange place);
  /// The state of the runs behind the 32 key tiles from `first` on.
  mlir::FailureOr<mlir::SmallVector<mlir::Value>> emitStep(mlir::flash::TileRunsOp op, mlir::ValueRange place,
                                                           mlir::Value first, mlir::ValueRange state);
  mlir::SmallVector<mlir::Value> emitVisits(mlir::flash::TileRunsOp op, mlir::Value first, mlir::Value visited,
                                            mlir::Value full, mlir::ValueRange state);
  /// A row of the table (RunsRow) from the four keys of each run.
  mlir::SmallVector<mlir::Value> emitRow(mlir::flash::TileRunsOp op, mlir::ValueRange keys);
  /// The same value in all lanes: the least or the greatest of theirs.
  mlir::Value emitReduce(mlir::Value value, bool isMin);
  mlir::Value emitBallot(mlir::Value condition);
  /// The first lane writes the elements of this warp's tile.
  void emitStore(mlir::Operation *op, mlir::ValueRange elements);

  mlir::Value index(int64_t value) { return mlir::arith::ConstantIndexOp::create(b, value); }
  mlir::Value i32(int64_t value) { return mlir::arith::ConstantOp::create(b, b.getI32IntegerAttr(value)); }
  mlir::Value add(mlir::Value x, mlir::Value y) { return b.createOrFold<mlir::arith::AddIOp>(x, y); }
  mlir::Value mul(mlir::Value x, int64_t y) { return b.createOrFold<mlir::arith::MulIOp>(x, index(y)); }
  mlir::Value isBelow(mlir::Value x, mlir::Value y) {
    return mlir::arith::CmpIOp::create(b, mlir::arith::CmpIPredicate::ult, x, y);
  }

  mlir::ImplicitLocOpBuilder b;
  mlir::gpu::GPUFuncOp kernel;
  KernelSignature &signature;
  /// For the table that is written: what it copies is seen there only.
  std::optional<ScalarCloner> scalars;
  /// `tile` is the number of this warp's tile in the table that is written, or of this lane's row.
  mlir::Value warp, lane, tile;
};

/// Makes a kernel for tables of rows, another for those of arrays and a third one for those of runs, where there are
/// such, behind `main`, which they are named for: eight warps in a CTA, a warp for each tile. Returns how they are
/// launched, or fails after an error.
mlir::FailureOr<std::vector<ManifestKernel>> emitTableKernels(mlir::func::FuncOp host, mlir::gpu::GPUFuncOp main,
                                                              const TileTables &tables);

} // namespace flashc

#endif // FLASHC_CONVERSION_HOSTTOKERNEL_TABLEKERNEL_H
