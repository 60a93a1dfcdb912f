//===- Registers.cpp - tiles in registers: elementwise code, rows -------------------------------------------------===//

#include "Lowering.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"

using namespace mlir;
using namespace mlir::tile;
using namespace flashc::tiletonvvm;

namespace {

/// Converts an elementwise op on tiles (arith, math) to one scalar op for each element that the thread holds.
struct ElementwiseLowering : ConversionPattern {
  ElementwiseLowering(TileTypeConverter &converter, MLIRContext *context)
      : ConversionPattern(converter, MatchAnyOpTypeTag(), /*benefit=*/1, context) {}

  LogicalResult matchAndRewrite(Operation *op, ArrayRef<ValueRange> operands,
                                ConversionPatternRewriter &rewriter) const override {
    if (!op->hasTrait<OpTrait::Elementwise>() || op->getNumResults() != 1)
      return rewriter.notifyMatchFailure(op, "not an elementwise op with one result");
    auto tile = dyn_cast<RankedTensorType>(op->getResult(0).getType());
    if (!tile)
      return rewriter.notifyMatchFailure(op, "not on tiles");
    SmallVector<Value> results;
    for (int64_t i = 0, e = getElementsPerThread(tile); i < e; ++i) {
      OperationState state(op->getLoc(), op->getName());
      for (ValueRange operand : operands) // a scalar operand (a select's condition) applies to every element
        state.addOperands(operand.size() == 1 ? operand[0] : operand[i]);
      state.addTypes(tile.getElementType());
      state.addAttributes(op->getAttrs());
      results.push_back(rewriter.create(state)->getResult(0));
    }
    rewriter.replaceOpWithMultiple(op, {results});
    return success();
  }
};

struct ConstantLowering : OpConversionPattern<arith::ConstantOp> {
  using OpConversionPattern::OpConversionPattern;
  LogicalResult matchAndRewrite(arith::ConstantOp op, OneToNOpAdaptor adaptor,
                                ConversionPatternRewriter &rewriter) const override {
    auto splat = dyn_cast<SplatElementsAttr>(op.getValue());
    if (!splat)
      return rewriter.notifyMatchFailure(op, "expected a splat");
    Value scalar = arith::ConstantOp::create(rewriter, op.getLoc(), splat.getSplatValue<TypedAttr>());
    SmallVector<Value> values(getElementsPerThread(cast<RankedTensorType>(op.getType())), scalar);
    rewriter.replaceOpWithMultiple(op, {values});
    return success();
  }
};

Value combine(Emitter &emit, ReduceKind kind, Value a, Value b) {
  switch (kind) {
  case ReduceKind::Max:
    return arith::MaxNumFOp::create(emit.builder, emit.loc, a, b);
  case ReduceKind::MaxOfBits: {
    auto toBits = [&](Value value) -> Value {
      return arith::BitcastOp::create(emit.builder, emit.loc, emit.builder.getI32Type(), value);
    };
    Value most = arith::MaxSIOp::create(emit.builder, emit.loc, toBits(a), toBits(b));
    return arith::BitcastOp::create(emit.builder, emit.loc, emit.builder.getF32Type(), most);
  }
  case ReduceKind::Sum:
    return arith::AddFOp::create(emit.builder, emit.loc, a, b);
  }
  llvm_unreachable("a kind of reduction without code");
}

/// Reduces a value over the four lanes that share a row.
Value combineLanes(Emitter &emit, ReduceKind kind, Value value) {
  for (int64_t mask : {1, 2})
    value = combine(emit, kind, value, emit.shuffleXor(value, mask));
  return value;
}

TileValues lowerRowReduce(RowReduceOp op, Adaptor<RowReduceOp> adaptor, Emitter &emit, KernelContext &kernel) {
  ValueRange source = adaptor.getSource();
  SmallVector<Value> results;
  for (int64_t half = 0; half < 2; ++half) {
    // Two chains for each row hide the latency that one chain of dependent ops has. They take no more registers.
    Value chains[4];
    int64_t next = 0;
    for (auto [element, value] : llvm::enumerate(source)) {
      if (getHalf(element) != half)
        continue;
      Value &chain = chains[next++ % 2];
      chain = chain ? combine(emit, op.getKind(), chain, value) : value;
    }
    Value reduced = combine(emit, op.getKind(), chains[0], chains[1]);
    results.push_back(hasEncoding<RowAttr>(op.getType()) ? combineLanes(emit, op.getKind(), reduced) : reduced);
  }
  return {results};
}

TileValues lowerCombine(CombineOp op, Adaptor<CombineOp> adaptor, Emitter &emit, KernelContext &kernel) {
  SmallVector<Value> results = llvm::to_vector(adaptor.getSource());
  for (Value &value : results)
    value = combineLanes(emit, op.getKind(), value);
  return {results};
}

TileValues lowerSplitSums(SplitSumsOp op, Adaptor<SplitSumsOp> adaptor, Emitter &emit, KernelContext &kernel) {
  ValueRange source = adaptor.getSource();
  ValueRange last = source.take_back(4); // of the last block, whose eight columns are equal: two for each half
  SmallVector<Value> columns = llvm::to_vector(source.drop_back(4)), sums = {last[0], last[2]};
  return {columns, sums};
}

TileValues lowerBroadcast(BroadcastOp op, Adaptor<BroadcastOp> adaptor, Emitter &emit, KernelContext &kernel) {
  SmallVector<Value> results;
  bool isAcc = hasEncoding<AccAttr>(op.getType());
  for (int64_t e = 0, n = getElementsPerThread(cast<RankedTensorType>(op.getType())); e < n; ++e)
    results.push_back(adaptor.getSource()[isAcc ? getHalf(e) : e]);
  return {results};
}

TileValues lowerScaleRows(ScaleRowsOp op, Adaptor<ScaleRowsOp> adaptor, Emitter &emit, KernelContext &kernel) {
  bool isPartial = hasEncoding<LanePartialAttr>(op.getType());
  SmallVector<Value> results;
  for (auto [e, value] : llvm::enumerate(adaptor.getSource()))
    results.push_back(
        arith::MulFOp::create(emit.builder, emit.loc, value, adaptor.getFactor()[isPartial ? e : getHalf(e)]));
  return {results};
}

/// Lowers an accumulator to operand A. Blocks 2s and 2s + 1 of the accumulator, as pairs of words, are the operand of
/// step s.
TileValues lowerToOperandA(ToOperandAOp op, Adaptor<ToOperandAOp> adaptor, Emitter &emit, KernelContext &kernel) {
  auto type = cast<RankedTensorType>(op.getType());
  SmallVector<Value> results;
  for (int64_t e = 0, n = adaptor.getSource().size(); e < n; e += 2)
    results.push_back(packPair(emit, type.getElementType(), adaptor.getSource()[e], adaptor.getSource()[e + 1]));
  return {results};
}

/// Lowers operand A to an accumulator. A bf16 is the upper half of the f32 with the same value.
TileValues lowerFromOperandA(FromOperandAOp op, Adaptor<FromOperandAOp> adaptor, Emitter &emit, KernelContext &kernel) {
  Type element = op.getSource().getType().getElementType(), f32 = emit.builder.getF32Type();
  SmallVector<Value> results;
  auto add = [&](Value bits) { results.push_back(arith::BitcastOp::create(emit.builder, emit.loc, f32, bits)); };
  for (Value word : adaptor.getSource()) {
    if (element.isBF16()) {
      add(arith::ShLIOp::create(emit.builder, emit.loc, word, emit.i32(16)));
      add(emit.bitAnd(word, 0xFFFF0000));
      continue;
    }
    Value pair = LLVM::BitcastOp::create(emit.builder, emit.loc, VectorType::get({2}, element), word);
    for (int64_t half : {0, 1}) {
      Value rounded = LLVM::ExtractElementOp::create(emit.builder, emit.loc, pair, emit.i32(half));
      results.push_back(arith::ExtFOp::create(emit.builder, emit.loc, f32, rounded));
    }
  }
  return {results};
}

TileValues lowerVoteAny(VoteAnyOp op, Adaptor<VoteAnyOp> adaptor, Emitter &emit, KernelContext &kernel) {
  Value any = arith::OrIOp::create(emit.builder, emit.loc, adaptor.getSource()[0], adaptor.getSource()[1]);
  return {{emit.intrinsic(any.getType(), "llvm.nvvm.vote.any.sync", {emit.i32(-1), any})}};
}

/// Emits |x| + |y|, as bits.
Value emitSum(OpBuilder &b, Location loc, Value x, Value y) {
  Value sum = arith::AddFOp::create(b, loc, LLVM::FAbsOp::create(b, loc, x), LLVM::FAbsOp::create(b, loc, y));
  return arith::BitcastOp::create(b, loc, b.getI32Type(), sum);
}

/// Tests sums of two elements' magnitudes, because a maximum runs at half the rate of an addition, and the sum of two
/// magnitudes is one instruction. Sums are not negative, so they have the same order as integers, with NaN above all
/// others. A maximum of three integers is one instruction.
TileValues lowerAllWithin(AllWithinOp op, Adaptor<AllWithinOp> adaptor, Emitter &emit, KernelContext &kernel) {
  ValueRange source = adaptor.getSource();
  Value chains[2];
  for (int64_t e = 0, n = source.size(); e < n / 2; ++e) {
    Value sum = emitSum(emit.builder, emit.loc, source[e], source[n - 1 - e]), &chain = chains[e % 2];
    chain = chain ? arith::MaxSIOp::create(emit.builder, emit.loc, chain, sum) : sum;
  }
  Value most = arith::MaxSIOp::create(emit.builder, emit.loc, chains[0], chains[1]);
  most = arith::BitcastOp::create(emit.builder, emit.loc, emit.builder.getF32Type(), most);
  Value limit = arith::ConstantOp::create(emit.builder, emit.loc, op.getLimitAttr());
  Value isWithin =
      arith::CmpFOp::create(emit.builder, emit.loc, arith::CmpFPredicate::OLE, most, limit); // false for NaN
  return {{emit.intrinsic(isWithin.getType(), "llvm.nvvm.vote.all.sync", {emit.i32(-1), isWithin})}};
}

TileValues lowerUniform(UniformOp op, Adaptor<UniformOp> adaptor, Emitter &emit, KernelContext &kernel) {
  return {{emit.toIndex(emit.makeUniform(emit.toI32(op.getSource())))}};
}

TileValues lowerOutside(OutsideOp op, Adaptor<OutsideOp> adaptor, Emitter &emit, KernelContext &kernel) {
  Value below = arith::CmpIOp::create(emit.builder, emit.loc, arith::CmpIPredicate::slt, op.getIndex(), op.getLower());
  Value above = arith::CmpIOp::create(emit.builder, emit.loc, arith::CmpIPredicate::sge, op.getIndex(), op.getUpper());
  return {{arith::OrIOp::create(emit.builder, emit.loc, below, above)}};
}

} // namespace

Value flashc::tiletonvvm::packPair(Emitter &emit, Type element, Value low, Value high) {
  StringRef text = element.isBF16() ? "cvt.rn.bf16x2.f32 $0, $1, $2;" : "cvt.rn.f16x2.f32 $0, $1, $2;";
  return emit.ptx(emit.builder.getI32Type(), text, "=r,f,f", {high, low}, /*sideEffects=*/false);
}

void flashc::tiletonvvm::populateRegisterPatterns(KernelPatterns &patterns) {
  patterns.set.add<ElementwiseLowering, ConstantLowering>(patterns.converter, patterns.set.getContext());
  patterns.add(lowerRowReduce, lowerCombine, lowerSplitSums, lowerBroadcast, lowerScaleRows, lowerToOperandA,
               lowerFromOperandA, lowerVoteAny, lowerAllWithin, lowerUniform, lowerOutside);
}
