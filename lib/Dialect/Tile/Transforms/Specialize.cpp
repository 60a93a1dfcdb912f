//===- Specialize.cpp - splits a program into producer, consumers and reducer -------------------------------------===//

#include "Roles.h"
#include "flashc/Dialect/Tile/Transforms/Passes.h"
#include "flashc/Dialect/Tile/Transforms/Transforms.h"

namespace mlir::tile {
#define GEN_PASS_DEF_SPECIALIZE
#include "flashc/Dialect/Tile/Transforms/Passes.h.inc"
} // namespace mlir::tile

using namespace mlir;
using namespace mlir::tile;

FailureOr<WarpSpecializeOp> tile::specializeProgram(ProgramOp program, ScheduleAttr schedule) {
  if (static_cast<int64_t>(program.getConsumers()) != schedule.getConsumers())
    return program.emitOpError() << "expected " << schedule.getConsumers() << " consumers as in the schedule, got "
                                 << program.getConsumers();
  if (!program.getGrid().empty())
    return program.emitOpError() << "expected the launch's own grid (tile-persist runs before)";
  RolePlan plan(program);
  if (failed(plan.compute()))
    return failure();
  LoadNumbering numbering(program, plan);
  OpBuilder b(program);
  auto op = WarpSpecializeOp::create(b, program.getLoc(), program.getConsumers(), schedule.getProducerRegisters(),
                                     schedule.getConsumerRegisters(), /*reducer_registers=*/IntegerAttr());
  b.setInsertionPointToStart(&op.getProducer().emplaceBlock());
  emitProducer(program, plan, numbering, b);
  if (plan.hasReducer()) {
    op.setReducerRegisters(getReducerRegisters(GPUTarget::of(program), schedule));
    b.setInsertionPointToStart(&op.getReducer().emplaceBlock());
    emitReducer(program, plan, numbering, b);
  }
  op.getConsumer().takeBody(program.getBody());
  program.erase();
  makeConsumer(op, plan, numbering, schedule);
  return op;
}

namespace {
struct Specialize : tile::impl::SpecializeBase<Specialize> {
  using SpecializeBase::SpecializeBase;

  void runOnOperation() override {
    SmallVector<ProgramOp> programs;
    getOperation()->walk([&](ProgramOp program) { programs.push_back(program); });
    for (ProgramOp program : programs) {
      FailureOr<ScheduleAttr> schedule = getSchedule(program);
      if (failed(schedule) || failed(specializeProgram(program, *schedule)))
        signalPassFailure();
      else
        ++numSpecialized;
    }
  }
};
} // namespace
