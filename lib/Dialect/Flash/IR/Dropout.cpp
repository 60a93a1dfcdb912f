//===- Dropout.cpp - which probabilities are dropped --------------------------------------------------------------===//

#include "flashc/Dialect/Flash/IR/Dropout.h"
#include "flashc/Support/Philox.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"
#include <cmath>

using namespace mlir;
using namespace mlir::flash;

int64_t Dropout::getThreshold() const { return std::isfinite(p) ? std::lround(double(p) * 256.0) : -1; }

Value mlir::flash::emitIsKept(OpBuilder &builder, Location loc, const Dropout &dropout, Value seed, Value offset,
                              ArrayRef<Value> position) {
  ImplicitLocOpBuilder b(loc, builder);
  SmallVector<Value, 4> at;
  for (Value index : position)
    at.push_back(arith::IndexCastOp::create(b, b.getI32Type(), index));
  auto constant = [&](int64_t value) -> Value { return arith::ConstantOp::create(b, b.getI32IntegerAttr(value)); };
  // Positions are not negative, so unsigned divisions are right. Divisors are powers of two, so that divisions
  // become shifts.
  auto divide = [&](Value x, int64_t by) -> Value { return arith::DivUIOp::create(b, x, constant(by)); };
  auto modulo = [&](Value x, int64_t by) -> Value { return arith::RemUIOp::create(b, x, constant(by)); };
  auto join = [&](Value x, int64_t factor, Value y) -> Value {
    return arith::AddIOp::create(b, arith::MulIOp::create(b, x, constant(factor)), y);
  };
  auto [batch, head, i, j] = std::tie(at[0], at[1], at[2], at[3]);
  flashc::PhiloxKey key = flashc::emitPhiloxKey(b, loc, seed, offset, batch, head);
  Value ofKeys = join(divide(j, flashc::kPhiloxKeys), 4, divide(modulo(j, 8), 2));
  Value ofQueries = join(divide(i, flashc::kPhiloxQueries), 8, modulo(i, 8));
  auto words = flashc::emitPhilox(b, loc, {ofKeys, ofQueries, key.place, key.offset}, key.key);
  Value number = divide(modulo(j, flashc::kPhiloxKeys), 8), word = words[0];
  for (int64_t other : {1, 2, 3}) {
    Value is = arith::CmpIOp::create(b, arith::CmpIPredicate::eq, number, constant(other));
    word = arith::SelectOp::create(b, is, words[other], word);
  }
  Value byte = join(divide(modulo(i, flashc::kPhiloxQueries), 8), 2, modulo(j, 2));
  Value bits = arith::ShRUIOp::create(b, word, arith::MulIOp::create(b, byte, constant(8)));
  Value random = modulo(bits, 256);
  return arith::CmpIOp::create(b, arith::CmpIPredicate::uge, random, constant(dropout.getThreshold()));
}
