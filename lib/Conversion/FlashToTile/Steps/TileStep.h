//===- TileStep.h - the algebra of a step on tiles ----------------------------------------------------------------===//
//
// The algebra of a step on tiles: one class in this folder for each op that implements StepOpInterface. A new step is
// new files here, and a line of registerTileSteps.
//
//===--------------------------------------------------------------------------------------------------------------===//
#ifndef FLASHC_LIB_CONVERSION_FLASHTOTILE_STEPS_TILESTEP_H
#define FLASHC_LIB_CONVERSION_FLASHTOTILE_STEPS_TILESTEP_H

#include "KernelFrame.h"
#include "flashc/Schedule/ScheduleTable.h"

namespace flashc {

class TileStep {
public:
  explicit TileStep(KernelFrame &frame) : frame(frame), nest(frame.nest), schedule(frame.schedule), b(frame.b) {}
  virtual ~TileStep() = default;

  /// Emits an error and fails if the schedule, or level L1, asks for a feature that the step lacks.
  virtual mlir::LogicalResult check() { return mlir::success(); }
  /// Whether the step reads the operand with this name.
  virtual bool reads(llvm::StringRef operand) const { return true; }
  /// Whether a product adds up the rows of the operand's tiles, each multiplied by a weight. Rows outside of the mask
  /// must then be cleared, since 0 times NaN is NaN.
  virtual bool addsUpRows(llvm::StringRef operand) const { return false; }
  /// Whether the step multiplies the weight of a pair by another value of the pair, as P * (dP - delta). If arrays hide
  /// the pair (KernelFrame::hidesData), the other value may hold any bits.
  virtual bool multipliesPairs() const { return false; }
  /// Emits the step's allocations in shared memory, apart from the operands' rings.
  virtual void emitAllocations() {}
  /// Emits the initial state of the loop.
  virtual llvm::SmallVector<mlir::Value> emitIdentity() = 0;
  /// Emits the step for the streamed tile of a visit. Returns the state after the step.
  virtual mlir::FailureOr<llvm::SmallVector<mlir::Value>> emit(mlir::Value visit, mlir::ValueRange state) = 0;
  /// Emits the outputs from the loop's last state, and stores them. Fails after an error.
  virtual mlir::LogicalResult emitOutputs(mlir::ValueRange state) = 0;

protected:
  KernelFrame &frame;
  LoopNest &nest;
  const Schedule &schedule;
  mlir::ImplicitLocOpBuilder &b;
};

/// The extents of a nest on which a schedule depends.
struct StepShape {
  /// The depths of the products: along the head dimension of queries and keys, and along that of values.
  int64_t depth, valueDepth;
  KernelOutputs outputs;
};

} // namespace flashc

#include "Steps/TileStepInterface.h.inc"

namespace flashc {
/// Returns the step interface of a nest's op. FlashToTile.cpp has checked that the op has it.
inline TileStepOpInterface getTileStep(const LoopNest &nest) {
  return mlir::cast<TileStepOpInterface>(nest.getStep().getOperation());
}
inline StepShape getStepShape(const LoopNest &nest) { return getTileStep(nest).getStepShape(nest); }
} // namespace flashc

#endif // FLASHC_LIB_CONVERSION_FLASHTOTILE_STEPS_TILESTEP_H
