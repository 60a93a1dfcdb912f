//===- Dropout.cpp - tile.dropout_mask and tile.keep --------------------------------------------------------------===//

#include "Lowering.h"
#include "flashc/Support/Philox.h"
#include "mlir/Dialect/Arith/IR/Arith.h"

using namespace mlir;
using namespace mlir::tile;
using namespace flashc::tiletonvvm;

namespace {

/// Emits a dropout mask for one thread: one word for each block of 8 columns. The thread has four elements of a block,
/// and each of the word's four bytes has the flag of one of them as its sign bit. The flag is set if the element is
/// kept.
class MaskEmitter {
public:
  MaskEmitter(DropoutMaskOp op, Emitter &emit, KernelContext &kernel)
      : emit(emit), kernel(kernel), threshold(op.getThreshold()),
        columns(cast<RankedTensorType>(op.getType()).getDimSize(1)), query(emit.toI32(op.getQuery())),
        key(emit.toI32(op.getKey())),
        common(flashc::emitPhiloxKey(emit.builder, emit.loc, op.getSeed(), op.getOffset(), emit.toI32(op.getBatch()),
                                     emit.toI32(op.getHead()))) {
    // Hides the Philox key from LLVM by a move that seems to depend on the tile's position. Otherwise LLVM would
    // compute the keys of all rounds before the loop over tiles, for which there are no registers.
    for (Value &word : common.key)
      word = emit.ptx(emit.builder.getI32Type(), "mov.b32 $0, $1;", "=r,r,r", {word, op.getTransposed() ? query : key},
                      /*sideEffects=*/false);
  }

  SmallVector<Value> emitRowsOfQueries();
  SmallVector<Value> emitRowsOfKeys();

private:
  std::array<Value, 4> emitFlags(Value keys, Value queries);
  Value shl(Value x, int64_t bits) { return arith::ShLIOp::create(emit.builder, emit.loc, x, emit.i32(bits)); }
  Value bitOr(Value x, Value y) { return arith::OrIOp::create(emit.builder, emit.loc, x, y); }
  Value bitAnd(Value x, Value y) { return arith::AndIOp::create(emit.builder, emit.loc, x, y); }
  Value permute(Value x, Value y, int64_t selector) {
    return emit.intrinsic(emit.builder.getI32Type(), "llvm.nvvm.prmt", {x, y, emit.i32(selector)});
  }
  /// A lane's Philox counter has one word that depends on the keys and one that depends on the queries.
  Value getKeys(Value key) { return emit.add(emit.mul(emit.shr(key, 5), 4), kernel.laneCol); }
  Value getQueries(Value query, Value lane) { return emit.add(emit.mul(emit.shr(query, 4), 8), lane); }

  Emitter &emit;
  KernelContext &kernel;
  int64_t threshold, columns;
  Value query, key;
  flashc::PhiloxKey common;
};

/// Computes 16 random bytes by one Philox call, and compares each with the threshold t. The sign bit of a byte of the
/// result is set if the random byte r is at least t. This is computed from two conditions. The highest bit of r is set
/// if r >= 128. The highest bit of r mod 128 + 128 - t mod 128 is set if r mod 128 >= t mod 128. For t >= 128, r >= t
/// if both conditions hold. For t < 128, r >= t if at least one of the two holds.
std::array<Value, 4> MaskEmitter::emitFlags(Value keys, Value queries) {
  std::array<Value, 4> words =
      flashc::emitPhilox(emit.builder, emit.loc, {keys, queries, common.place, common.offset}, common.key);
  int64_t addend = (128 - threshold % 128) * 0x01010101;
  for (Value &word : words) {
    Value carried = emit.add(emit.bitAnd(word, 0x7F7F7F7F), emit.i32(static_cast<int32_t>(addend)));
    word = threshold < 128 ? bitOr(word, carried) : bitAnd(word, carried);
  }
  return words;
}

/// Emits the mask of a tile whose rows are queries. A Philox call has flags for 32 keys. If the tile's number of keys
/// is no multiple of 32, the tile may begin in the middle of the keys of a call.
SmallVector<Value> MaskEmitter::emitRowsOfQueries() {
  Value first = emit.add(query, kernel.row); // the lane's first row
  Value queries = getQueries(first, emit.bitAnd(first, 7));
  int64_t numBlocks = columns / 8, perCall = flashc::kPhiloxKeys / 8;
  bool mayBeginAtHalf = numBlocks % perCall != 0;
  SmallVector<Value> words;
  for (int64_t block = 0; block < numBlocks + (mayBeginAtHalf ? perCall / 2 : 0); block += perCall)
    llvm::append_range(words, emitFlags(emit.add(getKeys(key), block / perCall * 4), queries));
  if (mayBeginAtHalf) {
    Value isAtHalf = emit.equal(emit.bitAnd(key, flashc::kPhiloxKeys / 2), flashc::kPhiloxKeys / 2);
    for (int64_t block = 0; block < numBlocks; ++block)
      words[block] = emit.select(isAtHalf, words[block + perCall / 2], words[block]);
  }
  words.resize(numBlocks);
  return words;
}

/// Emits the mask of a tile whose rows are keys. Lanes first compute the flags of the transposed tile: its rows are
/// queries, its columns are the warp's 16 keys. Then `movmatrix` transposes elements of 16 bits, one bit for each flag.
/// Bit n of an element's first byte belongs to block n of eight queries and to the warp's first eight keys, bit n of
/// the second byte to the same queries and the warp's last eight keys.
SmallVector<Value> MaskEmitter::emitRowsOfKeys() {
  Value lane = emit.bitAnd(kernel.row, 7);
  Value firstKey = emit.add(key, emit.add(kernel.row, emit.mul(lane, -1))); // the first key of the warp
  Value keys = getKeys(firstKey);
  Value isAtHalf = emit.equal(emit.bitAnd(firstKey, flashc::kPhiloxKeys / 2), flashc::kPhiloxKeys / 2);
  SmallVector<Value> result;
  for (int64_t begin = 0; begin < columns; begin += 64) {
    Value packed;
    int64_t end = std::min<int64_t>(begin + 64, columns);
    for (int64_t column = begin; column < end; column += flashc::kPhiloxQueries) {
      Value queries = getQueries(emit.add(query, column), lane);
      std::array<Value, 4> words = emitFlags(keys, queries);
      Value first = emit.select(isAtHalf, words[2], words[0]), second = emit.select(isAtHalf, words[3], words[1]);
      for (int64_t half : {0, 1}) {
        // Byte 2 * half of each word belongs to the lane's first key, and byte 2 * half + 1 to its second key.
        Value signs = permute(first, second, half == 0 ? 0x5140 : 0x7362);
        int64_t n = (column - begin) / 8 + half;
        Value flags = emit.bitAnd(emit.shr(signs, 7 - n), static_cast<int32_t>(0x01010101u << n));
        packed = packed ? bitOr(packed, flags) : flags;
      }
    }
    Value exchanged = emit.ptx(emit.builder.getI32Type(), "movmatrix.sync.aligned.m8n8.trans.b16 $0, $1;", "=r,r",
                               {packed}, /*sideEffects=*/true);
    // Each byte now belongs to one query and eight keys: (query 0, first keys), (query 0, last keys), (query 1, first
    // keys), (query 1, last keys). A #tile.flags word has the first keys of both queries first, so two bytes are
    // exchanged.
    exchanged = permute(exchanged, exchanged, 0x3120);
    for (int64_t n = 0; n < (end - begin) / 8; ++n)
      result.push_back(shl(exchanged, 7 - n));
  }
  return result;
}

TileValues lowerDropoutMask(DropoutMaskOp op, Adaptor<DropoutMaskOp> adaptor, Emitter &emit, KernelContext &kernel) {
  MaskEmitter mask(op, emit, kernel);
  return {op.getTransposed() ? mask.emitRowsOfKeys() : mask.emitRowsOfQueries()};
}

/// Spreads the sign of a byte over an element's bytes, and clears the element where the flag is not set.
TileValues lowerKeep(KeepOp op, Adaptor<KeepOp> adaptor, Emitter &emit, KernelContext &kernel) {
  bool isPacked = hasEncoding<OperandAAttr>(op.getSource().getType());
  Type i32 = emit.builder.getI32Type(), f32 = emit.builder.getF32Type();
  SmallVector<Value> results;
  for (auto [e, value] : llvm::enumerate(adaptor.getSource())) {
    int64_t perBlock = isPacked ? 2 : 4, inBlock = e % perBlock;
    // prmt repeats the sign of byte n if the selector is 8 + n.
    int64_t selector = isPacked ? 0x9988 + 0x2222 * inBlock : 0x8888 + 0x1111 * inBlock;
    Value flags = adaptor.getFlags()[e / perBlock];
    Value mask = emit.intrinsic(i32, "llvm.nvvm.prmt", {flags, flags, emit.i32(selector)});
    Value bits = isPacked ? value : Value(arith::BitcastOp::create(emit.builder, emit.loc, i32, value));
    Value kept = arith::AndIOp::create(emit.builder, emit.loc, bits, mask);
    results.push_back(isPacked ? kept : Value(arith::BitcastOp::create(emit.builder, emit.loc, f32, kept)));
  }
  return {results};
}

} // namespace

void flashc::tiletonvvm::populateDropoutPatterns(KernelPatterns &patterns) {
  patterns.add(lowerDropoutMask, lowerKeep);
}
