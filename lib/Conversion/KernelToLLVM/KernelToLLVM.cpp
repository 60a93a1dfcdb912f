//===- KernelToLLVM.cpp - the pass convert-kernel-to-llvm ---------------------------------------------------------===//

#include "flashc/Conversion/ExpandMath.h"
#include "flashc/Conversion/Passes.h"
#include "mlir/Conversion/ArithToLLVM/ArithToLLVM.h"
#include "mlir/Conversion/ControlFlowToLLVM/ControlFlowToLLVM.h"
#include "mlir/Conversion/LLVMCommon/ConversionTarget.h"
#include "mlir/Conversion/LLVMCommon/TypeConverter.h"
#include "mlir/Conversion/MathToLLVM/MathToLLVM.h"
#include "mlir/Conversion/SCFToControlFlow/SCFToControlFlow.h"
#include "mlir/Conversion/VectorToLLVM/ConvertVectorToLLVM.h"
#include "mlir/Dialect/Arith/Transforms/Passes.h"
#include "mlir/Dialect/ControlFlow/IR/ControlFlow.h"
#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Transforms/DialectConversion.h"
#include <cmath>

namespace flashc {
#define GEN_PASS_DEF_CONVERTKERNELTOLLVM
#include "flashc/Conversion/Passes.h.inc"
} // namespace flashc

using namespace mlir;

namespace {

/// A function of f32 that is one PTX instruction, with a factor for the input or for the output.
struct Approximation {
  StringRef instruction;
  double factorIn = 1.0, factorOut = 1.0;
};

std::optional<Approximation> getApproximation(Operation *op) {
  constexpr double kLog2E = 1.4426950408889634, kLn2 = 0.6931471805599453, kLog10Of2 = 0.30102999566398120;
  return TypeSwitch<Operation *, std::optional<Approximation>>(op)
      .Case([](math::Exp2Op) { return Approximation{"ex2.approx.ftz.f32"}; })
      .Case([=](math::ExpOp) { return Approximation{"ex2.approx.ftz.f32", kLog2E}; })
      .Case([](math::Log2Op) { return Approximation{"lg2.approx.ftz.f32"}; })
      .Case([=](math::LogOp) { return Approximation{"lg2.approx.ftz.f32", 1.0, kLn2}; })
      .Case([=](math::Log10Op) { return Approximation{"lg2.approx.ftz.f32", 1.0, kLog10Of2}; })
      .Case([](math::TanhOp) { return Approximation{"tanh.approx.f32"}; })
      .Case([](math::SqrtOp) { return Approximation{"sqrt.approx.ftz.f32"}; })
      .Case([](math::RsqrtOp) { return Approximation{"rsqrt.approx.ftz.f32"}; })
      .Case([](math::SinOp) { return Approximation{"sin.approx.ftz.f32"}; })
      .Case([](math::CosOp) { return Approximation{"cos.approx.ftz.f32"}; })
      .Case([](math::AbsFOp) { return Approximation{"abs.ftz.f32"}; })
      .Default([](Operation *) { return std::nullopt; });
}

/// Emits an instruction without side effects.
Value createPtx(OpBuilder &builder, Location loc, const Twine &text, StringRef constraints, ValueRange operands) {
  return LLVM::InlineAsmOp::create(builder, loc, TypeRange(operands[0].getType()), operands, text.str(), constraints,
                                   /*has_side_effects=*/false, /*is_align_stack=*/false,
                                   LLVM::tailcallkind::TailCallKind::None, LLVM::AsmDialectAttr(), ArrayAttr())
      .getResult(0);
}

Value createIntrinsic(OpBuilder &builder, Location loc, StringRef name, Value operand) {
  return LLVM::CallIntrinsicOp::create(builder, loc, operand.getType(), builder.getStringAttr(name), operand)
      .getResult(0);
}

struct MathLowering : ConversionPattern {
  MathLowering(const LLVMTypeConverter &converter, MLIRContext *context)
      : ConversionPattern(converter, MatchAnyOpTypeTag(), /*benefit=*/2, context) {}

  LogicalResult matchAndRewrite(Operation *op, ArrayRef<Value> operands,
                                ConversionPatternRewriter &rewriter) const override {
    std::optional<Approximation> approximation = getApproximation(op);
    if (!approximation || !op->getResult(0).getType().isF32())
      return rewriter.notifyMatchFailure(op, "not a function of f32 that PTX has");
    Location loc = op->getLoc();
    auto scale = [&](Value value, double factor) -> Value {
      if (factor == 1.0)
        return value;
      Value constant = LLVM::ConstantOp::create(rewriter, loc, rewriter.getF32FloatAttr(factor));
      return LLVM::FMulOp::create(rewriter, loc, value, constant);
    };
    Value in = scale(operands[0], approximation->factorIn);
    // LLVM can schedule and fold intrinsics, and compiles them faster than inline PTX. This matters since kernels have
    // many of these functions.
    Value out;
    if (isa<math::Exp2Op, math::ExpOp>(op))
      out = createIntrinsic(rewriter, loc, "llvm.nvvm.ex2.approx.ftz.f", in);
    else if (isa<math::TanhOp>(op))
      out = LLVM::TanhOp::create(rewriter, loc, in, LLVM::FastmathFlags::afn);
    else
      out = createPtx(rewriter, loc, approximation->instruction + " $0, $1;", "=f,f", in);
    rewriter.replaceOp(op, scale(out, approximation->factorOut));
    return success();
  }
};

/// Lowers a division of f32 to div.full, which is within 2 ulp (PTX ISA 9.7.3.8). The IEEE division would call a
/// subroutine with divergent branches.
struct DivFLowering : OpConversionPattern<arith::DivFOp> {
  DivFLowering(const LLVMTypeConverter &converter, MLIRContext *context)
      : OpConversionPattern(converter, context, /*benefit=*/2) {}
  LogicalResult matchAndRewrite(arith::DivFOp op, OpAdaptor adaptor,
                                ConversionPatternRewriter &rewriter) const override {
    if (!op.getType().isF32())
      return rewriter.notifyMatchFailure(op, "not on f32");
    rewriter.replaceOp(op, createPtx(rewriter, op.getLoc(), "div.full.ftz.f32 $0, $1, $2;", "=f,f,f",
                                     {adaptor.getLhs(), adaptor.getRhs()}));
    return success();
  }
};

struct BlockIdLowering : OpConversionPattern<gpu::BlockIdOp> {
  using OpConversionPattern::OpConversionPattern;
  LogicalResult matchAndRewrite(gpu::BlockIdOp op, OpAdaptor adaptor,
                                ConversionPatternRewriter &rewriter) const override {
    Type i32 = rewriter.getI32Type();
    switch (op.getDimension()) {
    case gpu::Dimension::x:
      rewriter.replaceOpWithNewOp<NVVM::BlockIdXOp>(op, i32);
      break;
    case gpu::Dimension::y:
      rewriter.replaceOpWithNewOp<NVVM::BlockIdYOp>(op, i32);
      break;
    case gpu::Dimension::z:
      rewriter.replaceOpWithNewOp<NVVM::BlockIdZOp>(op, i32);
      break;
    }
    return success();
  }
};

struct GridDimLowering : OpConversionPattern<gpu::GridDimOp> {
  using OpConversionPattern::OpConversionPattern;
  LogicalResult matchAndRewrite(gpu::GridDimOp op, OpAdaptor adaptor,
                                ConversionPatternRewriter &rewriter) const override {
    if (op.getDimension() != gpu::Dimension::x)
      return rewriter.notifyMatchFailure(op, "expected the grid's extent along x");
    rewriter.replaceOpWithNewOp<NVVM::GridDimXOp>(op, rewriter.getI32Type());
    return success();
  }
};

struct ReturnLowering : OpConversionPattern<gpu::ReturnOp> {
  using OpConversionPattern::OpConversionPattern;
  LogicalResult matchAndRewrite(gpu::ReturnOp op, OpAdaptor adaptor,
                                ConversionPatternRewriter &rewriter) const override {
    rewriter.replaceOpWithNewOp<LLVM::ReturnOp>(op, ValueRange());
    return success();
  }
};

struct KernelLowering : OpConversionPattern<gpu::GPUFuncOp> {
  using OpConversionPattern::OpConversionPattern;
  LogicalResult matchAndRewrite(gpu::GPUFuncOp op, OpAdaptor adaptor,
                                ConversionPatternRewriter &rewriter) const override {
    auto *converter = static_cast<const LLVMTypeConverter *>(getTypeConverter());
    TypeConverter::SignatureConversion signature(op.getNumArguments());
    Type type = converter->convertFunctionSignature(op.getFunctionType(), /*isVariadic=*/false,
                                                    /*useBarePtrCallConv=*/false, signature);
    if (!type)
      return rewriter.notifyMatchFailure(op, "cannot convert its signature");
    auto function = LLVM::LLVMFuncOp::create(rewriter, op.getLoc(), op.getName(), type);
    for (NamedAttribute attribute : op->getDiscardableAttrs())
      function->setAttr(attribute.getName(), attribute.getValue());
    function->setAttr(NVVM::NVVMDialect::getKernelFuncAttrName(), rewriter.getUnitAttr());
    if (auto threads = op->getAttrOfType<IntegerAttr>("flashc.threads")) {
      function->setAttr(NVVM::NVVMDialect::getReqntidAttrName(),
                        rewriter.getDenseI32ArrayAttr(static_cast<int32_t>(threads.getInt())));
      // minctasm = 1 (at least one CTA per SM) gives the kernel a register limit at entry, without which setmaxnreg has
      // no effect.
      function->setAttr(NVVM::NVVMDialect::getMinctasmAttrName(), rewriter.getI32IntegerAttr(1));
    }
    if (auto cluster = op->getAttrOfType<IntegerAttr>("flashc.cluster"))
      function->setAttr(NVVM::NVVMDialect::getClusterDimAttrName(),
                        rewriter.getDenseI32ArrayAttr({static_cast<int32_t>(cluster.getInt()), 1, 1}));
    for (auto [i, argument] : llvm::enumerate(op.getArgumentTypes())) {
      auto pointer = dyn_cast<LLVM::LLVMPointerType>(argument);
      if (!pointer || pointer.getAddressSpace() != 0)
        continue;
      function.setArgAttr(i, LLVM::LLVMDialect::getByValAttrName(),
                          TypeAttr::get(LLVM::LLVMArrayType::get(rewriter.getI8Type(), 128)));
      function.setArgAttr(i, LLVM::LLVMDialect::getAlignAttrName(), rewriter.getI64IntegerAttr(64));
      function.setArgAttr(i, NVVM::NVVMDialect::getGridConstantAttrName(), rewriter.getUnitAttr());
    }
    rewriter.inlineRegionBefore(op.getBody(), function.getBody(), function.end());
    if (failed(rewriter.convertRegionTypes(&function.getBody(), *converter, &signature)))
      return failure();
    rewriter.eraseOp(op);
    return success();
  }
};

struct ConvertKernelToLLVM : flashc::impl::ConvertKernelToLLVMBase<ConvertKernelToLLVM> {
  void runOnOperation() override {
    if (failed(flashc::checkScalarCode(getOperation())))
      return signalPassFailure();
    LowerToLLVMOptions options(&getContext());
    options.overrideIndexBitwidth(32);
    LLVMTypeConverter converter(&getContext(), options);
    LLVMConversionTarget target(getContext());
    target.addLegalDialect<NVVM::NVVMDialect>();
    target.addLegalOp<gpu::GPUModuleOp>();
    RewritePatternSet patterns(&getContext());
    populateSCFToControlFlowConversionPatterns(patterns);
    cf::populateControlFlowToLLVMConversionPatterns(converter, patterns);
    arith::populateCeilFloorDivExpandOpsPatterns(patterns);
    arith::populateArithToLLVMConversionPatterns(converter, patterns);
    populateMathToLLVMConversionPatterns(converter, patterns);
    populateVectorToLLVMConversionPatterns(converter, patterns);
    patterns.add<MathLowering, DivFLowering>(converter, &getContext());
    patterns.add<BlockIdLowering, GridDimLowering, ReturnLowering, KernelLowering>(converter, &getContext());
    if (failed(applyPartialConversion(getOperation(), target, std::move(patterns))))
      signalPassFailure();
  }
};

} // namespace
