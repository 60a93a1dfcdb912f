//===- WarpFrame.h - the frame of a decoding kernel ---------------------------------------------------------------===//
#ifndef FLASHC_LIB_CONVERSION_FLASHTOTILE_WARPFRAME_H
#define FLASHC_LIB_CONVERSION_FLASHTOTILE_WARPFRAME_H

#include "KernelFrame.h"

namespace flashc {

/// `carried`, the schedule of the nest's function, or the default, with overrides. Emits an error and fails if it does
/// not fit.
mlir::FailureOr<Schedule> completeDecodeSchedule(LoopNest &nest, std::optional<Schedule> carried,
                                                 llvm::StringRef target, llvm::StringRef overrides);

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
  using KernelFrame::KernelFrame;

private:
  mlir::FailureOr<mlir::SmallVector<mlir::Value>> emitGrid() override { return mlir::SmallVector<mlir::Value>(); }
  mlir::FailureOr<mlir::ValueRange> emitLoop(TileStep &step) override;
};

} // namespace flashc

#endif // FLASHC_LIB_CONVERSION_FLASHTOTILE_WARPFRAME_H
