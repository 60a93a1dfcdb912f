//===- Products.cpp - products of one warp as mma.sync (PTX ISA 9.7.14.5) -----------------------------------------===//
//
// Products use mma.m16n8k16. A is the warp's 16 rows in registers, in the order of #tile.operand_a. B is a block of
// eight columns and 16 elements of depth. Each thread has two registers of B, which `ldmatrix` (PTX ISA 9.7.14.5.15)
// reads from a slot. With the 128-byte swizzle of the slot, sixteen-byte chunk c of row r of a panel is at byte 16 * (c
// xor r mod 8) of the row. The result has the order of an accumulator.
//
// If B has 8 bits, a thread gets four bytes in place of two elements (Bytes.cpp widens them). For B^T these bytes are
// four neighbours along the depth: the thread's part of one step, if the columns of A are in the order of `quads`
// (tile.read_rows). For B they are two rows by two columns; one column belongs to a block of even columns, the other to
// a block of odd columns.
//
//===--------------------------------------------------------------------------------------------------------------===//

#include "Warp.h"
#include "mlir/Dialect/Arith/IR/Arith.h"

using namespace mlir;
using namespace mlir::tile;
using namespace flashc::tiletonvvm;

namespace {

constexpr int64_t kDepthStep = 16, kChunkCols = 8, kRowBytes = 128;

/// Reads 8 x 8 matrices of a slot.
class MatrixReader {
public:
  MatrixReader(Emitter &emit, const KernelContext &kernel, SlotType slot, Value address, bool isTransposed)
      : emit(emit), slot(slot), address(address), isTransposed(isTransposed) {
    Value lane = getLane(emit, kernel);
    rowInMatrix = emit.bitAnd(lane, 7), lowBit = emit.bitAnd(emit.shr(lane, 3), 1), highBit = emit.shr(lane, 4);
  }

  /// Reads B for two blocks of columns, the first of which is `block`, or for `block` alone if it is the last one. The
  /// depth begins at `depth`. Returns two registers for each block. Lane l gives the address of row l mod 8 of matrix l
  /// / 8.
  SmallVector<Value> read(int64_t block, int64_t numBlocks, int64_t depth) {
    // The first two matrices are the two halves of the depth for the first block, the others are those for the second
    // block.
    Value row, chunk;
    int64_t firstRow, firstChunk;
    if (isTransposed) { // rows are columns of B, and the depth is along a row
      row = emit.add(emit.mul(highBit, 8), rowInMatrix), chunk = lowBit;
      firstRow = 8 * block, firstChunk = depth / kChunkCols;
    } else {
      row = emit.add(emit.mul(lowBit, 8), rowInMatrix), chunk = highBit;
      firstRow = depth, firstChunk = block;
    }
    // Both blocks of a pair are in one panel, since the number of the first block is even.
    int64_t panel = firstChunk / 8, offset = (panel * slot.getRows() + firstRow) * kRowBytes;
    Value place = arith::XOrIOp::create(emit.builder, emit.loc, emit.add(chunk, firstChunk % 8), rowInMatrix);
    Value at = emit.add(emit.add(address, emit.mul(row, kRowBytes)), emit.mul(place, 16));
    int64_t count = 2 * numBlocks;
    std::string list = count == 4 ? "{$0, $1, $2, $3}, [$4+" : "{$0, $1}, [$2+";
    std::string text = "ldmatrix.sync.aligned.m8n8.x" + std::to_string(count) + (isTransposed ? "" : ".trans") +
                       ".shared.b16 " + list + std::to_string(offset) + "];";
    SmallVector<Type> types(count, emit.builder.getI32Type());
    return emit.ptx(types, text, count == 4 ? "=r,=r,=r,=r,r,~{memory}" : "=r,=r,r,~{memory}", {at});
  }

private:
  Emitter &emit;
  SlotType slot;
  Value address, rowInMatrix, lowBit, highBit;
  bool isTransposed;
};

/// Emits acc += A B for one block of columns and one step of depth.
void emitMma(Emitter &emit, Type element, MutableArrayRef<Value> acc, ArrayRef<Value> a, ArrayRef<Value> b) {
  std::string type = element.isBF16() ? "bf16" : "f16";
  std::string text = "mma.sync.aligned.m16n8k16.row.col.f32." + type + "." + type +
                     ".f32 {$0, $1, $2, $3}, {$4, $5, $6, $7}, {$8, $9}, {$10, $11, $12, $13};";
  SmallVector<Value> operands(a);
  llvm::append_range(operands, b);
  llvm::append_range(operands, acc);
  SmallVector<Type> types(4, emit.builder.getF32Type());
  llvm::copy(emit.ptx(types, text, "=f,=f,=f,=f,r,r,r,r,r,r,f,f,f,f", operands), acc.begin());
}

/// Emits acc += A B for B with 8 bits. A matrix of eight rows by sixteen bytes then holds twice as many elements as
/// with 16 bits.
void multiplyBytes(Emitter &emit, MmaAsyncOp op, MatrixReader &reader, ArrayRef<Value> a, MutableArrayRef<Value> acc) {
  SlotType slot = op.getB().getType();
  Type bytes = slot.getElementType(), element = getElementTypeOrSelf(op.getA().getType());
  auto widen = [&](Value word, std::array<int, 2> chosen) { return widenBytes(emit, bytes, element, word, chosen); };
  if (op.getTransposeB()) { // sixteen bytes are a step of depth; two steps are read at once
    for (int64_t step = 0; step < slot.getCols(); step += 2 * kDepthStep)
      for (int64_t block = 0; block < slot.getRows() / 8; block += 2) {
        SmallVector<Value> words = reader.read(block, 2, step / 2);
        for (int64_t i = 0; i < 4; ++i) {
          int64_t depth = step + i % 2 * kDepthStep;
          if (depth >= slot.getCols())
            continue;
          Value b[] = {widen(words[i], {0, 1}), widen(words[i], {2, 3})};
          emitMma(emit, element, acc.slice(4 * (block + i / 2), 4), a.slice(depth / 4, 4), b);
        }
      }
    return;
  }
  for (int64_t step = 0; step < slot.getRows(); step += kDepthStep)
    for (int64_t col = 0; col < slot.getCols(); col += 2 * 16) {
      SmallVector<Value> words = reader.read(col / 16, std::min<int64_t>(2, (slot.getCols() - col) / 16), step);
      for (int64_t i = 0, e = words.size(); i < e; i += 2)
        for (int odd = 0; odd < 2; ++odd) {
          Value b[] = {widen(words[i], {odd, odd + 2}), widen(words[i + 1], {odd, odd + 2})};
          // This product has every second one of sixteen columns. The thread has columns 4t + odd and 4t + odd + 2 of
          // the sixteen, in two rows (t = lane mod 4).
          int64_t first = (col / 8 + i) * 4 + odd;
          int64_t places[] = {first, first + 4, first + 2, first + 6};
          SmallVector<Value> part = llvm::map_to_vector(places, [&](int64_t place) { return acc[place]; });
          emitMma(emit, element, part, a.slice(step / 4, 4), b);
          for (auto [place, value] : llvm::zip_equal(places, part))
            acc[place] = value;
        }
    }
}

TileValues lowerMmaAsync(MmaAsyncOp op, Adaptor<MmaAsyncOp> adaptor, Emitter &emit, KernelContext &kernel) {
  SlotType slot = op.getB().getType();
  bool isTransposed = op.getTransposeB();
  int64_t depth = isTransposed ? slot.getCols() : slot.getRows(),
          blocks = (isTransposed ? slot.getRows() : slot.getCols()) / 8;
  SmallVector<Value> acc = llvm::to_vector(adaptor.getAcc());
  if (acc.empty())
    acc.assign(4 * blocks, arith::ConstantOp::create(emit.builder, emit.loc, emit.builder.getF32FloatAttr(0.0f)));
  // Columns of zeros are appended to A up to a whole step of depth. In the slot, the rest of the panel is zeros, too.
  SmallVector<Value> a = llvm::to_vector(adaptor.getA());
  a.resize(llvm::alignTo(a.size(), 4), Value());
  for (Value &word : a)
    word = word ? word : emit.i32(0);
  MatrixReader reader(emit, kernel, slot, adaptor.getB()[0], isTransposed);
  bool isWidened = slot.getElementType().getIntOrFloatBitWidth() == 8;
  if (isWidened)
    multiplyBytes(emit, op, reader, a, acc);
  for (int64_t step = 0; step < depth && !isWidened; step += kDepthStep)
    for (int64_t block = 0; block < blocks; block += 2) {
      int64_t count = std::min<int64_t>(2, blocks - block);
      SmallVector<Value> b = reader.read(block, count, step);
      for (int64_t i = 0; i < count; ++i)
        emitMma(emit, slot.getElementType(), MutableArrayRef(acc).slice(4 * (block + i), 4),
                ArrayRef(a).slice(step / 4, 4), ArrayRef(b).slice(2 * i, 2));
    }
  return {acc};
}

/// There is nothing to wait for: mma.sync has written its result to the registers.
TileValues lowerMmaWait(MmaWaitOp op, Adaptor<MmaWaitOp> adaptor, Emitter &emit, KernelContext &kernel) {
  return {llvm::to_vector(adaptor.getToken())};
}

} // namespace

void flashc::tiletonvvm::populateWarpProductPatterns(KernelPatterns &patterns) {
  patterns.add(lowerMmaAsync, lowerMmaWait);
}
