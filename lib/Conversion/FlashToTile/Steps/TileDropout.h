//===- TileDropout.h - dropout on tiles ---------------------------------------------------------------------------===//
#ifndef FLASHC_LIB_CONVERSION_FLASHTOTILE_STEPS_TILEDROPOUT_H
#define FLASHC_LIB_CONVERSION_FLASHTOTILE_STEPS_TILEDROPOUT_H

#include "KernelFrame.h"

namespace flashc {

/// The dropout of a step, if it has any.
class TileDropout {
public:
  explicit TileDropout(KernelFrame &frame) : frame(frame), dropout(frame.nest.getDropout()) {}

  /// Emits an error and fails unless tiles begin at blocks of random numbers.
  mlir::LogicalResult check() const;
  /// Emits the loads of the seed and the offset, before all tiles.
  void emitReads();
  /// Emits which elements of the streamed tile at `position` are kept. Null without dropout. Fails after an error.
  mlir::FailureOr<mlir::Value> emitMask(mlir::Value position);
  /// Returns `values`, with 0 for the elements that `mask` does not keep. Returns `values` itself if `mask` is null.
  mlir::Value clearDropped(mlir::Value values, mlir::Value mask);
  /// Returns the factor for kept elements. It is 1 without dropout.
  double getScale() const { return dropout ? dropout->getScale() : 1.0; }

private:
  KernelFrame &frame;
  std::optional<mlir::flash::Dropout> dropout;
  mlir::Value seed, offset;
};

} // namespace flashc

#endif // FLASHC_LIB_CONVERSION_FLASHTOTILE_STEPS_TILEDROPOUT_H
