//===- FoldGrid.cpp - kernels take a grid of one dimension apart --------------------------------------------------===//

#include "flashc/Launch/Launch.h"
#include "flashc/Launch/Passes.h"
#include "mlir/Dialect/Arith/IR/Arith.h"

namespace flashc {
#define GEN_PASS_DEF_FOLDGRID
#include "flashc/Launch/Passes.h.inc"
} // namespace flashc

using namespace mlir;
using namespace mlir::tile;
using namespace flashc;

/// Whether the kernel's warps compute tiles together. The code of a plain kernel, in contrast, is for single threads.
static bool hasTiles(gpu::GPUFuncOp kernel) {
  return kernel->hasAttr(kScheduleAttrName) || getWarpProgram(kernel) != nullptr;
}

/// Emits the coordinates that the CTA would have in the grid of three dimensions.
static std::array<Value, 3> emitPlace(ImplicitLocOpBuilder &b, Value nx, Value ny, bool isUniform) {
  auto divide = [&](Value x, Value y) -> std::pair<Value, Value> {
    Value quotient = arith::DivUIOp::create(b, x, y), product = arith::MulIOp::create(b, quotient, y);
    return {quotient, arith::SubIOp::create(b, x, product)};
  };
  auto [rest, x] = divide(gpu::BlockIdOp::create(b, gpu::Dimension::x), nx);
  auto [z, y] = divide(rest, ny);
  std::array<Value, 3> place{x, y, z};
  if (isUniform)
    for (Value &position : place)
      position = UniformOp::create(b, position);
  return place;
}

static void foldGrid(gpu::GPUFuncOp kernel) {
  SmallVector<gpu::BlockIdOp> ids;
  SmallVector<gpu::GridDimOp> extents;
  kernel.walk([&](gpu::BlockIdOp id) { ids.push_back(id); });
  kernel.walk([&](gpu::GridDimOp extent) { extents.push_back(extent); });
  Block &entry = kernel.getBody().front();
  auto b = ImplicitLocOpBuilder::atBlockBegin(kernel.getLoc(), &entry);
  std::array<Value, 2> sizes;
  for (Value &size : sizes)
    size = entry.addArgument(b.getIndexType(), b.getLoc());
  kernel.setFunctionType(b.getFunctionType(entry.getArgumentTypes(), {}));
  std::array<Value, 3> place = emitPlace(b, sizes[0], sizes[1], hasTiles(kernel));
  for (gpu::BlockIdOp id : ids) {
    id.getResult().replaceAllUsesWith(place[static_cast<unsigned>(id.getDimension())]);
    id.erase();
  }
  for (gpu::GridDimOp extent : extents) { // all are along x: convert-kernel-to-llvm has no other axis
    extent.getResult().replaceAllUsesWith(sizes[0]);
    extent.erase();
  }
}

FailureOr<int64_t> flashc::foldGrids(gpu::GPUFuncOp main) {
  FailureOr<Launch> launch = Launch::get(main);
  auto kernels = failed(launch) ? FailureOr<SmallVector<gpu::GPUFuncOp>>() : launch->findKernels(main);
  if (failed(kernels))
    return failure();
  int64_t count = 0;
  for (auto [kernel, info] : llvm::zip_equal(*kernels, launch->getKernels())) {
    if (isFlat(*info))
      continue;
    ::foldGrid(kernel);
    ++count;
  }
  launch->foldGrids();
  launch->set(main);
  return count;
}

namespace {
struct FoldGrid : flashc::impl::FoldGridBase<FoldGrid> {
  using FoldGridBase::FoldGridBase;

  void runOnOperation() override {
    WalkResult result = getOperation()->walk([&](gpu::GPUFuncOp kernel) {
      if (!Launch::isOn(kernel))
        return WalkResult::advance();
      FailureOr<int64_t> count = foldGrids(kernel);
      if (failed(count))
        return WalkResult::interrupt();
      numFolded += *count;
      return WalkResult::advance();
    });
    if (result.wasInterrupted())
      signalPassFailure();
  }
};
} // namespace
