//===- Reads.cpp - elements of arrays -----------------------------------------------------------------------------===//

#include "Lowering.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

using namespace mlir;
using namespace mlir::tile;
using namespace flashc::tiletonvvm;

Value flashc::tiletonvvm::addColumn(Emitter &emit, Value col, int64_t distance) {
  if (distance == 0)
    return col;
  return arith::AddIOp::create(emit.builder, emit.loc, col, emit.index(distance), arith::IntegerOverflowFlags::nsw);
}

SmallVector<Value> flashc::tiletonvvm::readPairs(Emitter &emit, memref::LoadOp load,
                                                 std::array<SmallVector<Value>, 2> rows, int64_t elements) {
  int64_t bytes = load.getType().getIntOrFloatBitWidth() / 4;
  auto isAligned = [&](ValueRange indices) -> Value {
    return IsAlignedOp::create(emit.builder, emit.loc, load.getMemref(), indices, bytes);
  };
  Value first = isAligned(rows[0]), second = isAligned(rows[1]), col = rows[0].back();
  auto read = [&](bool areAligned) {
    return [&, areAligned](OpBuilder &nested, Location loc) {
      Emitter inside(nested, loc);
      SmallVector<Value> pairs;
      for (int64_t e = 0; e < elements; e += 2) {
        SmallVector<Value> &indices = rows[getHalf(e)];
        indices.back() = addColumn(inside, col, getColumn(e));
        pairs.push_back(ReadPairOp::create(nested, loc, VectorType::get({2}, load.getType()), load.getMemref(), indices,
                                           areAligned));
      }
      scf::YieldOp::create(nested, loc, pairs);
    };
  };
  auto branch = scf::IfOp::create(emit.builder, emit.loc,
                                  arith::AndIOp::create(emit.builder, emit.loc, first, second),
                                  read(/*areAligned=*/true), read(/*areAligned=*/false));
  SmallVector<Value> values;
  for (int64_t e = 0; e < elements; ++e)
    values.push_back(
        LLVM::ExtractElementOp::create(emit.builder, emit.loc, branch.getResult(e / 2), emit.i32(e % 2)));
  return values;
}

namespace {

/// A captured tensor, read by user code.
struct MemRefLoadLowering : OpConversionPattern<memref::LoadOp> {
  using OpConversionPattern::OpConversionPattern;
  LogicalResult matchAndRewrite(memref::LoadOp op, OneToNOpAdaptor adaptor,
                                ConversionPatternRewriter &rewriter) const override {
    Emitter emit(rewriter, op.getLoc());
    // An i1 tensor is a byte per element, as LLVM lays it out.
    Value pointer = getElementPointer(emit, adaptor.getMemref(), op.getMemRefType(), op.getIndices());
    rewriter.replaceOpWithNewOp<LLVM::LoadOp>(op, op.getType(), pointer);
    return success();
  }
};

struct ReadPairLowering : OpConversionPattern<ReadPairOp> {
  using OpConversionPattern::OpConversionPattern;
  LogicalResult matchAndRewrite(ReadPairOp op, OneToNOpAdaptor adaptor,
                                ConversionPatternRewriter &rewriter) const override {
    Emitter emit(rewriter, op.getLoc());
    auto memref = cast<MemRefType>(op.getMemref().getType());
    Type element = memref.getElementType();
    Value pointer = getElementPointer(emit, adaptor.getMemref(), memref, op.getIndices());
    if (op.getAligned()) {
      rewriter.replaceOpWithNewOp<LLVM::LoadOp>(op, op.getType(), pointer, element.getIntOrFloatBitWidth() / 4);
      return success();
    }
    Value pair = LLVM::PoisonOp::create(rewriter, op.getLoc(), op.getType());
    for (int32_t place : {0, 1}) {
      Value at = LLVM::GEPOp::create(rewriter, op.getLoc(), pointer.getType(), element, pointer, LLVM::GEPArg(place));
      Value value = LLVM::LoadOp::create(rewriter, op.getLoc(), element, at);
      pair = LLVM::InsertElementOp::create(rewriter, op.getLoc(), pair, value, emit.i32(place));
    }
    rewriter.replaceOp(op, pair);
    return success();
  }
};

struct IsAlignedLowering : OpConversionPattern<IsAlignedOp> {
  using OpConversionPattern::OpConversionPattern;
  LogicalResult matchAndRewrite(IsAlignedOp op, OneToNOpAdaptor adaptor,
                                ConversionPatternRewriter &rewriter) const override {
    Emitter emit(rewriter, op.getLoc());
    Value pointer = getElementPointer(emit, adaptor.getMemref(), op.getMemref().getType(), op.getIndices());
    Value address = LLVM::PtrToIntOp::create(rewriter, op.getLoc(), rewriter.getI64Type(), pointer);
    Value low = arith::TruncIOp::create(rewriter, op.getLoc(), rewriter.getI32Type(), address);
    Value isMultiple = emit.equal(emit.bitAnd(low, op.getBytes() - 1), 0);
    rewriter.replaceOp(op, emit.intrinsic(rewriter.getI1Type(), "llvm.nvvm.vote.all.sync", {emit.i32(-1), isMultiple}));
    return success();
  }
};

} // namespace

void flashc::tiletonvvm::populateLoadPatterns(TileTypeConverter &converter, RewritePatternSet &patterns) {
  patterns.add<MemRefLoadLowering, ReadPairLowering, IsAlignedLowering>(converter, patterns.getContext());
}
