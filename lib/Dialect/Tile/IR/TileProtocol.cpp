//===- TileProtocol.cpp - the ring protocol that tile.warp_specialize checks --------------------------------------===//
//
// Invariants:
//   1. Each op has its role. Only the producer acquires and fills slots, and fetches and publishes numbers. Only
//      consumers and the reducer wait, release and multiply. Only consumers share tiles and take turns. The producer
//      never adds to device memory.
//   2. In the producer the acquire of (ring, count) comes right before the copy into (ring, count).
//   3. The block that waits for a slot either releases it exactly once, or passes it on exactly once: to a loop, or to
//      the next iteration of a loop. The same rule holds for a slot that a loop's body or the code after a loop gets.
//   4. When a slot is released or passed on, all products that read it have been waited for. If a tile.store_async goes
//      through the slot, these products have been waited for before the tile.store_async, and a tile.store_wait comes
//      between the tile.store_async and the release.
//   5. The rows of a slot are cleared before any product reads the slot.
//
//===--------------------------------------------------------------------------------------------------------------===//

#include "flashc/Dialect/Tile/IR/Tile.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

using namespace mlir;
using namespace mlir::tile;

/// Verifies a part of invariant 1: `region` has none of `Ops`, which only `role` may have.
template <typename... Ops> static LogicalResult verifyAbsent(Region &region, StringRef role) {
  return failure(region
                     .walk([&](Operation *op) {
                       if (!isa<Ops...>(op))
                         return WalkResult::advance();
                       op->emitOpError() << "expected in the " << role << " only";
                       return WalkResult::interrupt();
                     })
                     .wasInterrupted());
}

/// Verifies invariant 2 for `copy`.
static LogicalResult verifyCopy(CopyAsyncOp copy) {
  auto acquire = dyn_cast_or_null<AcquireOp>(copy->getPrevNode());
  if (acquire && acquire.getRing() == copy.getRing() && acquire.getCount() == copy.getCount() &&
      acquire.getOwner() == copy.getOwner())
    return success();
  return copy.emitOpError() << "expected the slot to be acquired right before it is filled";
}

/// Whether a wait for `product` comes before `release`. The wait must be in the block of `product`.
static bool isComplete(MmaAsyncOp product, Operation *release) {
  if (!product.getToken().hasOneUse())
    return false;
  Operation *wait = *product.getToken().user_begin();
  if (auto next = dyn_cast<MmaAsyncOp>(wait)) // `next` continues `product`
    return isComplete(next, release) && next->getBlock() == product->getBlock();
  Operation *ancestor = release->getBlock()->findAncestorOpInBlock(*wait);
  return ancestor && ancestor->isBeforeInBlock(release) && wait->getBlock() == product->getBlock();
}

/// Returns the products that read `slot` or one of its panels.
static SmallVector<MmaAsyncOp> getProducts(Value slot) {
  SmallVector<MmaAsyncOp> products;
  for (Operation *user : slot.getUsers()) {
    if (auto panel = dyn_cast<PanelOp>(user))
      llvm::append_range(products, getProducts(panel.getPanel()));
    else if (auto product = dyn_cast<MmaAsyncOp>(user))
      products.push_back(product);
  }
  return products;
}

/// Whether `use` passes a slot on: to a loop as an initial value, or to the loop's next iteration.
static bool isHandedOn(OpOperand &use) {
  if (auto loop = dyn_cast<scf::ForOp>(use.getOwner()))
    return llvm::is_contained(loop.getInitArgs(), use.get());
  return isa<scf::YieldOp>(use.getOwner()) && isa<scf::ForOp>(use.getOwner()->getParentOp());
}

/// Whether a tile.store_wait comes between `store` and `end`, so that `store` has read its slot before `end`.
static bool isStoreComplete(StoreAsyncOp store, Operation *end) {
  if (store->getBlock() != end->getBlock() || end->isBeforeInBlock(store))
    return false;
  for (Operation *op = store->getNextNode(); op != end; op = op->getNextNode())
    if (isa<StoreWaitOp>(op))
      return true;
  return false;
}

/// Verifies invariant 5 for `clear`. `block` is the block that waits for the slot.
static LogicalResult verifyClear(ClearRowsOp clear, Block *block) {
  if (clear->getBlock() != block)
    return clear.emitOpError() << "expected in the block that waits for the slot";
  for (MmaAsyncOp product : getProducts(clear.getSlot())) {
    Operation *ancestor = block->findAncestorOpInBlock(*product);
    if (!ancestor || !ancestor->isBeforeInBlock(clear))
      continue;
    InFlightDiagnostic diag = clear.emitOpError() << "expected before the products that read the slot";
    diag.attachNote(product.getLoc()) << "this product is before it";
    return diag;
  }
  return success();
}

/// Verifies invariants 3 to 5 for `slot`: the result of a tile.wait or of a loop, or an argument of a loop's body.
static LogicalResult verifySlot(TypedValue<SlotType> slot) {
  Block *block = slot.getParentBlock();
  Operation *owner = slot.getDefiningOp() ? slot.getDefiningOp() : block->getParentOp(), *end = nullptr;
  for (OpOperand &use : slot.getUses()) {
    Operation *user = use.getOwner();
    if (!isa<ReleaseOp>(user) && !isHandedOn(use)) {
      if (isa<RegionBranchOpInterface, RegionBranchTerminatorOpInterface>(user))
        return user->emitOpError() << "expected a slot to be passed to scf.for only";
      continue;
    }
    if (end)
      return user->emitOpError() << "expected the slot to be released once";
    if (user->getBlock() != block)
      return user->emitOpError() << "expected in the block that waits for the slot";
    end = user;
  }
  if (!end)
    return owner->emitOpError() << "expected its slot to be released";
  StoreAsyncOp store;
  for (Operation *user : slot.getUsers())
    if (auto found = dyn_cast<StoreAsyncOp>(user)) {
      if (store)
        return found.emitOpError() << "expected one tile to pass through the slot";
      store = found;
    }
  if (store && !isStoreComplete(store, end))
    return store.emitOpError() << "expected a tile.store_wait between it and the release of its slot";
  for (Operation *user : slot.getUsers())
    if (auto clear = dyn_cast<ClearRowsOp>(user); clear && failed(verifyClear(clear, block)))
      return failure();
  Operation *last = store ? store : end; // the op before which every product must be complete
  for (MmaAsyncOp product : getProducts(slot))
    if (!isComplete(product, last)) {
      InFlightDiagnostic diag = last->emitOpError() << "expected no product in flight that reads the slot";
      diag.attachNote(product.getLoc()) << "this product has not been waited for";
      return diag;
    }
  return success();
}

/// Verifies every slot that a wait or a loop of `region` produces.
static LogicalResult verifySlots(Region &region) {
  auto isOk = [](ValueRange values) {
    return llvm::all_of(values, [](Value value) {
      auto slot = dyn_cast<TypedValue<SlotType>>(value);
      return !slot || succeeded(verifySlot(slot));
    });
  };
  WalkResult result = region.walk([&](Operation *op) {
    auto loop = dyn_cast<scf::ForOp>(op);
    bool hasSlots = loop || isa<WaitOp>(op);
    bool isFine = !hasSlots || (isOk(op->getResults()) && (!loop || isOk(loop.getRegionIterArgs())));
    return isFine ? WalkResult::advance() : WalkResult::interrupt();
  });
  return failure(result.wasInterrupted());
}

LogicalResult WarpSpecializeOp::verifyRegions() {
  if (getProducer().getNumArguments() != 0)
    return emitOpError() << "expected no producer argument";
  if (getConsumer().getNumArguments() != 1 || !getConsumer().getArgument(0).getType().isIndex())
    return emitOpError() << "expected one consumer argument, the warpgroup (index)";
  if (getReducer().empty() != !getReducerRegisters())
    return emitOpError() << "expected registers of the reducer where there is one";
  if (!getReducer().empty() && getReducer().getNumArguments() != 0)
    return emitOpError() << "expected no reducer argument";
  if (failed(verifyAbsent<WaitOp, ReleaseOp, MmaAsyncOp>(getProducer(), "consumer")) ||
      failed(verifyAbsent<AtomicAddOp>(getProducer(), "consumer or reducer")))
    return failure();
  for (Region *region : {&getProducer(), &getReducer()})
    if (failed(verifyAbsent<StoreSlopesOp, StoreAsyncOp, StoreWaitOp, PingPongWaitOp, PingPongPassOp, PublishedOp,
                            ShareOp, HandOverOp, SendOp, ReceiveOp, ClearRowsOp>(*region, "consumer")))
      return failure();
  for (Region *region : {&getConsumer(), &getReducer()})
    if (failed(verifyAbsent<AcquireOp, CopyAsyncOp, ConsumeOp, PublishOp>(*region, "producer")))
      return failure();
  WalkResult copies = getProducer().walk(
      [](CopyAsyncOp copy) { return failed(verifyCopy(copy)) ? WalkResult::interrupt() : WalkResult::advance(); });
  return failure(copies.wasInterrupted() || failed(verifySlots(getConsumer())) || failed(verifySlots(getReducer())));
}
