//===- CPULowering.cpp - L0 or L1 to the LLVM dialect, for the CPU ------------------------------------------------===//

#include "CPUGuards.h"
#include "flashc/Conversion/Passes.h"
#include "flashc/Dialect/Flash/Transforms/IndexPasses.h"
#include "flashc/Dialect/Flash/Transforms/Passes.h"
#include "flashc/Pipelines/Pipelines.h"
#include "mlir/Conversion/ArithToLLVM/ArithToLLVM.h"
#include "mlir/Conversion/ControlFlowToLLVM/ControlFlowToLLVM.h"
#include "mlir/Conversion/FuncToLLVM/ConvertFuncToLLVM.h"
#include "mlir/Conversion/IndexToLLVM/IndexToLLVM.h"
#include "mlir/Conversion/LLVMCommon/ConversionTarget.h"
#include "mlir/Conversion/LLVMCommon/TypeConverter.h"
#include "mlir/Conversion/MathToLLVM/MathToLLVM.h"
#include "mlir/Conversion/MathToLibm/MathToLibm.h"
#include "mlir/Conversion/MemRefToLLVM/MemRefToLLVM.h"
#include "mlir/Conversion/Passes.h"
#include "mlir/Conversion/UBToLLVM/UBToLLVM.h"
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

/// Turns copies into linalg.copy, and so into loops. If a side of a memref.copy is not contiguous, the usual lowering
/// calls a runtime library, which flashc's JIT does not have.
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

/// Converts the ops that addLoops leaves to the LLVM dialect in one conversion. Seven conversions, one for each
/// dialect, took a quarter of the time in which a program is compiled.
struct LoopsToLLVM : PassWrapper<LoopsToLLVM, OperationPass<ModuleOp>> {
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(LoopsToLLVM)
  StringRef getArgument() const final { return "flash-loops-to-llvm"; }
  StringRef getDescription() const final { return "control flow, memrefs and scalars become the LLVM dialect"; }
  void getDependentDialects(DialectRegistry &registry) const final { registry.insert<LLVM::LLVMDialect>(); }

  void runOnOperation() final {
    MLIRContext *context = &getContext();
    LLVMTypeConverter converter(context);
    RewritePatternSet patterns(context);
    populateFinalizeMemRefToLLVMConversionPatterns(converter, patterns);
    populateMathToLLVMConversionPatterns(converter, patterns, /*approximateLog1p=*/true, /*benefit=*/2);
    populateMathToLibmConversionPatterns(patterns);
    arith::populateArithToLLVMConversionPatterns(converter, patterns);
    index::populateIndexToLLVMConversionPatterns(converter, patterns);
    populateFuncToLLVMConversionPatterns(converter, patterns);
    cf::populateControlFlowToLLVMConversionPatterns(converter, patterns);
    cf::populateAssertToLLVMConversionPattern(converter, patterns);
    ub::populateUBToLLVMConversionPatterns(converter, patterns);
    LLVMConversionTarget target(*context);
    if (failed(applyPartialConversion(getOperation(), target, std::move(patterns))))
      signalPassFailure();
  }
};

/// eliminate-empty-tensors is left out: where several results of an scf.forall begin as one tensor, this pass makes the
/// end of the loop overwrite one result before it is read (MLIR 22).
void addBufferization(OpPassManager &pm) {
  bufferization::OneShotBufferizePassOptions options;
  options.bufferizeFunctionBoundaries = true;
  options.functionBoundaryTypeConversion = bufferization::LayoutMapOption::FullyDynamicLayoutMap;
  options.allowReturnAllocsFromLoops = true;
  pm.addPass(bufferization::createOneShotBufferizePass(options));
  // scf.forall becomes scf.for only after bufferization, because the conversion takes buffers only.
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
  expand.includeBf16 = true; // x86 has no rounding to bf16 before AVX-512; LLVM would call a library
  pm.addPass(arith::createArithExpandOpsPass(expand));
  // This pass runs before libm's functions are declared, because these functions must not get a C interface.
  pm.addNestedPass<func::FuncOp>(LLVM::createLLVMRequestCWrappersPass());
  pm.addPass(std::make_unique<LoopsToLLVM>());
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
