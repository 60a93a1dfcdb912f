//===- PlainKernels.cpp - kernels without tiles -------------------------------------------------------------------===//
//
// Kernels that prepare data for other kernels (tile-order). They have scalar code of threads, arrays in device memory,
// and one array in shared memory (a memref.global of the workgroup's address space).
//
//===--------------------------------------------------------------------------------------------------------------===//

#include "Lowering.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;
using namespace flashc::tiletonvvm;

namespace {

struct ThreadIdLowering : OpConversionPattern<gpu::ThreadIdOp> {
  using OpConversionPattern::OpConversionPattern;
  LogicalResult matchAndRewrite(gpu::ThreadIdOp op, OpAdaptor, ConversionPatternRewriter &rewriter) const override {
    if (op.getDimension() != gpu::Dimension::x)
      return rewriter.notifyMatchFailure(op, "expected a CTA of one dimension");
    Emitter emit(rewriter, op.getLoc());
    Value id = NVVM::ThreadIdXOp::create(rewriter, op.getLoc(), rewriter.getI32Type());
    rewriter.replaceOp(op, emit.toIndex(id));
    return success();
  }
};

struct GetGlobalLowering : OpConversionPattern<memref::GetGlobalOp> {
  using OpConversionPattern::OpConversionPattern;
  LogicalResult matchAndRewrite(memref::GetGlobalOp op, OpAdaptor, ConversionPatternRewriter &rewriter) const override {
    auto type = LLVM::LLVMPointerType::get(getContext(), getAddressSpace(op.getType()));
    rewriter.replaceOpWithNewOp<LLVM::AddressOfOp>(op, type, op.getName());
    return success();
  }
};

struct MemRefStoreLowering : OpConversionPattern<memref::StoreOp> {
  using OpConversionPattern::OpConversionPattern;
  LogicalResult matchAndRewrite(memref::StoreOp op, OneToNOpAdaptor adaptor,
                                ConversionPatternRewriter &rewriter) const override {
    Emitter emit(rewriter, op.getLoc());
    Value pointer = getElementPointer(emit, adaptor.getMemref(), op.getMemRefType(), op.getIndices());
    rewriter.replaceOpWithNewOp<LLVM::StoreOp>(op, adaptor.getValue().front(), pointer);
    return success();
  }
};

int64_t getBytes(VectorType type) { return type.getNumElements() * type.getElementTypeBitWidth() / 8; }

/// Loads of vectors are aligned to their size.
struct VectorLoadLowering : OpConversionPattern<vector::LoadOp> {
  using OpConversionPattern::OpConversionPattern;
  LogicalResult matchAndRewrite(vector::LoadOp op, OneToNOpAdaptor adaptor,
                                ConversionPatternRewriter &rewriter) const override {
    Emitter emit(rewriter, op.getLoc());
    Value pointer = getElementPointer(emit, adaptor.getBase(), op.getMemRefType(), op.getIndices());
    rewriter.replaceOpWithNewOp<LLVM::LoadOp>(op, op.getVectorType(), pointer, getBytes(op.getVectorType()));
    return success();
  }
};

struct VectorStoreLowering : OpConversionPattern<vector::StoreOp> {
  using OpConversionPattern::OpConversionPattern;
  LogicalResult matchAndRewrite(vector::StoreOp op, OneToNOpAdaptor adaptor,
                                ConversionPatternRewriter &rewriter) const override {
    Emitter emit(rewriter, op.getLoc());
    Value pointer = getElementPointer(emit, adaptor.getBase(), op.getMemRefType(), op.getIndices());
    rewriter.replaceOpWithNewOp<LLVM::StoreOp>(op, adaptor.getValueToStore().front(), pointer,
                                               getBytes(op.getVectorType()));
    return success();
  }
};

} // namespace

void flashc::tiletonvvm::convertSharedArrays(gpu::GPUModuleOp module) {
  for (auto global : llvm::make_early_inc_range(module.getOps<memref::GlobalOp>())) {
    OpBuilder b(global);
    MemRefType type = global.getType();
    auto array = LLVM::LLVMArrayType::get(type.getElementType(), type.getNumElements());
    auto lowered = LLVM::GlobalOp::create(b, global.getLoc(), array, /*isConstant=*/false, LLVM::Linkage::Internal,
                                          global.getSymName(), Attribute(), /*alignment=*/16, getAddressSpace(type));
    b.createBlock(&lowered.getInitializerRegion());
    Value undefined = LLVM::UndefOp::create(b, global.getLoc(), array);
    LLVM::ReturnOp::create(b, global.getLoc(), undefined);
    global.erase();
  }
}

void flashc::tiletonvvm::populatePlainPatterns(TileTypeConverter &converter, RewritePatternSet &patterns) {
  patterns.add<ThreadIdLowering, GetGlobalLowering, MemRefStoreLowering, VectorLoadLowering, VectorStoreLowering>(
      converter, patterns.getContext());
  populateLoadPatterns(converter, patterns);
}
