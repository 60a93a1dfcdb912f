//===- Stores.cpp - tiles to device memory, element addresses in 64 bits ------------------------------------------===//
//
// Stores are predicated, never branched around: a divergent branch in a consumer's loop makes ptxas keep the loop's
// counters and descriptors per thread, two R2UR before every HGMMA.
//
//===--------------------------------------------------------------------------------------------------------------===//

#include "Lowering.h"
#include "flashc/Target/Hopper.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"

using namespace mlir;
using namespace mlir::tile;
using namespace flashc::tiletonvvm;
using flashc::kHopper;

Value flashc::tiletonvvm::getElementPointer(Emitter &emit, ValueRange memref, Type element,
                                            ArrayRef<Value> indices) {
  Value offset = emit.toI64(indices.back());
  for (auto [dim, index] : llvm::enumerate(indices.drop_back()))
    offset = emit.add(offset, emit.mul(emit.toI64(index), memref[1 + dim]));
  return LLVM::GEPOp::create(emit.builder, emit.loc, memref[0].getType(), element, memref[0], ValueRange(offset));
}

Value flashc::tiletonvvm::getElementPointer(Emitter &emit, ValueRange memref, MemRefType type, OperandRange indices) {
  if (indices.empty())
    return memref[0];
  SmallVector<Value> positions = llvm::map_to_vector(indices, [&](Value index) { return emit.toI32(index); });
  return getElementPointer(emit, memref, type.getElementType(), positions);
}

namespace {

/// Store `words` (32 bits each) at `pointer` if `predicate`.
void storeWords(Emitter &emit, Value pointer, ArrayRef<Value> words, Value predicate) {
  bool isFloat = words.front().getType().isF32();
  std::string vector = words.size() == 1 ? "" : ".v" + std::to_string(words.size());
  std::string text = "{\n .reg .pred p;\n setp.ne.u32 p, $1, 0;\n @p st.global" + vector + ".b32 [$0], ";
  std::string constraints = "l,r", values;
  SmallVector<Value> operands = {pointer, predicate};
  for (auto [i, word] : llvm::enumerate(words)) {
    values += (i ? ", $" : "$") + std::to_string(2 + i);
    constraints += isFloat ? ",f" : ",r";
    operands.push_back(word);
  }
  text += (words.size() == 1 ? values : "{" + values + "}") + ";\n }";
  emit.ptx(text, constraints + ",~{memory}", operands);
}

Value getPredicate(Emitter &emit, Value row, Value limit) {
  Value below = arith::CmpIOp::create(emit.builder, emit.loc, arith::CmpIPredicate::slt, row, limit);
  return arith::ExtUIOp::create(emit.builder, emit.loc, emit.builder.getI32Type(), below);
}

struct StoreLowering : KernelPattern<StoreOp> {
  using KernelPattern::KernelPattern;

  LogicalResult matchAndRewrite(StoreOp op, OneToNOpAdaptor adaptor,
                                ConversionPatternRewriter &rewriter) const override {
    Emitter emit(rewriter, op.getLoc());
    Type element = cast<MemRefType>(op.getDest().getType()).getElementType();
    ValueRange source = adaptor.getSource();
    Value b = emit.toI32(op.getB()), h = emit.toI32(op.getH()), limit = emit.toI32(op.getLimit());
    for (int64_t half = 0; half < 2; ++half) {
      Value row = emit.add(emit.add(emit.toI32(op.getRow()), kernel.row), 8 * half);
      Value predicate = getPredicate(emit, row, limit);
      if (hasEncoding<RowAttr>(op.getSource().getType())) {
        // One lane of the four that hold the row writes it.
        Value first = arith::ExtUIOp::create(rewriter, op.getLoc(), emit.builder.getI32Type(),
                                             emit.equal(kernel.laneCol, 0));
        predicate = arith::AndIOp::create(rewriter, op.getLoc(), predicate, first);
        storeWords(emit, getElementPointer(emit, adaptor.getDest(), element, {b, h, row}), source[half], predicate);
        continue;
      }
      if (element.isF32())
        storeF32(emit, adaptor, element, {b, h, row}, half, predicate);
      else
        store16(emit, adaptor, element, {b, h, row}, half, predicate);
    }
    rewriter.eraseOp(op);
    return success();
  }

private:
  using Adaptor = OneToNOpAdaptor;

  /// Eight bytes, one pair of words, per block of eight columns.
  void storeF32(Emitter &emit, Adaptor adaptor, Type element, ArrayRef<Value> position, int64_t half,
                Value predicate) const {
    ValueRange source = adaptor.getSource();
    for (int64_t block = 0, blocks = source.size() / 4; block < blocks; ++block) {
      Value col = emit.add(emit.mul(kernel.laneCol, 2), 8 * block);
      int64_t e = 4 * block + 2 * half;
      storeWords(emit, pointerAt(emit, adaptor, element, position, col), {source[e], source[e + 1]}, predicate);
    }
  }

  /// Sixteen bytes per 32 columns: four lanes transpose their 4 x 4 words by two exchanges, so that each holds eight
  /// neighbouring columns. What is left of a width that is no multiple of 32 goes four bytes at a time.
  void store16(Emitter &emit, Adaptor adaptor, Type element, ArrayRef<Value> position, int64_t half,
               Value predicate) const {
    ValueRange source = adaptor.getSource();
    SmallVector<Value> words;
    for (int64_t e = 2 * half, n = source.size(); e < n; e += 4)
      words.push_back(packPair(emit, element, source[e], source[e + 1]));
    int64_t block = 0, blocks = words.size();
    for (; block + 4 <= blocks; block += 4) {
      MutableArrayRef<Value> group = MutableArrayRef<Value>(words).slice(block, 4);
      transposeQuad(emit, group);
      Value col = emit.add(emit.mul(kernel.laneCol, 8), 8 * block);
      storeWords(emit, pointerAt(emit, adaptor, element, position, col), group, predicate);
    }
    for (; block < blocks; ++block) {
      Value col = emit.add(emit.mul(kernel.laneCol, 2), 8 * block);
      storeWords(emit, pointerAt(emit, adaptor, element, position, col), words[block], predicate);
    }
  }

  Value pointerAt(Emitter &emit, Adaptor adaptor, Type element, ArrayRef<Value> position, Value col) const {
    SmallVector<Value> indices(position.begin(), position.end());
    indices.push_back(col);
    return getElementPointer(emit, adaptor.getDest(), element, indices);
  }

  /// Lane c of four holds word c of rows (blocks) 0 to 3; afterwards it holds row c's words 0 to 3.
  void transposeQuad(Emitter &emit, MutableArrayRef<Value> words) const {
    Value odd = emit.equal(emit.bitAnd(kernel.laneCol, 1), 1);
    for (int64_t i : {0, 2}) {
      Value received = emit.shuffleXor(emit.select(odd, words[i], words[i + 1]), 1);
      Value low = emit.select(odd, received, words[i]), high = emit.select(odd, words[i + 1], received);
      words[i] = low, words[i + 1] = high;
    }
    Value upper = emit.equal(emit.bitAnd(kernel.laneCol, 2), 2);
    for (int64_t i : {0, 1}) {
      Value received = emit.shuffleXor(emit.select(upper, words[i], words[i + 2]), 2);
      Value low = emit.select(upper, received, words[i]), high = emit.select(upper, words[i + 2], received);
      words[i] = low, words[i + 2] = high;
    }
  }
};

/// Between the last product and the first stmatrix there is no barrier: a warp overwrites the 16 rows of Q that only
/// its own part of the products has read, and it has waited for those. In front of a slot of the output's own there is
/// tile.store_wait all.
struct StoreAsyncLowering : KernelPattern<StoreAsyncOp> {
  using KernelPattern::KernelPattern;

  LogicalResult matchAndRewrite(StoreAsyncOp op, OneToNOpAdaptor adaptor,
                                ConversionPatternRewriter &rewriter) const override {
    Emitter emit(rewriter, op.getLoc());
    SlotType slot = op.getSlot().getType();
    Value field = arith::TruncIOp::create(rewriter, op.getLoc(), rewriter.getI32Type(), adaptor.getSlot()[0]);
    Value data = emit.mul(field, 16);
    int64_t panelBytes = slot.getRows() * 2 * kHopper.getPanelCols();
    writeToSlot(emit, slot.getElementType(), adaptor.getSource(), data, panelBytes);
    emitWarpgroupBarrier(emit, kernel, "fence.proxy.async.shared::cta;\n ");
    int64_t cols = cast<RankedTensorType>(op.getSource().getType()).getDimSize(1);
    Value issuer = kernel.inGroup; // the thread that has 0 here starts the copies
    if (op.getLimit()) {
      Value end = emit.add(emit.toI32(op.getRow()), slot.getRows()), limit = emit.toI32(op.getLimit());
      Value isCut = arith::CmpIOp::create(rewriter, op.getLoc(), arith::CmpIPredicate::sgt, end, limit);
      issuer = emit.select(isCut, emit.i32(1), issuer);
      storeFromSlot(emit, op, adaptor, data, panelBytes, isCut);
    }
    for (int64_t col = 0, offset = 0; col < cols; col += kHopper.getPanelCols(), offset += panelBytes)
      emit.ptx("{\n .reg .pred p;\n setp.eq.u32 p, $6, 0;\n @p cp.async.bulk.tensor.4d.global.shared::cta.bulk_group "
               "[$0, {$2, $3, $4, $5}], [$1];\n }",
               "l,r,r,r,r,r,r,~{memory}",
               {adaptor.getMap()[0], emit.add(data, offset), emit.i32(col), emit.toI32(op.getRow()),
                emit.toI32(op.getH()), emit.toI32(op.getB()), issuer});
    emit.ptx("{\n .reg .pred p;\n setp.eq.u32 p, $0, 0;\n @p cp.async.bulk.commit_group;\n }", "r,~{memory}",
             {issuer});
    rewriter.eraseOp(op);
    return success();
  }

private:
  /// The rows in front of the limit, if the tile is cut there. Each thread has 16 bytes of every 16th row of a panel,
  /// eight neighbouring ones the 128 of a row.
  void storeFromSlot(Emitter &emit, StoreAsyncOp op, OneToNOpAdaptor adaptor, Value data, int64_t panelBytes,
                     Value isCut) const {
    constexpr int64_t kChunks = 8, kRowsAtOnce = kHopper.groupThreads / kChunks;
    Type element = op.getSlot().getType().getElementType();
    int64_t cols = cast<RankedTensorType>(op.getSource().getType()).getDimSize(1);
    Value chunk = emit.bitAnd(kernel.inGroup, kChunks - 1), first = emit.shr(kernel.inGroup, 3);
    Value swizzled = arith::XOrIOp::create(emit.builder, emit.loc, chunk, emit.bitAnd(first, kChunks - 1));
    Value source = emit.add(data, emit.add(emit.mul(first, 2 * kHopper.getPanelCols()), emit.mul(swizzled, 16)));
    Value b = emit.toI32(op.getB()), h = emit.toI32(op.getH()), limit = emit.toI32(op.getLimit());
    for (int64_t below = 0; below < op.getSlot().getType().getRows(); below += kRowsAtOnce) {
      Value row = emit.add(emit.add(emit.toI32(op.getRow()), first), below);
      Value isStored = arith::CmpIOp::create(emit.builder, emit.loc, arith::CmpIPredicate::slt, row, limit);
      isStored = arith::AndIOp::create(emit.builder, emit.loc, isStored, isCut);
      for (int64_t col = 0, panel = 0; col < cols; col += kHopper.getPanelCols(), ++panel) {
        Value predicate = isStored;
        if (int64_t chunks = (cols - col) / kChunks; chunks < kChunks) {
          Value exists =
              arith::CmpIOp::create(emit.builder, emit.loc, arith::CmpIPredicate::slt, chunk, emit.i32(chunks));
          predicate = arith::AndIOp::create(emit.builder, emit.loc, predicate, exists);
        }
        Value place = emit.add(emit.mul(chunk, kChunks), col);
        Value pointer = getElementPointer(emit, adaptor.getDest(), element, {b, h, row, place});
        Value address = emit.add(source, panel * panelBytes + below * 2 * kHopper.getPanelCols());
        emit.ptx("{\n .reg .pred p;\n .reg .b32 w<4>;\n setp.ne.u32 p, $2, 0;\n @p ld.shared.v4.b32 {w0, w1, w2, w3}, "
                 "[$1];\n @p st.global.v4.b32 [$0], {w0, w1, w2, w3};\n }",
                 "l,r,r,~{memory}",
                 {pointer, address,
                  arith::ExtUIOp::create(emit.builder, emit.loc, emit.builder.getI32Type(), predicate)});
      }
    }
  }

  /// Four 8 x 8 matrices at a time: both halves of two blocks. Lane l gives the address of row l mod 8 of matrix l / 8;
  /// in the 128-byte swizzle the eight columns of block c of row r are at 16 * (c xor r mod 8).
  void writeToSlot(Emitter &emit, Type element, ValueRange source, Value data, int64_t panelBytes) const {
    Value lane = emit.bitAnd(kernel.inGroup, 31), rowInMatrix = emit.bitAnd(lane, 7);
    Value half = emit.bitAnd(emit.shr(lane, 3), 1), nextBlock = emit.shr(lane, 4);
    Value warpRow = emit.mul(emit.shr(kernel.inGroup, 5), 16);
    Value row = emit.add(emit.add(warpRow, rowInMatrix), emit.mul(half, 8));
    Value chunk = arith::XOrIOp::create(emit.builder, emit.loc, nextBlock, rowInMatrix);
    Value offset = emit.add(emit.mul(row, 2 * kHopper.getPanelCols()), emit.mul(chunk, 16));
    int64_t blocks = source.size() / 4, blocksPerPanel = kHopper.getPanelCols() / 8;
    for (int64_t block = 0; block < blocks; block += 2) {
      SmallVector<Value> words;
      for (int64_t e = 4 * block, end = std::min<int64_t>(4 * (block + 2), source.size()); e < end; e += 2)
        words.push_back(packPair(emit, element, source[e], source[e + 1]));
      Value swizzled = arith::XOrIOp::create(emit.builder, emit.loc, offset, emit.i32(block % blocksPerPanel * 16));
      Value address = emit.add(emit.add(data, block / blocksPerPanel * panelBytes), swizzled);
      std::string list = words.size() == 4 ? "{$1, $2, $3, $4}" : "{$1, $2}";
      words.insert(words.begin(), address);
      emit.ptx("stmatrix.sync.aligned.m8n8.x" + std::to_string(words.size() - 1) + ".shared.b16 [$0], " + list + ";",
               words.size() == 5 ? "r,r,r,r,r,~{memory}" : "r,r,r,~{memory}", words);
    }
  }
};

/// Of the four lanes that have a row and the one eight below, two write the halves of the first, two those of the
/// other: (hi, mid, lo, 0, ...), and zeros. With the 32-byte swizzle halves change places in some rows; what they are
/// multiplied with is the same in both.
struct StoreSlopesLowering : KernelPattern<StoreSlopesOp> {
  using KernelPattern::KernelPattern;

  LogicalResult matchAndRewrite(StoreSlopesOp op, OneToNOpAdaptor adaptor,
                                ConversionPatternRewriter &rewriter) const override {
    Emitter emit(rewriter, op.getLoc());
    Type element = op.getSlot().getType().getElementType();
    Value isSecondRow = emit.equal(emit.bitAnd(kernel.laneCol, 2), 2), secondHalf = emit.bitAnd(kernel.laneCol, 1);
    Value rest = emit.select(isSecondRow, adaptor.getSource()[1], adaptor.getSource()[0]);
    Value high = takeRounded(emit, element, rest, kHighWeight), mid = takeRounded(emit, element, rest, kLowWeight);
    Value low = takeRounded(emit, element, rest, kLowWeight), none = emit.i32(0), isFirst = emit.equal(secondHalf, 0);
    Value zero = arith::ConstantOp::create(rewriter, op.getLoc(), rewriter.getF32FloatAttr(0.0f));
    Value pair = emit.select(isFirst, packPair(emit, element, high, mid), none);
    Value third = emit.select(isFirst, packPair(emit, element, low, zero), none);

    Value field = arith::TruncIOp::create(rewriter, op.getLoc(), rewriter.getI32Type(), adaptor.getSlot()[0]);
    Value row = emit.add(kernel.row, emit.select(isSecondRow, emit.i32(8), none));
    Value offset = emit.add(emit.mul(row, kHopper.getStepRowBytes()), emit.mul(secondHalf, 16));
    Value address = emit.add(emit.mul(field, 16), offset);
    emitWarpgroupBarrier(emit, kernel);
    emit.ptx("st.shared.v4.b32 [$0], {$1, $2, $3, $3};", "r,r,r,r,~{memory}", {address, pair, third, none});
    emitWarpgroupBarrier(emit, kernel, "fence.proxy.async.shared::cta;\n ");
    rewriter.eraseOp(op);
    return success();
  }

private:
  /// `rest` / weight, rounded to `element`; its product with the weight, a power of two, is taken off `rest`.
  static Value takeRounded(Emitter &emit, Type element, Value &rest, float weight) {
    auto constant = [&](float number) -> Value {
      return arith::ConstantOp::create(emit.builder, emit.loc, emit.builder.getF32FloatAttr(number));
    };
    Value scaled = arith::MulFOp::create(emit.builder, emit.loc, rest, constant(1.0f / weight));
    Value rounded = arith::TruncFOp::create(emit.builder, emit.loc, element, scaled);
    rounded = arith::ExtFOp::create(emit.builder, emit.loc, emit.builder.getF32Type(), rounded);
    rest = math::FmaOp::create(emit.builder, emit.loc, rounded, constant(-weight), rest);
    return rounded;
  }
};

struct StoreWaitLowering : KernelPattern<StoreWaitOp> {
  using KernelPattern::KernelPattern;
  LogicalResult matchAndRewrite(StoreWaitOp op, OneToNOpAdaptor adaptor,
                                ConversionPatternRewriter &rewriter) const override {
    Emitter emit(rewriter, op.getLoc());
    // The thread that started the copies, and that will release the slot.
    emit.ptx("{\n .reg .pred p;\n setp.eq.u32 p, $0, 0;\n @p cp.async.bulk.wait_group.read 0;\n }", "r,~{memory}",
             {kernel.inGroup});
    if (op.getAll())
      emitWarpgroupBarrier(emit, kernel);
    rewriter.eraseOp(op);
    return success();
  }
};

} // namespace

void flashc::tiletonvvm::populateStorePatterns(TileTypeConverter &converter, RewritePatternSet &patterns,
                                               KernelContext &kernel) {
  patterns.add<StoreLowering, StoreAsyncLowering, StoreSlopesLowering, StoreWaitLowering>(
      converter, patterns.getContext(), kernel);
  populateLoadPatterns(converter, patterns);
}
