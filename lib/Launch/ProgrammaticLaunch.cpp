//===- ProgrammaticLaunch.cpp - kernels start before those in front of them have ended ----------------------------===//

#include "flashc/Launch/Launch.h"
#include "flashc/Launch/Passes.h"
#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

namespace flashc {
#define GEN_PASS_DEF_PROGRAMMATICLAUNCH
#include "flashc/Launch/Passes.h.inc"
} // namespace flashc

using namespace mlir;
using namespace mlir::tile;
using namespace flashc;

/// Whether `op` may read or write memory. Allocations of rings and the like do not count.
static bool touchesMemory(Operation *op) {
  auto effects = getEffectsRecursively(op);
  return !effects || llvm::any_of(*effects, [](const MemoryEffects::EffectInstance &effect) {
    return isa<MemoryEffects::Read, MemoryEffects::Write>(effect.getEffect());
  });
}

/// Returns the warp program of `kernel`. Null if the kernel has none.
static WarpProgramOp findWarpProgram(gpu::GPUFuncOp kernel) {
  auto programs = kernel.getBody().getOps<WarpProgramOp>();
  return programs.empty() ? WarpProgramOp() : *programs.begin();
}

/// Lets the next launch start after the last op in which CTAs exchange data. After this op there are only stores.
static void insertTrigger(WarpProgramOp program) {
  Operation *last = nullptr;
  for (Operation &op : program.getBody().front())
    if (isa<MergeWarpsOp, MergeClusterOp>(op))
      last = &op;
  if (!last)
    return;
  OpBuilder b(last->getContext());
  b.setInsertionPointAfter(last);
  NVVM::GriddepcontrolOp::create(b, last->getLoc(), NVVM::GridDepActionKind::launch_dependents);
}

/// Inserts a wait into `block` before the first op that touches memory, or at its end.
static void insertWait(Block &block) {
  auto place =
      llvm::find_if(block, [](Operation &op) { return op.hasTrait<OpTrait::IsTerminator>() || touchesMemory(&op); });
  auto roles = place == block.end() ? WarpSpecializeOp() : dyn_cast<WarpSpecializeOp>(*place);
  if (roles) {
    insertWait(roles.getProducer().front());
    insertWait(roles.getConsumer().front());
    if (!roles.getReducer().empty())
      insertWait(roles.getReducer().front());
    return;
  }
  if (auto program = place == block.end() ? WarpProgramOp() : dyn_cast<WarpProgramOp>(*place))
    return insertWait(program.getBody().front());
  OpBuilder b(&block, place);
  NVVM::GriddepcontrolOp::create(b, block.getParentOp()->getLoc(), NVVM::GridDepActionKind::wait);
}

FailureOr<bool> flashc::overlapLaunches(gpu::GPUFuncOp main) {
  FailureOr<Launch> launch = Launch::get(main);
  if (failed(launch))
    return failure();
  FailureOr<SmallVector<gpu::GPUFuncOp>> found = launch->findKernels(main);
  if (failed(found))
    return failure();
  ArrayRef<gpu::GPUFuncOp> kernels = *found;
  bool isAlone = kernels.size() == 1;
  WarpProgramOp program = findWarpProgram(main);
  launch->mayOverlap = false;
  launch->programmaticLaunch = !isAlone || program;
  launch->set(main);
  if (isAlone && program) {
    insertWait(main.getBody().front());
    insertTrigger(program);
    return true;
  }
  for (gpu::GPUFuncOp kernel : kernels) {
    if (kernel != kernels.front())
      insertWait(kernel.getBody().front());
    if (kernel == main || kernel == kernels.back())
      continue;
    OpBuilder b = OpBuilder::atBlockBegin(&kernel.getBody().front());
    NVVM::GriddepcontrolOp::create(b, kernel.getLoc(), NVVM::GridDepActionKind::launch_dependents);
  }
  return launch->programmaticLaunch;
}

namespace {
struct ProgrammaticLaunch : flashc::impl::ProgrammaticLaunchBase<ProgrammaticLaunch> {
  using ProgrammaticLaunchBase::ProgrammaticLaunchBase;

  void runOnOperation() override {
    WalkResult result = getOperation()->walk([&](gpu::GPUFuncOp kernel) {
      if (!Launch::isOn(kernel))
        return WalkResult::advance();
      FailureOr<Launch> launch = Launch::get(kernel);
      FailureOr<bool> overlaps = failed(launch) ? FailureOr<bool>() : false;
      if (succeeded(launch) && launch->mayOverlap)
        overlaps = overlapLaunches(kernel);
      if (failed(overlaps))
        return WalkResult::interrupt();
      numOverlapped += *overlaps;
      return WalkResult::advance();
    });
    if (result.wasInterrupted())
      signalPassFailure();
  }
};
} // namespace
