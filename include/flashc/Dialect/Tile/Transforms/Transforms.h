//===- Transforms.h - the work of the schedule passes, as functions -----------------------------------------------===//
//
// The passes of Passes.td are thin shells around these functions. A function that fails leaves the IR as it was.
//
//===--------------------------------------------------------------------------------------------------------------===//
#ifndef FLASHC_DIALECT_TILE_TRANSFORMS_TRANSFORMS_H
#define FLASHC_DIALECT_TILE_TRANSFORMS_TRANSFORMS_H

#include "flashc/Dialect/Tile/IR/Tile.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "llvm/ADT/MapVector.h"

namespace mlir::tile {

/// How a loop becomes a pipeline: iteration u of the new loop runs every stage s, for tile u - s. A product's stage is
/// an attribute. A load runs in the first stage that reads its tile. Index arithmetic runs in every stage that needs
/// it. Every other op runs in the earliest stage in which its operands are available.
struct PipelinePlan {
  /// An op, and a stage in which it runs.
  struct Step {
    Operation *op;
    int64_t stage;
  };
  scf::ForOp loop;
  int64_t numStages = 1;
  /// The stage of each op of the loop's body.
  llvm::DenseMap<Operation *, int64_t> stages;
  /// The ops that are computed again in each stage that needs them.
  llvm::DenseSet<Operation *> scalars;
  /// The order of one iteration of the new loop.
  SmallVector<Step> kernel;
  /// The values that the new loop carries, each with the number of iterations for which it is carried. They are the
  /// values that a later stage reads, and the iter_args of the old loop.
  llvm::MapVector<Value, int64_t> carried;

  /// The value that the loop yields for `iterArg`.
  Value getNext(BlockArgument iterArg) const;
  /// The stage that computes `value`.
  int64_t getStage(Value value) const;
  /// Returns how many iterations of the new loop lie between the computation of `value` and its use by `stage` of the
  /// same tile.
  int64_t getAge(Value value, int64_t stage) const;
  /// Returns the steps of `stage` in the old loop's order. The scalars that a step needs come before it.
  SmallVector<Step> getSteps(int64_t stage) const;
  /// The order of an iteration that only runs the stages `first` to `last`, as in the prologue and the epilogue.
  SmallVector<Step> getOrder(int64_t first, int64_t last) const;

  void print(raw_ostream &os) const;
};

/// Whether a product of `loop`'s body has a stage, or a read_stage, above 0.
bool hasStages(scf::ForOp loop);

/// Decides how `loop` becomes a pipeline. Emits an error and fails if it cannot be done.
FailureOr<PipelinePlan> planPipeline(scf::ForOp loop);

/// Writes prologue, kernel and epilogue in place of the loop. Returns the kernel.
scf::ForOp applyPipeline(const PipelinePlan &plan);

/// Distributes the work tiles of `program`, which has a grid, over the CTAs of the launch.
void persistProgram(ProgramOp program);

/// Splits `program` into a producer, which only loads, and consumers, which only compute. Emits an error and fails if
/// it cannot be split.
FailureOr<WarpSpecializeOp> specializeProgram(ProgramOp program, ScheduleAttr schedule);

/// How the loop over work tiles is rotated, so that the first product of the next work tile runs while this one is
/// finished and stored. One iteration of the consumers' new loop has these parts of work tiles p and p + 1, in order:
///
///   rest            (p)       from the first product's result on: softmax, the loop over keys, the last product
///   issue, beside   (p + 1)   scalars, waits for Q and K, the first product
///   lastWait        (p)       one product, the next work tile's, stays in flight
///   tail            (p)       normalise, store
///   result          (p + 1)   the first product's wait, and the releases after it
///
/// Or, with an early softmax, as in a step of the loop over keys:
///
///   rest            (p)       the loop over keys
///   issue           (p + 1)   waits for Q and K, the first product
///   last            (p)       the last product
///   beside          (p + 1)   scalars
///   result, softmax (p + 1)   the last product stays in flight
///   lastWait        (p)
///   packing         (p + 1)   P, into the registers that the last product has read
///   tail            (p)       normalise, store
///
/// The producer loads in the same order: the next work tile's first tiles before this work tile's last V.
struct EpilogueOverlap {
  /// A loop over work tiles. `head` is the early part of its body: the ops that run before the previous work tile is
  /// finished.
  struct Side {
    scf::ForOp loop;
    SmallVector<Operation *> head;
    /// Ops and values of the early part that the rest of the body needs. The rest computes the scalar ops `again` once
    /// more. The new loop carries the other values, `crossing`; with an early softmax these include scalars that
    /// depend on the work tile's number.
    SmallVector<Operation *> again;
    SmallVector<Value> crossing;
  };
  Side producer, consumer;
  bool isSoftmaxEarly = false;
  MmaAsyncOp first, last;
  MmaWaitOp firstWait, lastWait;
  /// The early part of the consumers, in pieces. The last two are empty if the softmax is not early.
  SmallVector<Operation *> issue, beside, result, softmax, packing;

  /// The op of a work tile before which the early part of the next work tile begins.
  Operation *getPlace() const { return isSoftmaxEarly ? static_cast<Operation *>(last) : lastWait; }
};

/// Decides how to rotate the loop over work tiles of `op`; with `isSoftmaxEarly` the next work tile's first softmax
/// also runs before this work tile is stored. Emits an error and fails if it cannot be done.
FailureOr<EpilogueOverlap> planEpilogueOverlap(WarpSpecializeOp op, bool isSoftmaxEarly);

/// Rotates the loops over work tiles of the consumers and of the producer. Returns the consumers' new loop.
scf::ForOp applyEpilogueOverlap(const EpilogueOverlap &plan);

/// Splits `loop` into up to three loops, in each of which the result of `outside` is known. Returns the new loops.
/// Fails with a remark if its step is not 1 or the bounds of `outside` change inside the loop.
FailureOr<SmallVector<scf::ForOp>> splitLoop(scf::ForOp loop, OutsideOp outside);

} // namespace mlir::tile

#endif // FLASHC_DIALECT_TILE_TRANSFORMS_TRANSFORMS_H
