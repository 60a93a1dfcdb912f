//===- WarpgroupUnit.cpp - a warpgroup of 64 rows -----------------------------------------------------------------===//

#include "KernelFrame.h"
#include "Units/Unit.h"

using namespace mlir;
using namespace flashc;

namespace {
/// The consumer warpgroups of a CTA have consecutive rows of the CTA's tile, or share its rows. A producer warpgroup
/// loads for all of them.
class WarpgroupUnit : public Unit {
public:
  explicit WarpgroupUnit(const Schedule &schedule) : isShared(schedule.sharers > 1) {}
  int64_t getRows() const override { return tile::kTileRows; }
  bool loadsItself() const override { return false; }
  bool sharesRows() const override { return isShared; }
  Value emitProgram(KernelFrame &frame, ValueRange grid, tile::WorkAttr work) const override;
  void describe(const NestKernel &kernel, ManifestKernel &info) const override;

private:
  bool isShared;
};
} // namespace

static tile::ScheduleAttr getAttr(const Schedule &schedule, MLIRContext *context) {
  RoleRegisters registers = schedule.getRegisters();
  // Kernels of other kinds are slower if the next tile's product runs during this tile's exponentials
  // (docs/trials.csv).
  bool overlap = schedule.kind == KernelKind::Forward;
  return tile::ScheduleAttr::get(context, schedule.consumers, registers.producer, registers.consumer, overlap,
                                 schedule.pingPong, schedule.epilogue, schedule.waitAfter);
}

Value WarpgroupUnit::emitProgram(KernelFrame &frame, ValueRange grid, tile::WorkAttr work) const {
  ImplicitLocOpBuilder &b = frame.b;
  const Schedule &schedule = frame.schedule;
  frame.kernel->setAttr(tile::kScheduleAttrName, getAttr(schedule, b.getContext()));
  auto program = tile::ProgramOp::create(b, schedule.consumers, grid, !schedule.persistent && !grid.empty(),
                                         /*list=*/Value(), work);
  gpu::ReturnOp::create(b);
  b.setInsertionPointToStart(b.createBlock(&program.getBody(), {}, {b.getIndexType()}, {b.getLoc()}));
  return isShared ? frame.index(0) : program.getWarpgroup();
}

/// The grid has one CTA for each work tile, or, if persistent, one for each multiprocessor.
void WarpgroupUnit::describe(const NestKernel &kernel, ManifestKernel &info) const {
  auto &[tiles, heads, batches] = kernel.extents;
  info.grid = kernel.extents;
  if (kernel.schedule.persistent)
    info.grid = {min(GridFormula::smCount(), tiles * heads * batches), 1, 1};
  gpu::GPUFuncOp func = kernel.func;
  info.block[0] = GPUTarget::of(func).groupThreads * (kernel.schedule.consumers + 1 + tile::hasReducer(func));
}

std::unique_ptr<Unit> flashc::matchWarpgroupUnit(const Schedule &schedule) {
  return std::make_unique<WarpgroupUnit>(schedule);
}
