//===- Walk.h - the work tiles and steps of a kernel --------------------------------------------------------------===//
//
// The work tiles of a kernel, and the steps in each: the extents of the grid, the order in which a CTA takes work
// tiles, and the loop over streamed tiles. A kind of walks is one file of this folder and one line of FrameKinds.def.
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

  /// Emits the extents of the grid if a CTA may take other work tiles than the one with its own number. Otherwise
  /// returns no values.
  virtual mlir::FailureOr<llvm::SmallVector<mlir::Value>> emitGrid() { return llvm::SmallVector<mlir::Value>(); }
  /// How the work tiles of the grid are distributed.
  virtual mlir::tile::WorkAttr getWork() const { return {}; }
  /// Emits the position of the unit, and the values of sources and regions that depend on it.
  virtual mlir::LogicalResult emitPositions();
  /// Emits the loop over steps. Returns the state after it.
  virtual mlir::FailureOr<mlir::ValueRange> emitLoop(TileStep &step) = 0;

protected:
  /// Emits the values that depend on the position of a visit and that the step needs.
  virtual mlir::LogicalResult enter(mlir::Value visit) { return mlir::success(); }
  /// Emits the body of the loop: one step, whose state the loop carries. Returns the results of the loop.
  mlir::FailureOr<mlir::ValueRange> fillLoop(mlir::scf::ForOp loop, TileStep &step);
  mlir::Value index(int64_t value) { return frame.index(value); }

  KernelFrame &frame;
  LoopNest &nest;
  const Schedule &schedule;
  ScalarCloner &scalars;
  mlir::ImplicitLocOpBuilder &b;
};

/// Makes the walk of a frame: of the first kind in FrameKinds.def that applies.
std::unique_ptr<Walk> makeWalk(KernelFrame &frame);
/// The function of each kind is defined in the kind's file.
#define WALK(Name) std::unique_ptr<Walk> match##Name##Walk(KernelFrame &frame);
#include "FrameKinds.def"

} // namespace flashc

#endif // FLASHC_LIB_CONVERSION_FLASHTOTILE_WALKS_WALK_H
