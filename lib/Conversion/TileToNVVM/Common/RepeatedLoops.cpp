//===- RepeatedLoops.cpp - loops that test a condition at their end -----------------------------------------------===//

#include "Lowering.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

using namespace mlir;
using namespace mlir::tile;

/// Converts the counted loop to an scf.while inside of an scf.if. The loop's code goes to the part of the scf.while
/// that comes before the condition, so it runs once before the condition is tested. The scf.if tests whether the
/// counted loop runs at all.
static void expandRepeatedLoop(RepeatIfOp repeat) {
  auto loop = cast<scf::ForOp>(repeat->getParentOp());
  Location loc = loop.getLoc();
  OpBuilder b(loop);
  auto isBelow = [&](Value x) {
    return arith::CmpIOp::create(b, loc, arith::CmpIPredicate::slt, x, loop.getUpperBound());
  };
  auto guard = scf::IfOp::create(b, loc, loop.getResultTypes(), isBelow(loop.getLowerBound()), /*withElseRegion=*/true);
  b.setInsertionPointToEnd(guard.elseBlock());
  scf::YieldOp::create(b, loc, loop.getInitArgs());

  b.setInsertionPointToEnd(guard.thenBlock());
  SmallVector<Value> inits{loop.getLowerBound()};
  llvm::append_range(inits, loop.getInitArgs());
  auto repeated = scf::WhileOp::create(b, loc, ValueRange(inits).getTypes(), inits);
  scf::YieldOp::create(b, loc, repeated.getResults().drop_front());
  SmallVector<Location> locations(inits.size(), loc);
  Block *after = b.createBlock(&repeated.getAfter(), {}, ValueRange(inits).getTypes(), locations);
  scf::YieldOp::create(b, loc, after->getArguments());

  repeated.getBefore().takeBody(loop.getRegion());
  auto yield = cast<scf::YieldOp>(repeated.getBefore().front().getTerminator());
  b.setInsertionPoint(yield);
  Value next = arith::AddIOp::create(b, loc, repeated.getBefore().getArgument(0), loop.getStep());
  Value condition = arith::AndIOp::create(b, loc, repeat.getCondition(), isBelow(next));
  SmallVector<Value> values{next};
  llvm::append_range(values, yield.getResults());
  scf::ConditionOp::create(b, loc, condition, values);
  yield.erase();
  repeat.erase();
  loop.replaceAllUsesWith(guard.getResults());
  loop.erase();
}

void flashc::tiletonvvm::expandRepeatedLoops(gpu::GPUFuncOp kernel) {
  SmallVector<RepeatIfOp> repeats;
  kernel.walk([&](RepeatIfOp repeat) { repeats.push_back(repeat); });
  llvm::for_each(repeats, expandRepeatedLoop);
}
