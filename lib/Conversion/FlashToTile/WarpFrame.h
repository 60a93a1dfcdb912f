//===- WarpFrame.h - the frame of a decoding kernel ---------------------------------------------------------------===//
#ifndef FLASHC_LIB_CONVERSION_FLASHTOTILE_WARPFRAME_H
#define FLASHC_LIB_CONVERSION_FLASHTOTILE_WARPFRAME_H

#include "KernelFrame.h"

namespace flashc {

/// `carried`, the schedule of the nest's function, or the default, with overrides. Emits an error and fails if it does
/// not fit.
mlir::FailureOr<Schedule> completeDecodeSchedule(LoopNest &nest, std::optional<Schedule> carried,
                                                 llvm::StringRef target, llvm::StringRef overrides);

/// Parts of the keys along x, tiles of query heads and tokens along y, batches along z.
mlir::FailureOr<std::array<GridFormula, 3>> getPackedExtents(LoopNest &nest);

/// A `tile.warp_program` for a nest of packed rows: each warp has all of the tile's rows, and of the CTA's part of the
/// keys the tiles of 16 that follow its own number in steps of the warps.
///
///   rings of one warp for k and v
///   tile.warp_program {
///     positions; rows of q in registers; what score and mask regions compute of them
///     scf.for over tiles of 16 keys, with the step's state { the step }
///     the states of the warps, and of a cluster's CTAs, as one; the step's outputs are stored
///   }
class WarpFrame : public KernelFrame {
public:
  WarpFrame(LoopNest &nest, const Schedule &schedule, mlir::gpu::GPUFuncOp kernel, KernelSignature &signature);

  mlir::LogicalResult build(TileStep &step) override;
  void emitMerged(mlir::Value &acc, mlir::Value &max, mlir::Value &sum, double factor) override;
  void store(mlir::Value tile, unsigned argument, bool isMatrix) override;
  mlir::LogicalResult storePart(mlir::Value tile, unsigned result) override;
  mlir::Value getSinks() const override;
  mlir::Value getHeadOfRow(mlir::Value row) override { return regions.emitHeadAndQuery(row).first; }

private:
  mlir::LogicalResult checkOperands();
  mlir::LogicalResult emitRings();
  mlir::LogicalResult emitPositions(mlir::Value warp) override;
  mlir::FailureOr<mlir::ValueRange> emitLoop(TileStep &step) override;
  mlir::Value emitScaled(llvm::StringRef name, mlir::Value tile, mlir::Value position) override;
  mlir::Value emitScale(const Operand &operand, mlir::Value page);
  mlir::Value emitPage(const Operand &operand, mlir::Value position);
  mlir::Value load(const Operand &operand, mlir::Value position) override;
  mlir::Value loadBox(const Operand &operand, mlir::Value position);
  /// Clears rows of a slot (tile.clear_rows) where a tile has some.
  void clearIf(mlir::Value condition, mlir::Value slot, mlir::Value first, mlir::Value begin);
  mlir::Value loadRows(const Operand &operand, mlir::Value position);
  bool areBoxes(const Operand &operand);
  mlir::FailureOr<mlir::Value> emitEnd(const Operand &operand);

  mlir::Value warp;
  /// What is stored: the first column of this program's part.
  mlir::Value column;
  /// Where each operand's sequence ends; null where its tiles need not be told.
  llvm::SmallVector<mlir::Value, 3> ends;
  /// Whether keys and values have elements of 8 bits; their scales, but for those of pages.
  bool areBytes = false;
  llvm::StringMap<mlir::Value> scales;
};

} // namespace flashc

#endif // FLASHC_LIB_CONVERSION_FLASHTOTILE_WARPFRAME_H
