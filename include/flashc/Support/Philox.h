//===- Philox.h - random numbers as code --------------------------------------------------------------------------===//
//
// Philox4x32-10 is a stateless function of a counter and a key: Salmon, Moraes, Dror and Shaw, Parallel Random Numbers:
// As Easy as 1, 2, 3 (SC 2011). One call gives 16 bytes. Dropout takes one byte for each element, so a call serves 16
// elements. These are the elements that one thread holds, of a block of 16 queries and 32 keys, in the accumulator of a
// Tensor Core product (lib/Conversion/TileToNVVM/Common/Lowering.h). With g = i mod 8 and c = j mod 8 / 2:
//
//     counter = (j / 32 * 4 + c, i / 16 * 8 + g, b * 2^16 + h, low word of the offset)
//     key     = (low word of the seed, high word of the seed ^ high word of the offset)
//     byte    = j mod 32 / 8 * 4 + i mod 16 / 8 * 2 + j mod 2
//
// Bytes are counted through the four words in order, and in each word from the lowest byte on. Element (b, h, i, j) is
// kept if its byte is at least 256 times the rate. docs/dropout.md explains the consequences.
//
//===--------------------------------------------------------------------------------------------------------------===//
#ifndef FLASHC_SUPPORT_PHILOX_H
#define FLASHC_SUPPORT_PHILOX_H

#include "mlir/Dialect/Arith/IR/Arith.h"
#include <array>

namespace flashc {

/// The size of the block of queries and keys for which each lane of a warp makes one call.
constexpr int64_t kPhiloxQueries = 16, kPhiloxKeys = 32;

/// Emits the four words (i32) that Philox4x32-10 computes from a counter and a key.
inline std::array<mlir::Value, 4> emitPhilox(mlir::OpBuilder &b, mlir::Location loc, std::array<mlir::Value, 4> counter,
                                             std::array<mlir::Value, 2> key) {
  using namespace mlir;
  auto constant = [&](uint32_t value) -> Value {
    return arith::ConstantOp::create(b, loc, b.getI32IntegerAttr(static_cast<int32_t>(value)));
  };
  auto add = [&](Value x, uint32_t y) -> Value { return arith::AddIOp::create(b, loc, x, constant(y)); };
  auto join = [&](Value x, Value y, Value z) -> Value {
    Value both = arith::XOrIOp::create(b, loc, x, y);
    return arith::XOrIOp::create(b, loc, both, z);
  };
  for (int round = 0; round < 10; ++round) {
    if (round > 0)
      key = {add(key[0], 0x9E3779B9), add(key[1], 0xBB67AE85)};
    auto first = arith::MulUIExtendedOp::create(b, loc, counter[0], constant(0xD2511F53));
    auto second = arith::MulUIExtendedOp::create(b, loc, counter[2], constant(0xCD9E8D57));
    Value x = join(second.getHigh(), counter[1], key[0]), y = join(first.getHigh(), counter[3], key[1]);
    counter = {x, second.getLow(), y, first.getLow()};
  }
  return counter;
}

/// The values that all calls for a head share: the key, and the last words of the counter.
struct PhiloxKey {
  std::array<mlir::Value, 2> key;
  mlir::Value place, offset;
};

/// Emits the values of a head's PhiloxKey. `seed` and `offset` are i64, `batch` and `head` are i32.
inline PhiloxKey emitPhiloxKey(mlir::OpBuilder &b, mlir::Location loc, mlir::Value seed, mlir::Value offset,
                               mlir::Value batch, mlir::Value head) {
  using namespace mlir;
  Type i32 = b.getI32Type();
  auto low = [&](Value x) -> Value { return arith::TruncIOp::create(b, loc, i32, x); };
  auto high = [&](Value x) -> Value {
    Value bits = arith::ConstantOp::create(b, loc, b.getI64IntegerAttr(32));
    return low(arith::ShRUIOp::create(b, loc, x, bits));
  };
  Value bits = arith::ConstantOp::create(b, loc, b.getI32IntegerAttr(16));
  Value shifted = arith::ShLIOp::create(b, loc, batch, bits);
  Value place = arith::AddIOp::create(b, loc, shifted, head);
  Value lowSeed = low(seed), highSeed = high(seed), highOffset = high(offset);
  Value highWord = arith::XOrIOp::create(b, loc, highSeed, highOffset);
  return {{lowSeed, highWord}, place, low(offset)};
}

} // namespace flashc

#endif // FLASHC_SUPPORT_PHILOX_H
