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
  /// The stage of each op of the loop's body. The scalars run in further stages, too.
  llvm::DenseMap<Operation *, int64_t> stages;
  /// The ops that are computed again in each stage that needs them.
  llvm::DenseSet<Operation *> scalars;
  /// The steps of an iteration of the new loop, in order.
  SmallVector<Step> kernel;
  /// The values that the new loop carries, each with the number of iterations for which it is carried: values that a
  /// later stage reads, and the iter_args of the old loop.
  llvm::MapVector<Value, int64_t> carried;

  /// Returns the value that the loop yields for `iterArg`.
  Value getNext(BlockArgument iterArg) const;
  /// Returns the stage that computes `value`.
  int64_t getStage(Value value) const;
  /// Returns how many iterations of the new loop lie between the computation of `value` and its use by `stage` of the
  /// same tile.
  int64_t getAge(Value value, int64_t stage) const;
  /// Returns the steps of `stage` in the old loop's order. The scalars that a step needs come before it.
  SmallVector<Step> getSteps(int64_t stage) const;
  /// Returns, in order, the steps of an iteration that only runs the stages `first` to `last`, as in the prologue and
  /// the epilogue.
  SmallVector<Step> getOrder(int64_t first, int64_t last) const;

  void print(raw_ostream &os) const;
};

/// Whether a product of `loop`'s body has a stage, or a read_stage, above 0.
bool hasStages(scf::ForOp loop);

/// Decides how `loop` becomes a pipeline. Emits an error and fails if it cannot be done.
FailureOr<PipelinePlan> planPipeline(scf::ForOp loop);

/// Writes prologue, kernel (the new loop) and epilogue in place of the loop. Returns the kernel.
scf::ForOp applyPipeline(const PipelinePlan &plan);

/// Distributes the work tiles of `program`, which has a grid, over the CTAs of the launch.
void persistProgram(ProgramOp program);

/// Splits `program` into a producer, which only loads, and consumers, which only compute. Emits an error and fails if
/// it cannot be split.
FailureOr<WarpSpecializeOp> specializeProgram(ProgramOp program, ScheduleAttr schedule);

/// How the loop over work tiles is rotated, so that the first product of the next work tile runs while the current one
/// is finished and stored. One iteration of the consumers' new loop has these parts of work tiles p and p + 1, in order
/// (the names are fields, except `rest` and `tail`):
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
  /// A loop over work tiles. Its early part (`head`) has the ops of a work tile that run before the previous work tile
  /// is finished; its rest has the other ops.
  struct Side {
    scf::ForOp loop;
    SmallVector<Operation *> head;
    /// What the rest reads of the early part's results. `again` has scalar ops, which the rest computes again; with an
    /// early softmax, ops that depend on the work tile's number are not among them. `crossing` has the iter_args and
    /// the results of all other ops; the new loop carries them.
    SmallVector<Operation *> again;
    SmallVector<Value> crossing;
  };
  Side producer, consumer;
  bool isSoftmaxEarly = false;
  MmaAsyncOp first, last;
  MmaWaitOp firstWait, lastWait;
  /// The parts of the consumers' early part. `softmax` and `packing` are empty if the softmax is not early.
  SmallVector<Operation *> issue, beside, result, softmax, packing;

  /// Returns the op of a work tile before which the early part of the next work tile begins.
  Operation *getPlace() const { return isSoftmaxEarly ? static_cast<Operation *>(last) : lastWait; }
};

/// Decides how to rotate the loop over work tiles of `op`. With `isSoftmaxEarly`, the next work tile's first softmax
/// also runs before the current work tile is stored. Emits an error and fails if the loop cannot be rotated.
FailureOr<EpilogueOverlap> planEpilogueOverlap(WarpSpecializeOp op, bool isSoftmaxEarly);

/// Rotates two loops over work tiles: the loop of the consumers and that of the producer. Returns the new loop of the
/// consumers.
scf::ForOp applyEpilogueOverlap(const EpilogueOverlap &plan);

/// Splits `loop` into up to three loops, in each of which the result of `outside` is known. Returns the new loops.
/// Fails with a remark if the step of `loop` is not 1, or if the bounds of `outside` change inside of `loop`.
FailureOr<SmallVector<scf::ForOp>> splitLoop(scf::ForOp loop, OutsideOp outside);

} // namespace mlir::tile

#endif // FLASHC_DIALECT_TILE_TRANSFORMS_TRANSFORMS_H
