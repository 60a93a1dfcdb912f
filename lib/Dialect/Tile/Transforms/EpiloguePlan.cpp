//===- EpiloguePlan.cpp - the part of a work tile that runs during the end of the one before it -------------------===//

#include "Utils.h"
#include "flashc/Dialect/Tile/Transforms/Transforms.h"

using namespace mlir;
using namespace mlir::tile;

static InFlightDiagnostic refuse(Operation *op) { return op->emitOpError() << "cannot overlap the epilogue: "; }

/// Returns the only loop in `region`'s block for which `isMatch` holds. Null if there is none, or if there are several.
static scf::ForOp findLoop(Region &region, llvm::function_ref<bool(scf::ForOp)> isMatch) {
  scf::ForOp found;
  for (auto loop : region.front().getOps<scf::ForOp>()) {
    if (!isMatch(loop))
      continue;
    if (found)
      return nullptr;
    found = loop;
  }
  return found;
}

/// Whether `op` is a loop that contains an `OpTy`.
template <typename OpTy> static bool isLoopOverKeys(Operation *op) {
  return isa<scf::ForOp>(op) && op->walk([](OpTy) { return WalkResult::interrupt(); }).wasInterrupted();
}

/// Whether the body of `loop` has an `OpTy` outside of nested loops. A loop over work tiles has one even if it contains
/// a loop over keys: the loop over keys leaves out the first or the last tile of keys.
template <typename OpTy> static bool isLoopOverWorkTiles(scf::ForOp loop) { return !loop.getOps<OpTy>().empty(); }

static LogicalResult planProducts(EpilogueOverlap &plan) {
  scf::ForOp loop = plan.consumer.loop;
  auto products = llvm::to_vector(loop.getOps<MmaAsyncOp>());
  auto getWait = [&](MmaAsyncOp product) {
    MmaWaitOp wait = product.getWait();
    return wait && wait->getBlock() == loop.getBody() ? wait : MmaWaitOp();
  };
  plan.first = products.front();
  plan.last = products.back();
  plan.firstWait = getWait(products.front());
  plan.lastWait = getWait(products.back());
  auto isOutside = [&](Operation &op) {
    return isLoopOverKeys<MmaAsyncOp>(&op) &&
           (op.isBeforeInBlock(plan.firstWait) || products.back()->isBeforeInBlock(&op));
  };
  if (products.size() != 2 || !plan.firstWait || !plan.lastWait || products.back()->isBeforeInBlock(plan.firstWait) ||
      llvm::any_of(*loop.getBody(), isOutside))
    return refuse(loop) << "expected one product before the loop over keys, and one after it";
  return success();
}

/// Returns the ops of the early part (`side.head`) that depend on the work tile's number.
static llvm::SmallDenseSet<Operation *> findOfWorkTile(const EpilogueOverlap::Side &side) {
  llvm::SmallDenseSet<Operation *> found;
  scf::ForOp loop = side.loop;
  for (Operation *op : side.head)
    if (llvm::any_of(getInputs(op), [&](Value input) {
          return input == loop.getInductionVar() || found.contains(input.getDefiningOp());
        }))
      found.insert(op);
  return found;
}

/// Finds the values of the early part that the rest of the work tile reads. The rest computes scalars again, and the
/// loop carries the other values. With `carriesScalars`, the loop also carries scalars that depend on the work tile's
/// number.
static void planCrossing(EpilogueOverlap::Side &side, bool carriesScalars) {
  llvm::SmallDenseSet<Operation *> head(side.head.begin(), side.head.end());
  llvm::SmallDenseSet<Operation *> ofWorkTile = findOfWorkTile(side);
  auto isNeeded = [&](Value value) {
    return llvm::any_of(value.getUsers(), [&](Operation *user) {
      Operation *ancestor = side.loop.getBody()->findAncestorOpInBlock(*user);
      return !head.contains(ancestor) || llvm::is_contained(side.again, ancestor);
    });
  };
  auto isAgain = [&](Operation *op) {
    return isScalarCode(op) && !(carriesScalars && ofWorkTile.contains(op) &&
                                 llvm::none_of(op->getResultTypes(), llvm::IsaPred<MemRefType>));
  };
  for (Operation *op : llvm::reverse(side.head))
    if (isAgain(op) && llvm::any_of(op->getResults(), isNeeded))
      side.again.insert(side.again.begin(), op);
  SmallVector<Value> known(side.loop.getRegionIterArgs());
  for (Operation *op : side.head)
    if (!isAgain(op))
      llvm::append_range(known, op->getResults());
  llvm::copy_if(known, std::back_inserter(side.crossing), isNeeded);
}

/// Checks that the early part of the next work tile waits for no slot that the current work tile still holds. The early
/// part runs before the current work tile is stored and its slots are released. So such a wait would never end.
static LogicalResult checkHeldSlots(const EpilogueOverlap &plan) {
  for (Operation *op : plan.consumer.head) {
    auto wait = dyn_cast<WaitOp>(op);
    if (!wait || wait.getRing().getType().getStages() > 1)
      continue;
    for (Operation *user : wait.getSlot().getUsers()) {
      if (!isa<ReleaseOp>(user) || user->isBeforeInBlock(plan.getPlace()))
        continue;
      InFlightDiagnostic diag = refuse(plan.consumer.loop)
                                << "expected a ring of two slots or more for a slot that a work tile holds";
      diag.attachNote(user->getLoc()) << "the next work tile would wait for this release, and this one for the next";
      return diag;
    }
  }
  return success();
}

static InFlightDiagnostic refuseEffect(const EpilogueOverlap &plan, StringRef before, Operation *op) {
  InFlightDiagnostic diag = refuse(plan.consumer.loop) << "expected no effects before " << before;
  diag.attachNote(op->getLoc()) << "this op has one";
  return diag;
}

/// Finds the ops of a work tile up to its first product, and the ops right after this product that do not depend on its
/// result.
static LogicalResult planIssue(EpilogueOverlap &plan) {
  for (Operation &op : *plan.consumer.loop.getBody()) {
    if (plan.first->isBeforeInBlock(&op)) {
      if (!isa<PingPongPassOp, RowsOp>(op) && !isScalarCode(&op))
        break;
      plan.beside.push_back(&op);
      continue;
    }
    if (!isMemoryEffectFree(&op) && !isScalarCode(&op) &&
        !isa<WaitOp, ClearRowsOp, PingPongWaitOp, StoreSlopesOp, MmaAsyncOp, RowsOp, VoteAnyOp>(op))
      return refuseEffect(plan, "the first product", &op);
    plan.issue.push_back(&op);
  }
  return success();
}

/// Finds the softmax of the first product's result: the arithmetic up to the loop over keys or, if there is no such
/// loop, up to the wait for the slot that the last product reads.
static LogicalResult planSoftmax(EpilogueOverlap &plan) {
  Operation *op = plan.beside.empty() ? plan.first->getNextNode() : plan.beside.back()->getNextNode();
  if (op != plan.firstWait)
    return refuseEffect(plan, "the first product's result", op);
  for (op = plan.result.back()->getNextNode(); !isa<WaitOp>(op) && !isLoopOverKeys<MmaAsyncOp>(op);
       op = op->getNextNode()) {
    if (!isArithmetic(op))
      return refuseEffect(plan, "the loop over keys", op);
    auto isPacked = [&](Value input) { return llvm::is_contained(plan.packing, input.getDefiningOp()); };
    bool isPacking = isa<ToOperandAOp>(op) || llvm::any_of(getInputs(op), isPacked);
    (isPacking ? plan.packing : plan.softmax).push_back(op);
  }
  if (!plan.packing.empty())
    return success();
  return refuse(plan.consumer.loop) << "expected a tile.to_operand_a before the loop over keys, for its softmax to be "
                                       "early";
}

/// Finds the early part of the consumers' work tile. This part will run before the previous work tile is finished.
static LogicalResult planConsumer(EpilogueOverlap &plan) {
  EpilogueOverlap::Side &side = plan.consumer;
  if (failed(planIssue(plan)))
    return failure();
  plan.result.push_back(plan.firstWait);
  for (Operation *op = plan.firstWait->getNextNode(); isa<ReleaseOp>(op); op = op->getNextNode())
    plan.result.push_back(op);
  if (plan.isSoftmaxEarly && failed(planSoftmax(plan)))
    return failure();
  for (ArrayRef<Operation *> part : {plan.issue, plan.beside, plan.result, plan.softmax, plan.packing})
    llvm::append_range(side.head, part);
  for (Operation &op : *side.loop.getBody())
    if (isa<PingPongWaitOp, PingPongPassOp>(op) && !llvm::is_contained(side.head, &op)) {
      InFlightDiagnostic diag = refuse(side.loop) << "expected no turn between work tiles but the first product's";
      diag.attachNote(op.getLoc()) << "this op belongs to another one";
      return diag;
    }
  planCrossing(side, plan.isSoftmaxEarly);
  return success();
}

/// Checks that the early part of the next work tile reads only values that the current work tile computes before this
/// part.
static LogicalResult checkCarried(const EpilogueOverlap &plan) {
  scf::ForOp loop = plan.consumer.loop;
  for (Value carried : loop.getYieldedValues()) {
    Operation *op = carried.getDefiningOp();
    if (!op || op->getBlock() != loop.getBody() || op->isBeforeInBlock(plan.getPlace()))
      continue;
    InFlightDiagnostic diag = refuse(loop) << "expected the values that the next work tile reads to be computed before "
                                              "the last product is "
                                           << (plan.isSoftmaxEarly ? "issued" : "waited for");
    diag.attachNote(op->getLoc()) << "this op is after the " << (plan.isSoftmaxEarly ? "product" : "wait");
    return diag;
  }
  return success();
}

/// Finds the early part of the producer's work tile: the ops before its loop over keys. The early part must load what
/// the consumers' early part waits for.
static LogicalResult planProducer(EpilogueOverlap &plan) {
  EpilogueOverlap::Side &side = plan.producer;
  llvm::DenseMap<Value, int64_t> waits;
  for (Operation *op : plan.consumer.head)
    if (auto wait = dyn_cast<WaitOp>(op))
      ++waits[wait.getRing()];
  bool hasLoop = llvm::any_of(*side.loop.getBody(), [](Operation &op) { return isLoopOverKeys<CopyAsyncOp>(&op); });
  auto isBehindHead = [&](Operation &op) {
    auto acquire = dyn_cast<AcquireOp>(op);
    return hasLoop ? isLoopOverKeys<CopyAsyncOp>(&op) : acquire && !waits.contains(acquire.getRing());
  };
  for (Operation &op : *side.loop.getBody()) {
    if (isBehindHead(op))
      break;
    side.head.push_back(&op);
    auto copy = dyn_cast<CopyAsyncOp>(op);
    if (copy && copy.getOwner().value_or(0) == 0)
      --waits[copy.getRing()];
  }
  if (llvm::any_of(waits, [](auto &entry) { return entry.second != 0; }))
    return refuse(side.loop) << "expected it to load before its loop over keys what the consumers wait for before "
                                "their first product";
  for (auto copy : side.loop.getOps<CopyAsyncOp>()) {
    if (llvm::is_contained(side.head, copy) || !waits.contains(copy.getRing()))
      continue;
    InFlightDiagnostic diag = refuse(side.loop) << "expected rings of their own for the loads after the loop over keys";
    diag.attachNote(copy.getLoc()) << "the next work tile's first load into this ring would come before this one";
    return diag;
  }
  planCrossing(side, /*carriesScalars=*/false);
  return success();
}

FailureOr<EpilogueOverlap> tile::planEpilogueOverlap(WarpSpecializeOp op, bool isSoftmaxEarly) {
  EpilogueOverlap plan;
  plan.isSoftmaxEarly = isSoftmaxEarly;
  plan.producer.loop = findLoop(op.getProducer(), isLoopOverWorkTiles<CopyAsyncOp>);
  plan.consumer.loop = findLoop(op.getConsumer(), isLoopOverWorkTiles<MmaAsyncOp>);
  if (!plan.producer.loop || !plan.consumer.loop)
    return refuse(op) << "expected one loop over work tiles, with loads and with products of its own, on each side";
  for (scf::ForOp loop : {plan.producer.loop, plan.consumer.loop})
    if (!loop->use_empty())
      return refuse(loop) << "expected the loop's results not to be used";
  if (failed(planProducts(plan)) || failed(planConsumer(plan)) || failed(checkHeldSlots(plan)) ||
      failed(checkCarried(plan)) || failed(planProducer(plan)))
    return failure();
  return plan;
}
