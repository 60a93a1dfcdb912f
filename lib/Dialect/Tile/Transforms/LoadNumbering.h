//===- LoadNumbering.h - numbers the loads of a program -----------------------------------------------------------===//
#ifndef FLASHC_LIB_DIALECT_TILE_TRANSFORMS_LOADNUMBERING_H
#define FLASHC_LIB_DIALECT_TILE_TRANSFORMS_LOADNUMBERING_H

#include "RolePlan.h"
#include "Utils.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/PatternMatch.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/SetVector.h"

namespace mlir::tile {

/// Returns the ring of which `op` fills a slot. Null if it fills none.
inline Value getFilledRing(Operation *op) {
  if (auto load = dyn_cast<LoadOp>(op))
    return load.getRing();
  if (auto handed = dyn_cast<HandOverOp>(op))
    return handed.getRing();
  auto product = dyn_cast<AddProductOp>(op);
  return product ? product.getRing() : Value();
}

/// Counts the ops that fill each ring, in program order. All roles use these counts, so that load number g and wait
/// number g are for the same tile.
class LoadNumbering {
public:
  LoadNumbering(ProgramOp program, RolePlan &plan) : plan(plan), rewriter(program.getContext()) {
    rewriter.setInsertionPointToStart(&program.getBody().front());
    Value zero = arith::ConstantIndexOp::create(rewriter, program.getLoc(), 0);
    one = arith::ConstantIndexOp::create(rewriter, program.getLoc(), 1);
    plan.addScalar(zero.getDefiningOp());
    plan.addScalar(one.getDefiningOp());
    llvm::MapVector<Value, Value> counters;
    program.walk([&](Operation *op) {
      if (Value ring = getFilledRing(op))
        counters[ring] = zero;
    });
    number(program.getBody().front(), counters);
  }

  /// The number of `op` (a load, a tile.add_product or a tile.hand_over) among the ops that fill its ring.
  Value getCount(Operation *op) const { return counts.lookup(op); }
  /// Returns, for each ring of `skip`, the count of the first load that `skip` skips.
  ArrayRef<Value> getCounts(AdvanceRingOp skip) const { return skipped.find(skip)->second; }
  /// Returns the number of counters that `loop` carries. They are its last iter_args.
  unsigned getNumCounters(scf::ForOp loop) const { return numCounters.lookup(loop); }

private:
  void number(Block &block, llvm::MapVector<Value, Value> &counters) {
    for (Operation &op : llvm::make_early_inc_range(block)) {
      if (Value ring = getFilledRing(&op)) {
        Value &counter = counters[ring];
        counts[&op] = counter;
        rewriter.setInsertionPointAfter(&op);
        counter = arith::AddIOp::create(rewriter, op.getLoc(), counter, one);
        plan.addScalar(counter.getDefiningOp());
      } else if (auto skip = dyn_cast<AdvanceRingOp>(op)) {
        rewriter.setInsertionPointAfter(skip);
        for (Value ring : skip.getRings()) {
          Value &counter = counters[ring];
          skipped[skip].push_back(counter);
          counter = arith::AddIOp::create(rewriter, skip.getLoc(), counter, skip.getCount());
          plan.addScalar(counter.getDefiningOp());
        }
      } else if (auto loop = dyn_cast<scf::ForOp>(op); loop && hasLoads(loop)) {
        numberLoop(loop, counters);
      }
    }
  }

  /// Lets the loop carry the counters of the rings that are filled in it.
  void numberLoop(scf::ForOp loop, llvm::MapVector<Value, Value> &counters) {
    SetVector<Value> rings;
    loop.walk([&](Operation *op) {
      if (Value ring = getFilledRing(op))
        rings.insert(ring);
    });
    SmallVector<Value> inits = llvm::map_to_vector(rings, [&](Value ring) { return counters[ring]; });
    rewriter.setInsertionPoint(loop);
    auto numberBody = [&](OpBuilder &, Location, ArrayRef<BlockArgument> args) {
      for (auto [ring, arg] : llvm::zip_equal(rings, args))
        counters[ring] = arg;
      number(*loop.getBody(), counters);
      return llvm::map_to_vector(rings, [&](Value ring) { return counters[ring]; });
    };
    auto replaced = cast<scf::ForOp>(*loop.replaceWithAdditionalYields(rewriter, inits, false, numberBody));
    for (auto [ring, result] : llvm::zip_equal(rings, replaced.getResults().take_back(rings.size())))
      counters[ring] = result;
    numCounters[replaced] = rings.size();
  }

  RolePlan &plan;
  IRRewriter rewriter;
  Value one;
  llvm::DenseMap<Operation *, Value> counts;
  llvm::DenseMap<Operation *, SmallVector<Value, 2>> skipped;
  llvm::DenseMap<Operation *, unsigned> numCounters;
};

} // namespace mlir::tile

#endif // FLASHC_LIB_DIALECT_TILE_TRANSFORMS_LOADNUMBERING_H
