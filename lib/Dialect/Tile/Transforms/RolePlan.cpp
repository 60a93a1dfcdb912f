//===- RolePlan.cpp - the decisions of tile-specialize ------------------------------------------------------------===//

#include "RolePlan.h"
#include "Utils.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

using namespace mlir;
using namespace mlir::tile;

static InFlightDiagnostic refuse(Operation *op) { return op->emitOpError() << "cannot specialize: "; }

void RolePlan::markIfVarying(Operation *op) {
  if (!llvm::any_of(getInputs(op), [&](Value input) { return varies(input); }))
    return;
  varyingOps.insert(op);
  varying.insert(op->result_begin(), op->result_end());
}

/// Marks the results of `draw` that depend on the warpgroup, and the arguments of its loop that carry them.
void RolePlan::markDrawn(DrawOp draw) {
  bool isAll = llvm::any_of(draw->getOperands(), [&](Value operand) { return varies(operand); });
  auto drawn = cast<DrawnOp>(draw.getBody().front().getTerminator());
  for (auto [value, result] : llvm::zip_equal(drawn.getValues(), draw.getResults()))
    if (isAll || varies(value))
      varying.insert(result);
  auto loop = cast<scf::ForOp>(draw->getParentOp());
  for (unsigned number : getDrawnArgs(loop))
    if (varies(loop.getYieldedValues()[number]))
      varying.insert(loop.getRegionIterArg(number));
}

void RolePlan::findVarying() {
  // The walk visits the users of a loop's arguments before the tile.draw for which the arguments are marked. So it is
  // repeated until no more arguments are marked.
  for (size_t before = -1; before != varying.size();) {
    before = varying.size();
    program.walk<WalkOrder::PreOrder>([&](Operation *op) {
      // The results of tile.own_visits do not count as varying: since tile.advance_ring accounts for the iterations
      // that a consumer skips, all consumers take equally many slots.
      if (op != program && !isa<OwnVisitsOp, DrawOp>(op))
        markIfVarying(op);
      if (isa<DrawnOp>(op))
        markDrawn(cast<DrawOp>(op->getParentOp()));
    });
  }
}

/// Adds the code that computes `value` to the producer's scalars. `user` is the op that needs the value.
LogicalResult RolePlan::addScalars(Operation *user, Value value) {
  if (value.getParentBlock()->getParentOp() != program && !program->isAncestor(value.getParentBlock()->getParentOp()))
    return success();
  if (auto arg = dyn_cast<BlockArgument>(value)) {
    auto loop = dyn_cast<scf::ForOp>(arg.getOwner()->getParentOp());
    bool isDrawn = loop && !varies(arg) && llvm::any_of(getDrawnArgs(loop), [&](unsigned number) {
                     return arg == loop.getRegionIterArg(number);
                   });
    if (value == warpgroup || isDrawn || (loop && arg == loop.getInductionVar()))
      return success();
  }
  Operation *op = value.getDefiningOp();
  if (!op || !isScalarCode(op)) {
    InFlightDiagnostic diag = refuse(user) << "expected to depend on loop indices and scalar code only";
    diag.attachNote(value.getLoc()) << "it depends on this value";
    return diag;
  }
  if (!scalars.insert(op))
    return success();
  if (auto own = dyn_cast<OwnVisitsOp>(op)) // the producer runs all iterations
    return addScalars(user, own.getTotal());
  for (Value input : getInputs(op))
    if (failed(addScalars(user, input)))
      return failure();
  return success();
}

/// Checks that the loops around `op` run equally often in every consumer, and that no other op decides whether `op`
/// runs.
LogicalResult RolePlan::checkLoops(Operation *op) {
  for (Operation *parent = op->getParentOp(); parent != program; parent = parent->getParentOp()) {
    auto loop = dyn_cast<scf::ForOp>(parent);
    if (!loop) {
      InFlightDiagnostic diag = refuse(op) << "expected in loops only";
      diag.attachNote(parent->getLoc()) << "this op decides whether it runs";
      return diag;
    }
    if (llvm::any_of(loop->getOperands().take_front(loop.getNumControlOperands()),
                     [&](Value bound) { return varies(bound); })) {
      InFlightDiagnostic diag = refuse(loop) << "expected bounds that do not depend on the warpgroup";
      diag.attachNote(op->getLoc()) << "every consumer must run this op equally often";
      return diag;
    }
  }
  return success();
}

LogicalResult RolePlan::checkLoad(LoadOp load) {
  for (Value handle : {Value(load.getMap()), Value(load.getRing()), Value(load.getTable())})
    if (handle && program.getBody().isAncestor(handle.getParentRegion()))
      return refuse(load) << "expected its ring and its tensor map to come from outside of the program";
  for (Value position : load.getPlace()) {
    if (failed(addScalars(load, position)))
      return failure();
    if (varies(position) && !load.getRing().getType().getIsPrivate())
      return refuse(load) << "expected the position in a shared ring not to depend on the warpgroup";
  }
  for (Operation *parent = load->getParentOp(); parent != program; parent = parent->getParentOp())
    for (Value bound : parent->getOperands().take_front(cast<scf::ForOp>(parent).getNumControlOperands()))
      if (failed(addScalars(parent, bound)))
        return failure();
  return success();
}

/// Checks that the last read of a load's slot is known. A product that reads the slot must have its wait in its own
/// block. The only other readers are tile.add_product, tile.read_columns, and a tile.store_async in the load's block.
LogicalResult RolePlan::checkSlot(LoadOp load) {
  for (Operation *user : load.getSlot().getUsers()) {
    if (isa<AddProductOp, ReadColumnsOp>(user) || (isa<StoreAsyncOp>(user) && user->getBlock() == load->getBlock()))
      continue;
    auto product = dyn_cast<MmaAsyncOp>(user);
    if (!product)
      return refuse(load) << "expected its slot to be read by products only, got " << user->getName();
    Value token = product.getToken();
    if (token.hasOneUse() && token.user_begin()->getBlock() == product->getBlock())
      continue;
    InFlightDiagnostic diag = refuse(load) << "expected the products that read it to end where they start";
    diag.attachNote(product.getLoc()) << "this product does not";
    return diag;
  }
  return success();
}

/// Checks that tile.advance_ring skips the iterations that `own` leaves out: `begin` of them before the loop, and
/// `total - end` after it.
LogicalResult RolePlan::checkOwnVisits(OwnVisitsOp own) {
  auto isSkipped = [](Value count) { return llvm::any_of(count.getUsers(), llvm::IsaPred<AdvanceRingOp>); };
  bool isRestSkipped =
      own.getLast() == own.getTotal() || llvm::any_of(own.getEnd().getUsers(), [&](Operation *user) {
        auto rest = dyn_cast<arith::SubIOp>(user);
        return rest && rest.getLhs() == own.getTotal() && rest.getRhs() == own.getEnd() && isSkipped(rest);
      });
  if (isSkipped(own.getBegin()) && isRestSkipped)
    return success();
  return refuse(own) << "expected tile.advance_ring of its begin, and of its total less its end";
}

/// Checks a draw: producer and consumers compute the CTA's first work tile, and the producer alone computes the others.
LogicalResult RolePlan::checkDraw(DrawOp draw) {
  auto loop = cast<scf::ForOp>(draw->getParentOp());
  auto holdsBack = [](LoadOp load) { // see tile.publish
    RingType ring = load.getRing().getType();
    return ring.getIsPrivate() && ring.getStages() < kPublishPlaces;
  };
  if (llvm::none_of(loop.getOps<LoadOp>(), holdsBack))
    return refuse(draw) << "expected a load into fewer than " << kPublishPlaces
                        << " slots of each consumer in every iteration";
  SetVector<Value> needed = getInputs(draw);
  for (unsigned number : getDrawnArgs(loop))
    if (!isOwn(loop.getYieldedValues()[number]))
      needed.insert(loop.getInitArgs()[number]);
  return failure(llvm::any_of(needed, [&](Value value) { return failed(addScalars(draw, value)); }));
}

/// Checks a product of the reducer. The reducer runs the same loops as the producer.
LogicalResult RolePlan::checkProduct(AddProductOp product) {
  isShared = true;
  auto load = product.getB().getDefiningOp<LoadOp>();
  if (!load || !load.getRing().getType().getIsPrivate())
    return refuse(product) << "expected B to be loaded into a ring of each consumer's own";
  WalkResult walk = program.walk(
      [](Operation *op) { return isa<DrawOp, OwnVisitsOp>(op) ? WalkResult::interrupt() : WalkResult::advance(); });
  if (walk.wasInterrupted())
    return refuse(product) << "expected a program without tile.own_visits and tile.draw";
  for (Value value :
       {Value(product.getSums()), Value(product.getBatch()), Value(product.getHead()), Value(product.getRow())}) {
    if (failed(addScalars(product, value)))
      return failure();
    if (varies(value))
      return refuse(product) << "expected a destination that does not depend on the warpgroup";
  }
  return checkLoops(product);
}

LogicalResult RolePlan::compute() {
  findVarying();
  if (program
          .walk([&](OwnVisitsOp own) {
            return failed(checkOwnVisits(own)) ? WalkResult::interrupt() : WalkResult::advance();
          })
          .wasInterrupted())
    return failure();
  WalkResult result = program.walk([&](Operation *op) {
    auto load = dyn_cast<LoadOp>(op);
    auto skip = dyn_cast<AdvanceRingOp>(op); // both sides count the skipped loads
    bool isBad = ((load || isa<PingPongWaitOp>(op)) && failed(checkLoops(op))) ||
                 (load && (failed(checkLoad(load)) || failed(checkSlot(load)))) ||
                 (skip && failed(addScalars(skip, skip.getCount()))) ||
                 (isa<AddProductOp>(op) && failed(checkProduct(cast<AddProductOp>(op)))) ||
                 (isa<DrawOp>(op) && failed(checkDraw(cast<DrawOp>(op))));
    return isBad ? WalkResult::interrupt() : WalkResult::advance();
  });
  return failure(result.wasInterrupted());
}

SmallVector<Operation *> RolePlan::getPrivateScalars(LoadOp load) const {
  SetVector<Operation *> needed;
  SmallVector<Value> worklist = load.getPlace();
  while (!worklist.empty()) {
    Value value = worklist.pop_back_val();
    if (value == warpgroup || !varies(value))
      continue;
    needed.insert(value.getDefiningOp());
    llvm::append_range(worklist, getInputs(value.getDefiningOp()));
  }
  SmallVector<Operation *> ordered;
  program->walk([&](Operation *op) {
    if (needed.contains(op))
      ordered.push_back(op);
  });
  return ordered;
}
