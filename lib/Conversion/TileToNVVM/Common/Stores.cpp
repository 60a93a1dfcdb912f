//===- Stores.cpp - tiles from registers to device memory, element addresses in 64 bits ---------------------------===//
//
// Stores have predicates and no branches: with a divergent branch in a consumer's loop ptxas keeps the loop's counters
// and descriptors per thread, with two R2UR before every HGMMA.
//
//===--------------------------------------------------------------------------------------------------------------===//

#include "Lowering.h"
#include "mlir/Dialect/Arith/IR/Arith.h"

using namespace mlir;
using namespace mlir::tile;
using namespace flashc::tiletonvvm;

Value flashc::tiletonvvm::getElementPointer(Emitter &emit, ValueRange memref, Type element, ArrayRef<Value> indices) {
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

void flashc::tiletonvvm::storeWords(Emitter &emit, Value pointer, ArrayRef<Value> words, Value predicate) {
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

namespace {

Value getPredicate(Emitter &emit, Value row, Value limit) {
  Value below = arith::CmpIOp::create(emit.builder, emit.loc, arith::CmpIPredicate::slt, row, limit);
  return arith::ExtUIOp::create(emit.builder, emit.loc, emit.builder.getI32Type(), below);
}

Value pointerAt(Emitter &emit, Adaptor<StoreOp> adaptor, Type element, ArrayRef<Value> position, Value col) {
  SmallVector<Value> indices(position.begin(), position.end());
  indices.push_back(col);
  return getElementPointer(emit, adaptor.getDest(), element, indices);
}

/// Stores eight bytes for each block of eight columns: a pair of words.
void storeF32(Emitter &emit, const KernelContext &kernel, Adaptor<StoreOp> adaptor, Type element,
              ArrayRef<Value> position, int64_t half, Value predicate) {
  ValueRange source = adaptor.getSource();
  for (int64_t block = 0, blocks = source.size() / 4; block < blocks; ++block) {
    Value col = emit.add(emit.mul(kernel.laneCol, 2), 8 * block);
    int64_t e = 4 * block + 2 * half;
    storeWords(emit, pointerAt(emit, adaptor, element, position, col), {source[e], source[e + 1]}, predicate);
  }
}

/// Stores the columns from `first` on that lie before `end`. `end` may be within a pair, and pairs need not be aligned.
void storeColumns(Emitter &emit, const KernelContext &kernel, Adaptor<StoreOp> adaptor, Type element,
                  ArrayRef<Value> position, int64_t half, Value predicate, Value first, Value end) {
  ValueRange source = adaptor.getSource();
  for (int64_t block = 0, blocks = source.size() / 4; block < blocks; ++block)
    for (int64_t pair = 0; pair < 2; ++pair) {
      Value col = emit.add(first, emit.add(emit.mul(kernel.laneCol, 2), 8 * block + pair));
      Value isInside = arith::AndIOp::create(emit.builder, emit.loc, predicate, getPredicate(emit, col, end));
      storeWords(emit, pointerAt(emit, adaptor, element, position, col), source[4 * block + 2 * half + pair], isInside);
    }
}

/// Transposes a matrix of 4 x 4 words in four lanes. Before, lane c holds word c of the rows (blocks) 0 to 3. After, it
/// holds the words 0 to 3 of row c.
void transposeQuad(Emitter &emit, const KernelContext &kernel, MutableArrayRef<Value> words) {
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

/// Stores sixteen bytes for each 32 columns. Four lanes transpose their 4 x 4 words by two exchanges, so that each lane
/// holds eight neighbouring columns. The columns after the last multiple of 32 are stored four bytes at a time.
void store16(Emitter &emit, const KernelContext &kernel, Adaptor<StoreOp> adaptor, Type element,
             ArrayRef<Value> position, int64_t half, Value predicate) {
  ValueRange source = adaptor.getSource();
  SmallVector<Value> words;
  for (int64_t e = 2 * half, n = source.size(); e < n; e += 4)
    words.push_back(packPair(emit, element, source[e], source[e + 1]));
  int64_t block = 0, blocks = words.size();
  for (; block + 4 <= blocks; block += 4) {
    MutableArrayRef<Value> group = MutableArrayRef<Value>(words).slice(block, 4);
    transposeQuad(emit, kernel, group);
    Value col = emit.add(emit.mul(kernel.laneCol, 8), 8 * block);
    storeWords(emit, pointerAt(emit, adaptor, element, position, col), group, predicate);
  }
  for (; block < blocks; ++block) {
    Value col = emit.add(emit.mul(kernel.laneCol, 2), 8 * block);
    storeWords(emit, pointerAt(emit, adaptor, element, position, col), words[block], predicate);
  }
}

/// Where a row of a tile is stored: its head and position, and whether it is stored at all (an i32 of 0 or 1).
struct RowPlace {
  Value head, row, predicate;
};

RowPlace placeRow(StoreOp op, Emitter &emit, Value row) {
  Value head = emit.toI32(op.getH()), first = emit.toI32(op.getRow()), limit = emit.toI32(op.getLimit());
  int64_t tokens = op.getTokens(), rows = op.getHeads() * tokens;
  if (rows == 0) {
    row = emit.add(first, row);
    return {head, row, getPredicate(emit, row, limit)};
  }
  Value count = emit.i32(tokens), ofTile = row;
  head = emit.add(head, arith::DivUIOp::create(emit.builder, emit.loc, row, count));
  row = emit.add(first, arith::RemUIOp::create(emit.builder, emit.loc, row, count));
  Value predicate = getPredicate(emit, row, limit);
  if (rows < kTileRows)
    predicate = arith::AndIOp::create(emit.builder, emit.loc, predicate, getPredicate(emit, ofTile, emit.i32(rows)));
  return {head, row, predicate};
}

TileValues lowerStore(StoreOp op, Adaptor<StoreOp> adaptor, Emitter &emit, KernelContext &kernel) {
  Type element = cast<MemRefType>(op.getDest().getType()).getElementType();
  ValueRange source = adaptor.getSource();
  Value b = emit.toI32(op.getB());
  for (int64_t half = 0; half < 2; ++half) {
    auto [h, row, predicate] = placeRow(op, emit, emit.add(kernel.row, 8 * half));
    if (hasEncoding<RowAttr>(op.getSource().getType())) {
      // One of the four lanes that hold the row stores its value.
      Value first =
          arith::ExtUIOp::create(emit.builder, emit.loc, emit.builder.getI32Type(), emit.equal(kernel.laneCol, 0));
      predicate = arith::AndIOp::create(emit.builder, emit.loc, predicate, first);
      storeWords(emit, getElementPointer(emit, adaptor.getDest(), element, {b, h, row}), source[half], predicate);
      continue;
    }
    SmallVector<Value> place{b, h, row};
    if (!op.getColumns().empty())
      storeColumns(emit, kernel, adaptor, element,
                   ArrayRef(place).take_back(cast<MemRefType>(op.getDest().getType()).getRank() - 1), half, predicate,
                   emit.toI32(op.getColumns()[0]), emit.toI32(op.getColumns()[1]));
    else if (element.isF32())
      storeF32(emit, kernel, adaptor, element, {b, h, row}, half, predicate);
    else
      store16(emit, kernel, adaptor, element, {b, h, row}, half, predicate);
  }
  return {};
}

TileValues lowerAtomicAdd(AtomicAddOp op, Adaptor<AtomicAddOp> adaptor, Emitter &emit, KernelContext &kernel) {
  Value pointer = getElementPointer(emit, adaptor.getSums(), emit.builder.getF32Type(),
                                    {emit.toI32(op.getB()), emit.toI32(op.getH()), emit.toI32(op.getR()),
                                     emit.toI32(op.getC()), emit.mul(kernel.inGroup, 4)});
  int64_t blockBytes = 16 * kernel.target.groupThreads;
  ValueRange source = adaptor.getSource();
  for (size_t e = 0; e < source.size(); e += 4)
    emit.ptx("red.relaxed.gpu.global.add.v4.f32 [$0+" + std::to_string(e / 4 * blockBytes) + "], {$1, $2, $3, $4};",
             "l,f,f,f,f,~{memory}", {pointer, source[e], source[e + 1], source[e + 2], source[e + 3]});
  return {};
}

} // namespace

void flashc::tiletonvvm::populateStorePatterns(KernelPatterns &patterns) { patterns.add(lowerStore, lowerAtomicAdd); }
