//===- Walk.h - over what a kernel walks --------------------------------------------------------------------------===//
//
// The work tiles of a kernel, and the steps in each: what the grid is of, in which order a CTA takes work tiles, and
// the loop over streamed tiles. A kind of walks is one file of this folder and one line of FrameKinds.def.
//
//===--------------------------------------------------------------------------------------------------------------===//
#ifndef FLASHC_LIB_CONVERSION_FLASHTOTILE_WALKS_WALK_H
#define FLASHC_LIB_CONVERSION_FLASHTOTILE_WALKS_WALK_H

#include "KernelFrame.h"

namespace flashc {

class Walk {
public:
  explicit Walk(KernelFrame &frame)
      : frame(frame), nest(frame.nest), schedule(frame.schedule), scalars(frame.scalars), b(frame.b) {}
  virtual ~Walk() = default;

  /// The extents of the grid, where a CTA may have other work tiles than its number says; none elsewhere.
  virtual mlir::FailureOr<llvm::SmallVector<mlir::Value>> emitGrid() { return llvm::SmallVector<mlir::Value>(); }
  /// How the work tiles of the grid are distributed.
  virtual mlir::tile::WorkAttr getWork() const { return {}; }
  /// Emits where the unit is, and what sources and regions compute of that.
  virtual mlir::LogicalResult emitPositions();
  /// Emits the loop over steps; returns the state after it.
  virtual mlir::FailureOr<mlir::ValueRange> emitLoop(TileStep &step) = 0;

protected:
  /// Emits what a step needs of where it is.
  virtual mlir::LogicalResult enter(mlir::Value visit) { return mlir::success(); }
  /// Emits the body of the loop: one step, whose state the loop carries. Returns the loop's results.
  mlir::FailureOr<mlir::ValueRange> fillLoop(mlir::scf::ForOp loop, TileStep &step);
  mlir::Value index(int64_t value) { return frame.index(value); }

  KernelFrame &frame;
  LoopNest &nest;
  const Schedule &schedule;
  ScalarCloner &scalars;
  mlir::ImplicitLocOpBuilder &b;
};

/// The walk of a frame: the first kind of FrameKinds.def that takes it.
std::unique_ptr<Walk> makeWalk(KernelFrame &frame);
/// Each is defined in the file of its kind.
#define WALK(Name) std::unique_ptr<Walk> match##Name##Walk(KernelFrame &frame);
#include "FrameKinds.def"

} // namespace flashc

#endif // FLASHC_LIB_CONVERSION_FLASHTOTILE_WALKS_WALK_H
