//===- TileToNVVM.cpp - the pass convert-tile-to-nvvm -------------------------------------------------------------===//

#include "Hopper/Hopper.h"
#include "Warp/Warp.h"
#include "flashc/Conversion/Passes.h"
#include "flashc/Dialect/Tile/IR/SharedLayout.h"
#include "flashc/Target/PTX.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/ControlFlow/IR/ControlFlow.h"
#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/SCF/Transforms/Patterns.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

namespace flashc {
#define GEN_PASS_DEF_CONVERTTILETONVVM
#include "flashc/Conversion/Passes.h.inc"
} // namespace flashc

using namespace mlir;
using namespace flashc::tiletonvvm;

/// For each target, the patterns of the ops that it has special instructions for: products, rings, copies, roles.
static constexpr std::pair<const flashc::GPUTarget *, decltype(&populateHopperPatterns)> kTargets[] = {
    {&kHopper, populateHopperPatterns}};

namespace {
struct ConvertTileToNVVM : flashc::impl::ConvertTileToNVVMBase<ConvertTileToNVVM> {
  void runOnOperation() override {
    SmallVector<gpu::GPUFuncOp> kernels;
    getOperation()->walk([&](gpu::GPUFuncOp kernel) {
      if (hasTiles(kernel) || kernel->hasAttr("flashc.threads"))
        kernels.push_back(kernel);
    });
    for (gpu::GPUFuncOp kernel : kernels) {
      if (failed(hasTiles(kernel) ? convertKernel(kernel) : convertPlainKernel(kernel)))
        return signalPassFailure();
    }
    getOperation()->walk([](gpu::GPUModuleOp module) { convertSharedArrays(module); });
  }

private:
  static constexpr int64_t kMostMeasuredOps = 128;

  static bool hasTiles(gpu::GPUFuncOp kernel) {
    return kernel->hasAttr(tile::kScheduleAttrName) || tile::getWarpProgram(kernel);
  }

  /// Sets the number of CTAs of a cluster, and the later version of PTX that its st.async needs (8.1).
  void markCluster(gpu::GPUFuncOp kernel, int64_t cluster) {
    if (cluster < 2)
      return;
    const flashc::GPUTarget &target = flashc::GPUTarget::of(kernel);
    kernel->getParentOfType<gpu::GPUModuleOp>().setTargetsAttr(target.getAttr(&getContext(), target.atomicAddFeature));
    kernel->setAttr("flashc.cluster", Builder(&getContext()).getI32IntegerAttr(cluster));
  }

  /// Converts a kernel, with or without tiles, by `patterns` and patterns for types.
  LogicalResult apply(gpu::GPUFuncOp kernel, TileTypeConverter &converter, RewritePatternSet patterns) {
    ConversionTarget target(getContext());
    scf::populateSCFStructuralTypeConversionsAndLegality(converter, patterns, target);
    populateFunctionOpInterfaceTypeConversionPattern<gpu::GPUFuncOp>(patterns, converter);
    target.addIllegalDialect<tile::TileDialect>();
    target.addIllegalOp<gpu::ThreadIdOp, vector::LoadOp, vector::StoreOp>();
    target.addDynamicallyLegalOp<gpu::GPUFuncOp>(
        [&](gpu::GPUFuncOp op) { return converter.isSignatureLegal(op.getFunctionType()); });
    target.addDynamicallyLegalDialect<arith::ArithDialect, math::MathDialect, memref::MemRefDialect>(
        [&](Operation *op) { return converter.isLegal(op); });
    target.addLegalDialect<LLVM::LLVMDialect, NVVM::NVVMDialect>();
    target.markUnknownOpDynamicallyLegal([](Operation *) { return true; });
    return applyPartialConversion(kernel, target, std::move(patterns));
  }

  /// Marks kernels whose masks and scores are too much code for some passes of the back end. Measured kernels have at
  /// most a hundred ops.
  void markLongCode(gpu::GPUFuncOp kernel) {
    int64_t most = 0;
    kernel.walk([&](tile::MapOp map) {
      int64_t ops = 0;
      map.getBody().walk([&](Operation *) { ++ops; });
      most = std::max(most, ops);
    });
    Builder b(&getContext());
    if (most > kMostMeasuredOps)
      kernel->setAttr("passthrough", b.getArrayAttr(b.getStringAttr(flashc::kLongCodeAttrName)));
  }

  LogicalResult convertPlainKernel(gpu::GPUFuncOp kernel) {
    TileTypeConverter converter(&getContext());
    RewritePatternSet patterns(&getContext());
    populatePlainPatterns(converter, patterns);
    return apply(kernel, converter, std::move(patterns));
  }

  LogicalResult convertKernel(gpu::GPUFuncOp kernel) {
    WalkResult walk = kernel.walk([](tile::ProgramOp program) {
      program.emitOpError() << "expected a tile.warp_specialize, got a program: run tile-specialize first";
      return WalkResult::interrupt();
    });
    if (walk.wasInterrupted())
      return failure();
    // The launcher must know the size of shared memory. It is computed here, before rings become addresses.
    kernel->setAttr("flashc.shared_memory", Builder(&getContext()).getI64IntegerAttr(tile::KernelLayout(kernel).bytes));
    expandRepeatedLoops(kernel);
    markLongCode(kernel);
    if (kernel.walk([](tile::AtomicAddOp) { return WalkResult::interrupt(); }).wasInterrupted())
      kernel->getParentOfType<gpu::GPUModuleOp>().setTargetsAttr(
          flashc::GPUTarget::of(kernel).getAttr(&getContext(), flashc::GPUTarget::of(kernel).atomicAddFeature));
    KernelContext context = createKernelContext(kernel);
    int64_t threads = 32 * context.warps;
    if (!context.warps)
      threads = context.target.groupThreads * (context.schedule.getConsumers() + 1 + tile::hasReducer(kernel));
    markCluster(kernel, context.cluster);
    TileTypeConverter converter(&getContext());
    RewritePatternSet patterns(&getContext());
    KernelPatterns ofKernel{converter, patterns, context};
    populateRegisterPatterns(ofKernel);
    populateDropoutPatterns(ofKernel);
    populateMapPatterns(ofKernel);
    populateStorePatterns(ofKernel);
    populateLoadPatterns(converter, patterns);
    if (context.warps)
      populateWarpPatterns(ofKernel);
    else
      llvm::find_if(kTargets, [&](auto entry) { return entry.first == &context.target; })->second(ofKernel);
    if (failed(apply(kernel, converter, std::move(patterns))))
      return failure();
    kernel->removeAttr(tile::kScheduleAttrName);
    kernel->setAttr("flashc.threads", Builder(&getContext()).getI32IntegerAttr(threads));
    return success();
  }
};
} // namespace
