//===- TileProtocol.cpp - the ring protocol that tile.warp_specialize checks --------------------------------------===//
//
// Invariants:
//   1. Only the producer acquires and fills; only consumers wait, release, multiply and take turns.
//   2. In the producer the acquire of (ring, count) stands right before the copy into (ring, count).
//   3. A slot is released exactly once, in the block of its wait.
//   4. When it is released, every product that reads it has been waited for.
//
//===--------------------------------------------------------------------------------------------------------------===//

#include "flashc/Dialect/Tile/IR/Tile.h"

using namespace mlir;
using namespace mlir::tile;

/// Invariant 1: none of `Ops` in `region`.
template <typename... Ops>
static LogicalResult verifyAbsent(Region &region, StringRef role) {
  return failure(region
                     .walk([&](Operation *op) {
                       if (!isa<Ops...>(op))
                         return WalkResult::advance();
                       op->emitOpError() << "expected in the " << role << " only";
                       return WalkResult::interrupt();
                     })
                     .wasInterrupted());
}

/// Invariant 2.
static LogicalResult verifyCopy(CopyAsyncOp copy) {
  auto acquire = dyn_cast_or_null<AcquireOp>(copy->getPrevNode());
  if (acquire && acquire.getRing() == copy.getRing() && acquire.getCount() == copy.getCount() &&
      acquire.getOwner() == copy.getOwner())
    return success();
  return copy.emitOpError() << "expected the slot to be acquired right before it is filled";
}

/// Whether `product` has been waited for when `release` runs. A product in a nested loop must be waited for there.
static bool isComplete(MmaAsyncOp product, Operation *release) {
  if (!product.getToken().hasOneUse())
    return false;
  Operation *wait = *product.getToken().user_begin();
  Operation *ancestor = release->getBlock()->findAncestorOpInBlock(*wait);
  return ancestor && ancestor->isBeforeInBlock(release) && wait->getBlock() == product->getBlock();
}

/// Invariants 3 and 4.
static LogicalResult verifySlot(WaitOp wait) {
  ReleaseOp release;
  for (Operation *user : wait.getSlot().getUsers())
    if (auto found = dyn_cast<ReleaseOp>(user)) {
      if (release)
        return found.emitOpError() << "expected the slot to be released once";
      release = found;
    }
  if (!release)
    return wait.emitOpError() << "expected its slot to be released";
  if (release->getBlock() != wait->getBlock())
    return release.emitOpError() << "expected in the block that waits for the slot";
  for (Operation *user : wait.getSlot().getUsers())
    if (auto product = dyn_cast<MmaAsyncOp>(user); product && !isComplete(product, release)) {
      InFlightDiagnostic diag = release.emitOpError() << "expected no product in flight that reads the slot";
      diag.attachNote(product.getLoc()) << "this product has not been waited for";
      return diag;
    }
  return success();
}

LogicalResult WarpSpecializeOp::verifyRegions() {
  if (getProducer().getNumArguments() != 0)
    return emitOpError() << "expected no producer argument";
  if (getConsumer().getNumArguments() != 1 || !getConsumer().getArgument(0).getType().isIndex())
    return emitOpError() << "expected one consumer argument, the warpgroup (index)";
  if (failed(verifyAbsent<WaitOp, ReleaseOp, MmaAsyncOp, TurnWaitOp, TurnPassOp>(getProducer(), "consumer")) ||
      failed(verifyAbsent<AcquireOp, CopyAsyncOp>(getConsumer(), "producer")))
    return failure();
  auto interruptOn = [](LogicalResult result) {
    return failed(result) ? WalkResult::interrupt() : WalkResult::advance();
  };
  bool bad =
      getProducer().walk([&](CopyAsyncOp copy) { return interruptOn(verifyCopy(copy)); }).wasInterrupted() ||
      getConsumer().walk([&](WaitOp wait) { return interruptOn(verifySlot(wait)); }).wasInterrupted();
  return failure(bad);
}
