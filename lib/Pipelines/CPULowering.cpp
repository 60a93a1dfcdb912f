//===- CPULowering.cpp - L0 or L1 to the LLVM dialect, for the CPU ------------------------------------------------===//

#include "CPUGuards.h"
#include "flashc/Conversion/Passes.h"
#include "flashc/Dialect/Flash/Transforms/IndexPasses.h"
#include "flashc/Dialect/Flash/Transforms/Passes.h"
#include "flashc/Pipelines/Pipelines.h"
#include "mlir/Conversion/Passes.h"
#include "mlir/Dialect/Arith/Transforms/Passes.h"
#include "mlir/Dialect/Bufferization/Pipelines/Passes.h"
#include "mlir/Dialect/Bufferization/Transforms/Passes.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/LLVMIR/Transforms/RequestCWrappers.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Linalg/Passes.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/MemRef/Transforms/Passes.h"
#include "mlir/Dialect/SCF/Transforms/Passes.h"
#include "mlir/Pass/Pass.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Transforms/Passes.h"

using namespace mlir;

namespace {

/// Copies become linalg.copy, and so loops: the lowering of memref.copy calls a runtime library that flashc's JIT does
/// not have when a side is not contiguous.
struct CopiesToLinalg : PassWrapper<CopiesToLinalg, OperationPass<func::FuncOp>> {
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(CopiesToLinalg)
  StringRef getArgument() const final { return "flash-copies-to-linalg"; }
  StringRef getDescription() const final { return "memref.copy becomes linalg.copy"; }
  void getDependentDialects(DialectRegistry &registry) const final { registry.insert<linalg::LinalgDialect>(); }

  void runOnOperation() final {
    getOperation().walk([](memref::CopyOp copy) {
      OpBuilder builder(copy);
      linalg::CopyOp::create(builder, copy.getLoc(), copy.getSource(), copy.getTarget());
      copy.erase();
    });
  }
};

/// Without eliminate-empty-tensors: where results of an scf.forall begin as one tensor, it lets the end of the loop
/// write over one of them before it is read (MLIR 22).
void addBufferization(OpPassManager &pm) {
  bufferization::OneShotBufferizePassOptions options;
  options.bufferizeFunctionBoundaries = true;
  options.functionBoundaryTypeConversion = bufferization::LayoutMapOption::FullyDynamicLayoutMap;
  options.allowReturnAllocsFromLoops = true;
  pm.addPass(bufferization::createOneShotBufferizePass(options));
  // Not before: the conversion takes buffers only.
  pm.addNestedPass<func::FuncOp>(createForallToForLoopPass());
  pm.addPass(createCanonicalizerPass());
  pm.addPass(createCSEPass());
  bufferization::buildBufferDeallocationPipeline(pm);
  pm.addPass(createConvertBufferizationToMemRefPass());
}

void addLoops(OpPassManager &pm) {
  pm.addNestedPass<func::FuncOp>(std::make_unique<CopiesToLinalg>());
  pm.addNestedPass<func::FuncOp>(createConvertLinalgToLoopsPass());
  pm.addPass(memref::createExpandStridedMetadataPass());
  pm.addPass(createLowerAffinePass());
  pm.addNestedPass<func::FuncOp>(flashc::createGuardDivisionsPass());
  pm.addPass(createSCFToControlFlowPass());
}

void addLLVM(OpPassManager &pm) {
  arith::ArithExpandOpsPassOptions expand;
  expand.includeBf16 = true; // x86 has no bf16 rounding instruction before AVX-512; LLVM would call a library
  pm.addPass(arith::createArithExpandOpsPass(expand));
  // Before there are declarations of functions of libm, which have no wrappers.
  pm.addNestedPass<func::FuncOp>(LLVM::createLLVMRequestCWrappersPass());
  // Before constants are converted: memref.dim of a dimension that is not known takes stack, and in a loop all of it.
  pm.addPass(createFinalizeMemRefToLLVMConversionPass());
  pm.addPass(createConvertMathToLLVMPass());
  pm.addPass(createConvertMathToLibmPass());
  pm.addPass(createArithToLLVMConversionPass());
  pm.addPass(createConvertIndexToLLVMPass());
  pm.addPass(createConvertFuncToLLVMPass());
  pm.addPass(createConvertControlFlowToLLVMPass());
  pm.addPass(createUBToLLVMConversionPass());
  pm.addPass(createReconcileUnrealizedCastsPass());
}

} // namespace

void flashc::buildCPULoweringPipeline(OpPassManager &pm) {
  pm.addNestedPass<func::FuncOp>(flash::createCheckData());
  pm.addPass(flash::createDecompose());
  ExpandMathOptions expand;
  expand.libm = true;
  pm.addPass(createExpandMath(expand));
  pm.addPass(createConvertElementwiseToLinalgPass());
  pm.addNestedPass<func::FuncOp>(flashc::createGuardElementsPass());
  addBufferization(pm);
  addLoops(pm);
  addLLVM(pm);
}
