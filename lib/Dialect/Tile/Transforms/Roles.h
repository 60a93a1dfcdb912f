//===- Roles.h - the roles of a specialized program ---------------------------------------------------------------===//
//
// The producer, the reducer and the consumers of a specialized program each have a file.
//
//===--------------------------------------------------------------------------------------------------------------===//
#ifndef FLASHC_LIB_DIALECT_TILE_TRANSFORMS_ROLES_H
#define FLASHC_LIB_DIALECT_TILE_TRANSFORMS_ROLES_H

#include "LoadNumbering.h"
#include "mlir/IR/IRMapping.h"

namespace mlir::tile {

/// Emits the code of one role, the producer or the reducer: the role's ops, the loops around these ops, and the scalars
/// that the ops and the loops need.
class RoleEmitter {
public:
  RoleEmitter(ProgramOp program, const RolePlan &plan, const LoadNumbering &numbering, OpBuilder &b)
      : program(program), plan(plan), numbering(numbering), b(b) {}
  virtual ~RoleEmitter() = default;

  virtual void emit(Block &block) {
    for (Operation &op : block) {
      if (auto load = dyn_cast<LoadOp>(op))
        emitLoad(load);
      else if (auto product = dyn_cast<AddProductOp>(op))
        emitProduct(product);
      else if (auto loop = dyn_cast<scf::ForOp>(op); loop && hasLoads(loop))
        emitLoop(loop);
      else if (plan.isProducerScalar(&op))
        emitScalar(op);
    }
  }

protected:
  virtual void emitLoad(LoadOp load) = 0;
  virtual void emitProduct(AddProductOp product) = 0;
  virtual void emitScalar(Operation &op) { b.clone(op, map); }
  /// Emits the body of `loop` into `copy`, which is the role's copy of the loop.
  virtual void emitBody(scf::ForOp loop, scf::ForOp copy) { emit(*loop.getBody()); }

  Value get(Value value) const { return map.lookupOrDefault(value); }
  Value index(Location loc, int64_t value) { return arith::ConstantIndexOp::create(b, loc, value); }

  void emitLoop(scf::ForOp loop) {
    SmallVector<unsigned> args = getDrawnArgs(loop); // the work tile that all consumers share, and the counters
    llvm::erase_if(args, [&](unsigned arg) { return plan.isOwn(loop.getYieldedValues()[arg]); });
    llvm::append_range(
        args, llvm::seq(loop.getNumRegionIterArgs() - numbering.getNumCounters(loop), loop.getNumRegionIterArgs()));
    SmallVector<Value> inits = llvm::map_to_vector(args, [&](unsigned arg) { return get(loop.getInitArgs()[arg]); });
    auto copy = scf::ForOp::create(b, loop.getLoc(), get(loop.getLowerBound()), get(loop.getUpperBound()),
                                   get(loop.getStep()), inits);
    map.map(loop.getInductionVar(), copy.getInductionVar());
    for (auto [arg, copied, result] : llvm::zip_equal(args, copy.getRegionIterArgs(), copy.getResults())) {
      map.map(loop.getRegionIterArg(arg), copied);
      map.map(loop.getResult(arg), result);
    }
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToStart(copy.getBody());
    emitBody(loop, copy);
    ValueRange yielded = loop.getYieldedValues();
    scf::YieldOp::create(b, loop.getLoc(), llvm::map_to_vector(args, [&](unsigned arg) { return get(yielded[arg]); }));
  }

  ProgramOp program;
  const RolePlan &plan;
  const LoadNumbering &numbering;
  OpBuilder &b;
  IRMapping map;
};

/// Emits the producer's body: the loads.
void emitProducer(ProgramOp program, const RolePlan &plan, const LoadNumbering &numbering, OpBuilder &b);
/// Emits the reducer's body: the products that are added to device memory.
void emitReducer(ProgramOp program, const RolePlan &plan, const LoadNumbering &numbering, OpBuilder &b);
/// Turns the consumer region of `op`, which has the body of the program, into the consumers' code. Loads become waits
/// for slots.
void makeConsumer(WarpSpecializeOp op, const RolePlan &plan, const LoadNumbering &numbering, ScheduleAttr schedule);

} // namespace mlir::tile

#endif // FLASHC_LIB_DIALECT_TILE_TRANSFORMS_ROLES_H
