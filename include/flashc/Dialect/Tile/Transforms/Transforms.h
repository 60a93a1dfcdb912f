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

/// How a loop becomes a pipeline: one iteration of the new loop runs every stage s, of tile u - s. Products say their
/// stages; a load runs in the first stage that reads its tile, index arithmetic in every stage that needs it, and
/// anything else as early as what it reads is there.
struct PipelinePlan {
  /// An op in one of its stages.
  struct Step {
    Operation *op;
    int64_t stage;
  };
  scf::ForOp loop;
  int64_t numStages = 1;
  /// The stage of each op of the loop's body.
  llvm::DenseMap<Operation *, int64_t> stages;
  /// Those that are computed again in each stage that needs them.
  llvm::DenseSet<Operation *> scalars;
  /// The order of one iteration of the new loop.
  SmallVector<Step> kernel;
  /// What the new loop carries, and for how many iterations: values that a later stage reads, and the old iter_args.
  llvm::MapVector<Value, int64_t> carried;

  /// What the loop yields for `iterArg`.
  Value getNext(BlockArgument iterArg) const;
  /// The stage that computes `value`.
  int64_t getStage(Value value) const;
  /// How many iterations of the new loop ago `value` was computed when `stage` of the same tile reads it.
  int64_t getAge(Value value, int64_t stage) const;
  /// The steps of `stage`, in the old loop's order; but for stage 0, scalars when they are needed.
  SmallVector<Step> getSteps(int64_t stage) const;
  /// The order of an iteration that only runs the stages from `first` to `last`, in prologue or epilogue.
  SmallVector<Step> getOrder(int64_t first, int64_t last) const;

  void print(raw_ostream &os) const;
};

/// Whether a product of `loop`'s body has a stage, or is read in one, behind the first.
bool hasStages(scf::ForOp loop);

/// Decides how `loop` becomes a pipeline. Emits an error and fails if it cannot be done.
FailureOr<PipelinePlan> planPipeline(scf::ForOp loop);

/// Writes prologue, kernel and epilogue in place of the loop. Returns the kernel.
scf::ForOp applyPipeline(const PipelinePlan &plan);

/// Spreads the work tiles of `program`'s grid, of which it has one, over the CTAs of the launch.
void persistProgram(ProgramOp program);

/// Splits `program` into a producer, which only loads, and consumers, which only compute. Emits an error and
/// fails if the producer cannot know what to load.
FailureOr<WarpSpecializeOp> specializeProgram(ProgramOp program, ScheduleAttr schedule);

/// How the loop over work tiles is rotated, so that the first product of the next work tile runs while this one is
/// finished and stored. One iteration of the consumers' new loop, in order:
///
///   rest            (p)       from the first product's result on: softmax, the loop over keys, the last product
///   issue, beside   (p + 1)   scalars, waits for Q and K, the first product
///   lastWait        (p)       one product, the next work tile's, stays in flight
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
/// The producer loads in that order: the next work tile's first tiles before this work tile's last V.
struct EpilogueOverlap {
  /// A loop over work tiles, and what of its body runs one work tile ahead.
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

  /// The op of a work tile in front of which the next work tile's head begins.
  Operation *getPlace() const { return isSoftmaxEarly ? static_cast<Operation *>(last) : lastWait; }
};

/// Decides how to rotate the loop over work tiles of `op`; with `isSoftmaxEarly` the next work tile's first softmax
/// comes before this work tile is stored, too. Emits an error and fails if it cannot be done.
FailureOr<EpilogueOverlap> planEpilogueOverlap(WarpSpecializeOp op, bool isSoftmaxEarly);

/// Rotates the consumers' loop over work tiles, and lets the producer load what they wait for once more. Returns the
/// consumers' loop.
scf::ForOp applyEpilogueOverlap(const EpilogueOverlap &plan);

/// Splits `loop` into up to three loops, in each of which it is known whether the induction variable is `outside`.
/// Returns the loops made.
FailureOr<SmallVector<scf::ForOp>> splitLoop(scf::ForOp loop, OutsideOp outside);

} // namespace mlir::tile

#endif // FLASHC_DIALECT_TILE_TRANSFORMS_TRANSFORMS_H
