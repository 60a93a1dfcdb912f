//===- PingPong.cpp - lets the consumers take turns at the tensor cores -------------------------------------------===//

#include "Utils.h"
#include "flashc/Dialect/Tile/Transforms/Passes.h"
#include "mlir/IR/Remarks.h"

namespace mlir::tile {
#define GEN_PASS_DEF_PINGPONG
#include "flashc/Dialect/Tile/Transforms/Passes.h.inc"
} // namespace mlir::tile

using namespace mlir;
using namespace mlir::tile;

/// Inserts turns into `block`. A turn begins at a product of slots (Q K^T) and ends at the last product that is issued
/// before the next wait. Returns the number of turns.
static int64_t insertTurns(Block &block, Value warpgroup) {
  OpBuilder b(block.getParentOp()->getContext());
  MmaAsyncOp last;
  int64_t numTurns = 0;
  auto pass = [&]() {
    if (!last)
      return;
    b.setInsertionPointAfter(last);
    PingPongPassOp::create(b, last.getLoc(), warpgroup);
    last = nullptr;
  };
  for (Operation &op : llvm::make_early_inc_range(block)) {
    if (isa<MmaWaitOp>(op))
      pass();
    auto product = dyn_cast<MmaAsyncOp>(op);
    if (!product || (!last && !isa<SlotType>(product.getA().getType())))
      continue;
    if (!last) {
      b.setInsertionPoint(product);
      PingPongWaitOp::create(b, product.getLoc(), warpgroup);
      ++numTurns;
    }
    last = product;
  }
  pass();
  return numTurns;
}

/// Lets the consumers of `program` take turns at their products. Returns the number of turns in the code. If it is 0,
/// emits a remark that says why.
static int64_t takeTurns(ProgramOp program) {
  auto miss = [&] { return remark::missed(program.getLoc(), remark::RemarkOpts::name("ping-pong").category("tile")); };
  int64_t numTurns = 0;
  if (program.getConsumers() == 1)
    miss() << "expected several consumers to take turns, got one";
  else
    program.walk([&](Block *block) { numTurns += insertTurns(*block, program.getWarpgroup()); });
  if (program.getConsumers() > 1 && numTurns == 0)
    miss() << "no product of slots begins a turn";
  if (numTurns > 0)
    program.walk([](AdvanceRingOp skip) { skip.setTurns(true); });
  return numTurns;
}

namespace {
struct PingPong : tile::impl::PingPongBase<PingPong> {
  using PingPongBase::PingPongBase;

  void runOnOperation() override {
    getOperation()->walk([&](ProgramOp program) {
      FailureOr<ScheduleAttr> schedule = getSchedule(program);
      if (failed(schedule))
        signalPassFailure();
      else if (schedule->getPingPong())
        numTurns += takeTurns(program);
    });
  }
};
} // namespace
