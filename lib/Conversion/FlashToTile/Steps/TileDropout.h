//===- TileDropout.h - probabilities that are dropped, on tiles ---------------------------------------------------===//
#ifndef FLASHC_LIB_CONVERSION_FLASHTOTILE_STEPS_TILEDROPOUT_H
#define FLASHC_LIB_CONVERSION_FLASHTOTILE_STEPS_TILEDROPOUT_H

#include "KernelFrame.h"

namespace flashc {

/// Dropout of a step, if it has some.
class TileDropout {
public:
  explicit TileDropout(KernelFrame &frame) : frame(frame), dropout(frame.nest.getDropout()) {}

  /// Emits an error and fails if tiles begin elsewhere than blocks of random numbers do, for all that is known.
  mlir::LogicalResult check() const;
  /// Emits the reads of the seed and the offset, in front of all tiles.
  void emitReads();
  /// Which elements of the streamed tile at `position` are kept; null without dropout. Fails after an error.
  mlir::FailureOr<mlir::Value> emitMask(mlir::Value position);
  /// `values` where `mask` keeps them, and 0 elsewhere; without a mask `values`.
  mlir::Value emitKept(mlir::Value values, mlir::Value mask);
  /// What is kept is to be multiplied with this; 1 without dropout.
  double getScale() const { return dropout ? dropout->getScale() : 1.0; }

private:
  KernelFrame &frame;
  std::optional<mlir::flash::Dropout> dropout;
  mlir::Value seed, offset;
};

} // namespace flashc

#endif // FLASHC_LIB_CONVERSION_FLASHTOTILE_STEPS_TILEDROPOUT_H
