//===- Transforms.h - the work of the schedule passes, as functions -----------------------------------------------===//
//
// The passes of Passes.td are thin shells around these functions. A function that fails leaves the IR as it was.
//
//===--------------------------------------------------------------------------------------------------------------===//
#ifndef FLASHC_DIALECT_TILE_TRANSFORMS_TRANSFORMS_H
#define FLASHC_DIALECT_TILE_TRANSFORMS_TRANSFORMS_H

#include "flashc/Dialect/Tile/IR/Tile.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

namespace mlir::tile {

/// How a loop over key tiles is rotated, so that the second product of tile u - 1 runs beside the softmax of tile u.
/// Stage 1 is `issue` and `secondWait`, stage 0 everything else. One iteration of the new loop, in order:
///
///   before     (u)       loads and the first product
///   issue      (u - 1)   the second product, with the scalars and the load that it needs
///   overlapped (u)       from the wait for the first product on: softmax
///   secondWait (u - 1)   the accumulator
///   after      (u)       what reads the accumulator, or writes the registers that the second product reads
struct PipelinePlan {
  scf::ForOp loop;
  MmaAsyncOp first, second;
  MmaWaitOp firstWait, secondWait;
  SmallVector<Operation *> before, issue, overlapped, after;
  /// What stage 1 reads of stage 0: the new loop carries it, in place of the accumulator.
  SmallVector<Value> crossing;
  /// The loop's iter_arg that carries the accumulator.
  unsigned accumulator = 0;

  void print(raw_ostream &os) const;
};

/// Decides how to rotate `loop`, whose body starts a product with an #tile.operand_a. Emits an error and fails if it
/// cannot be done.
FailureOr<PipelinePlan> planPipeline(scf::ForOp loop);

/// Rotates the loop: prologue, kernel, epilogue. Returns the kernel.
scf::ForOp applyPipeline(const PipelinePlan &plan);

/// Spreads the points of `program`'s grid, of which it has one, over the CTAs of the launch.
void persistProgram(ProgramOp program);

/// Splits `program` into a producer, which only loads, and consumers, which only compute. With `pingPong`, and more
/// than one consumer, the consumers take turns. Emits an error and fails if the producer cannot know what to load.
FailureOr<WarpSpecializeOp> specializeProgram(ProgramOp program, ScheduleAttr schedule);

/// How the loop over points is rotated, so that the first product of the next point runs while this one is finished and
/// stored. One iteration of the consumers' new loop, in order:
///
///   rest            (p)       from the first product's result on: softmax, the loop over keys, the last product
///   issue, beside   (p + 1)   scalars, waits for Q and K, the first product
///   lastWait        (p)       one product, the next point's, stays in flight
///   tail            (p)       normalise, store
///   result          (p + 1)   the first product's wait, and the releases behind it
///
/// Or, with an early softmax, as in a step of the loop over keys:
///
///   rest            (p)       the loop over keys
///   issue           (p + 1)   waits for Q and K, the first product
///   last, beside    (p)       the last product
///   result, softmax (p + 1)   the last product stays in flight
///   lastWait        (p)
///   packing         (p + 1)   P, into the registers that the last product has read
///   tail            (p)       normalise, store
///
/// The producer loads in that order: the next point's first tiles before this point's last V.
struct EpilogueOverlap {
  /// A loop over points, and what of its body runs one point ahead.
  struct Side {
    scf::ForOp loop;
    SmallVector<Operation *> head;
    /// What the rest reads of the head: scalar ops that it computes again (those that an early softmax needs as well
    /// it does not), and values that the new loop carries.
    SmallVector<Operation *> again;
    SmallVector<Value> crossing;
  };
  Side producer, consumer;
  bool isSoftmaxEarly = false;
  MmaAsyncOp first, last;
  MmaWaitOp firstWait, lastWait;
  /// The consumers' head. The last two are empty if the softmax is not early.
  SmallVector<Operation *> issue, beside, result, softmax, packing;

  /// The op of a point in front of which the next point's head begins.
  Operation *getPlace() const { return isSoftmaxEarly ? static_cast<Operation *>(last) : lastWait; }
};

/// Decides how to rotate the loop over points of `op`; with `isSoftmaxEarly` the next point's first softmax comes
/// before this point is stored, too. Emits an error and fails if it cannot be done.
FailureOr<EpilogueOverlap> planEpilogueOverlap(WarpSpecializeOp op, bool isSoftmaxEarly);

/// Rotates the consumers' loop over points, and lets the producer load what they wait for once more. Returns the
/// consumers' loop.
scf::ForOp applyEpilogueOverlap(const EpilogueOverlap &plan);

/// Splits `loop` into up to three loops, in each of which it is known whether the induction variable is `outside`.
/// Returns the loops made.
FailureOr<SmallVector<scf::ForOp>> splitLoop(scf::ForOp loop, OutsideOp outside);

} // namespace mlir::tile

#endif // FLASHC_DIALECT_TILE_TRANSFORMS_TRANSFORMS_H
