//===- DivideProducts.cpp - divides the products of a step among consumers ----------------------------------------===//

#include "flashc/Dialect/Tile/IR/Tile.h"
#include "flashc/Dialect/Tile/Transforms/Passes.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

namespace mlir::tile {
#define GEN_PASS_DEF_DIVIDEPRODUCTS
#include "flashc/Dialect/Tile/Transforms/Passes.h.inc"
} // namespace mlir::tile

using namespace mlir;
using namespace mlir::tile;

/// Whether `op` makes a result of the kernel: whether it writes to device memory.
static bool isOutput(Operation *op) { return isa<StoreOp, StoreAsyncOp, AtomicAddOp>(op); }

/// Whether `op` may be left out where nothing uses its results.
static bool isErasable(Operation *op) {
  return op->use_empty() && (isPure(op) || isa<MmaAsyncOp, MmaWaitOp, ReadColumnsOp>(op) ||
                             (op->getNumRegions() > 0 && isOpTriviallyDead(op)));
}

/// Erases ops of `block` without users, from the last one to the first.
static bool eraseUnused(Block &block) {
  bool isAny = false;
  for (Operation &op : llvm::make_early_inc_range(llvm::reverse(block))) {
    for (Region &region : op.getRegions())
      for (Block &inner : region)
        isAny |= eraseUnused(inner);
    if (isErasable(&op) && !op.hasTrait<OpTrait::IsTerminator>()) {
      op.erase();
      isAny = true;
    }
  }
  return isAny;
}

/// Lets loops in `region` compute no tile that nothing uses after them: they carry zeros instead, which the
/// canonicalizer removes.
static bool dropCarried(Region &region) {
  bool isAny = false;
  region.walk([&](scf::ForOp loop) {
    auto yield = cast<scf::YieldOp>(loop.getBody()->getTerminator());
    for (auto [number, result] : llvm::enumerate(loop.getResults())) {
      auto type = dyn_cast<RankedTensorType>(result.getType());
      BlockArgument carried = loop.getRegionIterArg(number);
      if (!type || !result.use_empty() || yield.getOperand(number) == carried)
        continue;
      yield.setOperand(number, carried);
      OpBuilder b(loop);
      Value zeros = arith::ConstantOp::create(b, loop.getLoc(), b.getZeroAttr(type));
      loop.getInitArgsMutable()[number].assign(zeros);
      isAny = true;
    }
  });
  return isAny;
}

/// Moves each release to after the last wait of the block for a product that reads the slot.
static void placeReleases(Region &region) {
  SmallVector<ReleaseOp> releases;
  region.walk([&](ReleaseOp release) { releases.push_back(release); });
  for (ReleaseOp release : releases) {
    Operation *last = release.getSlot().getDefiningOp();
    if (!last || last->getBlock() != release->getBlock())
      continue;
    for (Operation *user : release.getSlot().getUsers()) {
      auto product = dyn_cast<MmaAsyncOp>(user);
      Operation *end = product ? *product.getToken().user_begin() : user;
      end = end == release ? nullptr : release->getBlock()->findAncestorOpInBlock(*end);
      if (end && last->isBeforeInBlock(end))
        last = end;
    }
    // Threads read a slot of f32 themselves; its release stays after the products that depend on these reads.
    if (!release.getSlot().getType().getElementType().isF32())
      release->moveAfter(last);
  }
}

/// Moves each receipt to before the first op that needs the tile, so that products of the role are in flight meanwhile.
static void placeReceipts(Region &region) {
  region.walk([](ReceiveOp receive) {
    Operation *first = nullptr;
    for (Operation *user : receive->getUsers())
      if (Operation *op = receive->getBlock()->findAncestorOpInBlock(*user);
          op && (!first || op->isBeforeInBlock(first)))
        first = op;
    if (first)
      receive->moveBefore(first);
  });
}

/// Counts the products that are in flight at each wait after the awaited one.
static void countPending(Region &region) {
  region.walk([](MmaWaitOp wait) {
    Operation *product = wait.getToken().getDefiningOp();
    if (!product || product->getBlock() != wait->getBlock())
      return;
    int64_t later = 0;
    for (Operation *op = product->getNextNode(); op != wait; op = op->getNextNode())
      later += isa<MmaAsyncOp>(op);
    wait.setPending(std::min<int64_t>(wait.getPending(), later));
  });
}

/// Keeps the ops of one role in `region`, a copy of the whole program. `isOfRole` says of an output whether the role
/// has it.
static void keepRole(Region &region, llvm::function_ref<bool(Operation *)> isOfRole) {
  SmallVector<Operation *> others;
  region.walk([&](Operation *op) {
    if (isOutput(op) && !isOfRole(op))
      others.push_back(op);
  });
  for (Operation *op : others)
    op->erase();
  for (bool isAny = true; isAny;) {
    isAny = dropCarried(region);
    for (Block &block : region)
      isAny |= eraseUnused(block);
  }
  placeReleases(region);
  placeReceipts(region);
  countPending(region);
}

/// Returns the ops that depend on results of `handed`, also through the values that loops carry.
static llvm::DenseSet<Operation *> findDependent(ArrayRef<HandOverOp> handed) {
  llvm::DenseSet<Operation *> dependent;
  SmallVector<Value> worklist;
  llvm::DenseSet<Value> seen;
  auto add = [&](Value value) {
    if (seen.insert(value).second)
      worklist.push_back(value);
  };
  for (HandOverOp op : handed)
    add(op.getResult());
  while (!worklist.empty()) {
    Value value = worklist.pop_back_val();
    for (OpOperand &use : value.getUses()) {
      Operation *user = use.getOwner();
      Operation *parent = user->getParentOp();
      if (isa<scf::YieldOp>(user)) {
        unsigned number = use.getOperandNumber();
        add(parent->getResult(number));
        if (auto loop = dyn_cast<scf::ForOp>(parent))
          add(loop.getRegionIterArg(number));
      } else if (auto loop = dyn_cast<scf::ForOp>(user);
                 loop && use.getOperandNumber() >= loop.getNumControlOperands()) {
        unsigned number = use.getOperandNumber() - loop.getNumControlOperands();
        add(loop.getRegionIterArg(number));
        add(loop.getResult(number));
      } else {
        dependent.insert(user);
        for (Value result : user->getResults())
          add(result);
      }
    }
  }
  return dependent;
}

/// Divides the consumers' program of `op`.
static LogicalResult divide(WarpSpecializeOp op, ArrayRef<HandOverOp> handed) {
  if (op.getConsumers() != 2)
    return op.emitOpError() << "cannot divide products: expected two consumers, got " << op.getConsumers();
  llvm::DenseSet<Operation *> dependent = findDependent(handed);
  StringAttr mark = StringAttr::get(op.getContext(), "tile.depends");
  op.getConsumer().walk([&](Operation *output) {
    if (isOutput(output) && dependent.contains(output))
      output->setDiscardableAttr(mark, UnitAttr::get(op.getContext()));
  });
  Block &program = op.getConsumer().front();
  OpBuilder b = OpBuilder::atBlockEnd(&program);
  Location loc = op.getLoc();
  SmallVector<Operation *> whole = llvm::map_to_vector(program, [](Operation &inner) { return &inner; });
  Value zero = arith::ConstantIndexOp::create(b, loc, 0);
  Value isFirst = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::eq, op.getConsumer().getArgument(0), zero);
  auto roles = scf::IfOp::create(b, loc, isFirst, /*withElseRegion=*/true);
  for (Region *region : {&roles.getThenRegion(), &roles.getElseRegion()}) {
    bool isSender = region == &roles.getThenRegion();
    OpBuilder inner(region->front().getTerminator());
    IRMapping map;
    for (Operation *one : whole)
      inner.clone(*one, map);
    SmallVector<HandOverOp> copies;
    region->walk([&](HandOverOp copy) { copies.push_back(copy); });
    for (HandOverOp copy : copies) {
      OpBuilder at(copy);
      if (isSender) {
        SendOp::create(at, copy.getLoc(), copy.getSource(), copy.getRing(), copy.getCount());
        copy.replaceAllUsesWith(copy.getSource());
      } else {
        copy.replaceAllUsesWith(
            ReceiveOp::create(at, copy.getLoc(), copy.getResult().getType(), copy.getRing(), copy.getCount())
                .getResult());
      }
      copy.erase();
    }
    keepRole(*region, [&](Operation *output) { return output->hasAttr(mark) != isSender; });
    region->walk([&](Operation *output) { output->removeDiscardableAttr(mark); });
  }
  for (Operation *one : llvm::reverse(whole)) {
    one->dropAllUses();
    one->erase();
  }
  return success();
}

namespace {
struct DivideProducts : tile::impl::DivideProductsBase<DivideProducts> {
  using DivideProductsBase::DivideProductsBase;

  void runOnOperation() override {
    getOperation()->walk([&](WarpSpecializeOp op) {
      SmallVector<HandOverOp> handed;
      op.getConsumer().walk([&](HandOverOp one) { handed.push_back(one); });
      if (!handed.empty() && failed(divide(op, handed)))
        signalPassFailure();
    });
  }
};
} // namespace
