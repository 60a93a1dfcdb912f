//===- PackedRows.cpp - rows that are query heads times tokens ----------------------------------------------------===//

#include "Warp.h"
#include "mlir/Dialect/Arith/IR/Arith.h"

using namespace mlir;
using namespace mlir::tile;
using namespace flashc::tiletonvvm;

namespace {

/// The position of one of a thread's rows.
struct PackedRow {
  Value batch, head, token;
  Value exists; // i1
};

/// Returns the thread's first row (`half` 0) or its second row (`half` 1).
template <typename OpTy> PackedRow getRow(Emitter &emit, const KernelContext &kernel, OpTy op, int64_t half) {
  auto compare = [&](Value x, Value y) -> Value {
    return arith::CmpIOp::create(emit.builder, emit.loc, arith::CmpIPredicate::slt, x, y);
  };
  Value row = emit.add(kernel.row, 8 * half), tokens = emit.i32(op.getTokens());
  Value ofHeads = arith::DivUIOp::create(emit.builder, emit.loc, row, tokens);
  Value ofTokens = arith::RemUIOp::create(emit.builder, emit.loc, row, tokens);
  Value token = emit.add(emit.toI32(op.getI()), ofTokens);
  Value exists = arith::AndIOp::create(emit.builder, emit.loc, compare(row, emit.i32(op.getHeads() * op.getTokens())),
                                       compare(token, emit.toI32(op.getLimit())));
  return {emit.toI32(op.getB()), emit.add(emit.toI32(op.getH()), ofHeads), token, exists};
}

/// Returns the thread's first column in a block of eight columns. With `inQuads`, the thread has four neighbouring
/// columns of each pair of blocks; block 2n then has the first two of them, and block 2n + 1 the others.
Value getColumnOfBlock(Emitter &emit, const KernelContext &kernel, Value block, bool inQuads) {
  if (!inQuads)
    return emit.add(emit.mul(kernel.laneCol, 2), emit.mul(block, kBlockCols));
  Value ofSixteen = emit.mul(emit.shr(block, 1), 2 * kBlockCols), half = emit.mul(emit.bitAnd(block, 1), 2);
  return emit.add(emit.add(ofSixteen, emit.mul(kernel.laneCol, 4)), half);
}

TileValues lowerReadRows(ReadRowsOp op, Adaptor<ReadRowsOp> adaptor, Emitter &emit, KernelContext &kernel) {
  Type i32 = emit.builder.getI32Type(), element = op.getSource().getType().getElementType();
  int64_t blocks = cast<RankedTensorType>(op.getResult().getType()).getDimSize(1) / kBlockCols;
  SmallVector<Value> words(2 * blocks);
  for (int64_t half = 0; half < 2; ++half) {
    PackedRow row = getRow(emit, kernel, op, half);
    // A row that does not exist is not stored. It reads the tile's first row, which exists.
    Value head = emit.select(row.exists, row.head, emit.toI32(op.getH()));
    Value token = emit.select(row.exists, row.token, emit.toI32(op.getI()));
    for (int64_t block = 0; block < blocks; ++block) {
      Value col = getColumnOfBlock(emit, kernel, emit.i32(block), op.getQuads());
      Value pointer = getElementPointer(emit, adaptor.getSource(), element, {row.batch, head, token, col});
      Value word = LLVM::LoadOp::create(emit.builder, emit.loc, i32, pointer, /*alignment=*/4);
      words[2 * block + half] = emit.select(row.exists, word, emit.i32(0));
    }
  }
  return {words};
}

TileValues lowerWriteRows(WriteRowsOp op, Adaptor<WriteRowsOp> adaptor, Emitter &emit, KernelContext &kernel) {
  auto dest = cast<MemRefType>(op.getDest().getType());
  Type element = dest.getElementType();
  auto extend = [&](Value flag) -> Value {
    return arith::ExtUIOp::create(emit.builder, emit.loc, emit.builder.getI32Type(), flag);
  };
  auto both = [&](Value x, Value y) -> Value { return arith::AndIOp::create(emit.builder, emit.loc, x, y); };
  ValueRange source = adaptor.getSource();
  for (int64_t half = 0; half < 2; ++half) {
    PackedRow row = getRow(emit, kernel, op, half);
    if (hasEncoding<RowAttr>(op.getSource().getType())) {
      Value isFirst = both(emit.equal(kernel.laneCol, 0), emit.equal(emit.toI32(op.getColumn()), 0));
      Value pointer = getElementPointer(emit, adaptor.getDest(), element, {row.batch, row.head, row.token});
      storeWords(emit, pointer, {source[half]}, extend(both(row.exists, isFirst)));
      continue;
    }
    for (int64_t block = 0, blocks = source.size() / 4; block < blocks; ++block) {
      Value number = emit.add(emit.shr(emit.toI32(op.getColumn()), llvm::Log2_64(kBlockCols)), block);
      Value col = getColumnOfBlock(emit, kernel, number, op.getQuads());
      Value isInside = arith::CmpIOp::create(emit.builder, emit.loc, arith::CmpIPredicate::slt, col,
                                             emit.i32(dest.getShape().back()));
      Value low = source[4 * block + 2 * half], high = source[4 * block + 2 * half + 1];
      SmallVector<Value> stored{low, high};
      if (!element.isF32())
        stored = {packPair(emit, element, low, high)};
      Value pointer = getElementPointer(emit, adaptor.getDest(), element, {row.batch, row.head, row.token, col});
      storeWords(emit, pointer, stored, extend(both(row.exists, isInside)));
    }
  }
  return {};
}

} // namespace

void flashc::tiletonvvm::populatePackedRowPatterns(KernelPatterns &patterns) {
  patterns.add(lowerReadRows, lowerWriteRows);
}
