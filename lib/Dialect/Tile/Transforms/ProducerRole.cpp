//===- ProducerRole.cpp - the role that loads --------------------------------------------------------------------===//

#include "Roles.h"
#include "flashc/Support/CloneSlice.h"

using namespace mlir;
using namespace mlir::tile;

namespace {
/// Emits the code of the producer: the loads.
class ProducerEmitter : public RoleEmitter {
  using RoleEmitter::RoleEmitter;

  void emitCopy(LoadOp load, IntegerAttr owner, const IRMapping &values) {
    auto get = [&](Value value) { return values.lookupOrDefault(value); };
    Value count = get(numbering.getCount(load));
    AcquireOp::create(b, load.getLoc(), load.getRing(), count, owner);
    CopyAsyncOp::create(b, load.getLoc(), load.getMap(), get(load.getB()), get(load.getH()), get(load.getRow()),
                        load.getTable(), load.getPageRowsAttr(), load.getEnd() ? get(load.getEnd()) : Value(),
                        load.getRing(), count, owner);
  }

  void emitLoad(LoadOp load) override {
    if (!load.getRing().getType().getIsPrivate())
      return emitCopy(load, nullptr, map);
    SmallVector<Operation *> scalars = plan.getPrivateScalars(load);
    for (uint64_t owner = 0; owner < program.getConsumers(); ++owner) {
      IRMapping values = map;
      if (!scalars.empty() || llvm::is_contained(load->getOperands(), program.getWarpgroup()))
        values.map(program.getWarpgroup(), index(load.getLoc(), owner));
      for (Operation *op : scalars)
        b.clone(*op, values);
      emitCopy(load, b.getI64IntegerAttr(owner), values);
    }
  }

  void emitProduct(AddProductOp) override {}

  void emitScalar(Operation &op) override {
    if (auto uniform = dyn_cast<UniformOp>(op))
      map.map(uniform.getResult(), get(uniform.getSource())); // the producer is one thread
    else if (auto own = dyn_cast<OwnVisitsOp>(op))
      emitVisits(own);
    else
      b.clone(op, map);
  }

  /// Lets the producer's loop run all iterations, also those that a consumer skips.
  void emitVisits(OwnVisitsOp own) {
    map.map(own.getBegin(), index(own.getLoc(), 0));
    map.map(own.getEnd(), get(own.getTotal()));
  }

  /// Computes the work tile of the next iteration from `taken`, a value of the counter that was fetched earlier.
  /// Broadcasts the work tile to the consumers. Ends the loop if there is no next work tile.
  void emitNext(DrawOp draw, Value taken, scf::ForOp copy) {
    Location loc = draw.getLoc();
    Value limit = get(draw.getLimit()), one = index(loc, 1);
    Value number = arith::AddIOp::create(b, loc, get(draw.getFirst()), taken);
    Value exists = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::ult, number, limit);
    Value last = arith::SubIOp::create(b, loc, limit, one);
    map.map(draw.getBody().getArgument(0), arith::MinUIOp::create(b, loc, number, last).getResult());
    for (Operation &op : draw.getBody().front().without_terminator())
      if (!plan.isOwn(&op))
        b.clone(op, map);
    auto drawn = cast<DrawnOp>(draw.getBody().front().getTerminator());
    SmallVector<Value> next;
    for (auto [result, value] : llvm::zip_equal(draw.getResults(), drawn.getValues()))
      if (!plan.isOwn(result)) {
        next.push_back(get(value));
        map.map(result, next.back());
      }
    PublishOp::create(b, loc, exists, next, getOwnNext(draw, drawn), copy.getInductionVar());
    RepeatIfOp::create(b, loc, exists);
  }

  /// Emits the results of `draw` that differ between consumers: first all results of the first consumer, then those of
  /// the second, and so on.
  SmallVector<Value> getOwnNext(DrawOp draw, DrawnOp drawn) {
    SmallVector<Value> next;
    if (llvm::none_of(draw.getResults(), [&](Value result) { return plan.isOwn(result); }))
      return next;
    for (uint64_t owner = 0; owner < program.getConsumers(); ++owner) {
      IRMapping values = map;
      values.map(program.getWarpgroup(), index(draw.getLoc(), owner));
      for (auto [result, value] : llvm::zip_equal(draw.getResults(), drawn.getValues()))
        if (plan.isOwn(result))
          next.push_back(flashc::cloneSlice(b, value, values,
                                            [&](Value input) { return plan.isOwn(input) ? Value() : get(input); }));
    }
    return next;
  }

  void emitBody(scf::ForOp loop, scf::ForOp copy) override {
    DrawOp draw = findDraw(loop);
    Value taken; // fetched at the beginning of the iteration, since an atomic operation takes long
    if (draw)
      taken = ConsumeOp::create(b, draw.getLoc(), b.getIndexType(), draw.getList(), get(draw.getPlace()));
    emit(*loop.getBody());
    if (draw)
      emitNext(draw, taken, copy);
  }
};
} // namespace

void tile::emitProducer(ProgramOp program, const RolePlan &plan, const LoadNumbering &numbering, OpBuilder &b) {
  ProducerEmitter(program, plan, numbering, b).emit(program.getBody().front());
}
