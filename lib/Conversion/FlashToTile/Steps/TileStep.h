//===- TileStep.h - what a step's kernel computes of a tile -------------------------------------------------------===//
//
// The algebra of a step on tiles: one class for each op that implements StepOpInterface, in this folder. A new step is
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

  /// Emits an error and fails where the schedule, or L1, asks for what the step has not.
  virtual mlir::LogicalResult check() { return mlir::success(); }
  /// Whether it reads the operand of that name.
  virtual bool reads(llvm::StringRef operand) const { return true; }
  /// Whether a product adds up the rows of that operand's tiles, each with a weight: 0 times NaN is NaN.
  virtual bool addsUpRows(llvm::StringRef operand) const { return false; }
  /// Whether weights are multiplied with values of the same pairs, which may be anything where data hides a pair
  /// (KernelFrame::hidesData).
  virtual bool multipliesPairs() const { return false; }
  /// Emits what the step allocates in shared memory, beside the operands' rings.
  virtual void emitAllocations() {}
  /// Emits the state that the loop begins with.
  virtual llvm::SmallVector<mlir::Value> emitIdentity() = 0;
  /// Emits the step for the streamed tile of a visit; returns the state after it.
  virtual mlir::FailureOr<llvm::SmallVector<mlir::Value>> emit(mlir::Value visit, mlir::ValueRange state) = 0;
  /// Emits what the loop's last state becomes, and stores it. Fails after an error.
  virtual mlir::LogicalResult emitOutputs(mlir::ValueRange state) = 0;

protected:
  KernelFrame &frame;
  LoopNest &nest;
  const Schedule &schedule;
  mlir::ImplicitLocOpBuilder &b;
};

/// What a schedule depends on, of a nest.
struct StepShape {
  /// Of the products along the head dimension of queries and keys, and of values.
  int64_t depth, valueDepth;
  KernelOutputs outputs;
};

} // namespace flashc

#include "Steps/TileStepInterface.h.inc"

namespace flashc {
/// The interface of a nest's step, which FlashToTile.cpp has asked for.
inline TileStepOpInterface getTileStep(const LoopNest &nest) {
  return mlir::cast<TileStepOpInterface>(nest.getStep().getOperation());
}
inline StepShape getStepShape(const LoopNest &nest) { return getTileStep(nest).getStepShape(nest); }
} // namespace flashc

#endif // FLASHC_LIB_CONVERSION_FLASHTOTILE_STEPS_TILESTEP_H
