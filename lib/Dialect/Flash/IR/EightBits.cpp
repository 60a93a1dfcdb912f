//===- EightBits.cpp - quantisation to the 8-bit element types of caches ------------------------------------------===//

#include "flashc/Dialect/Flash/IR/EightBits.h"
#include "mlir/Dialect/Arith/IR/Arith.h"

using namespace mlir;

namespace {
class Quantiser {
public:
  explicit Quantiser(ImplicitLocOpBuilder &b) : b(b) {}

  /// Rounds `x` to the nearest integer between -128 and 127. NaN becomes 0.
  Value toInteger(Value x) {
    Value isNumber = arith::CmpFOp::create(b, arith::CmpFPredicate::ORD, x, x);
    Value low = arith::MaximumFOp::create(b, arith::SelectOp::create(b, isNumber, x, f32(0.0f)), f32(-128.0f));
    return arith::TruncIOp::create(b, b.getI8Type(), roundToInteger(arith::MinimumFOp::create(b, low, f32(127.0f))));
  }

  /// Rounds `x` to OCP's e4m3: bias 7, three bits of mantissa, no infinities, NaN where all bits but the sign are 1.
  Value toFloat(Value x) {
    Value bits = toBits(x), sign = arith::ShRUIOp::create(b, arith::AndIOp::create(b, bits, i32(1u << 31)), i32(24));
    Value magnitude = arith::AndIOp::create(b, bits, i32(0x7FFFFFFF));
    Value isNaN = compare(arith::CmpIPredicate::ugt, magnitude, i32(0x7F800000));
    Value size = arith::MinUIOp::create(b, magnitude, i32(llvm::bit_cast<uint32_t>(448.0f)));
    // Drops the last 20 bits of f32's mantissa, and rounds to the nearest value, with ties to even: before the bits are
    // dropped, adds 0x80000 (half of the last kept bit) if the last kept bit is 1, and 0x7FFFF if it is 0.
    Value isOdd = arith::AndIOp::create(b, arith::ShRUIOp::create(b, size, i32(20)), i32(1));
    Value rounded = arith::AddIOp::create(b, arith::AddIOp::create(b, size, i32(0x7FFFF)), isOdd);
    Value normal = arith::SubIOp::create(b, arith::ShRUIOp::create(b, rounded, i32(20)), i32((127 - 7) << 3));
    // Numbers below 2^-6 are subnormal in e4m3: the number n * 2^-9 has the bits of the integer n. Rounding may make n
    // 8, and the bits of the integer 8 are those of 2^-6, the first normal number.
    Value small =
        roundToInteger(arith::MulFOp::create(b, arith::BitcastOp::create(b, b.getF32Type(), size), f32(0x1p9f)));
    Value isSmall = compare(arith::CmpIPredicate::ult, size, i32(llvm::bit_cast<uint32_t>(0x1p-6f)));
    Value code = arith::SelectOp::create(b, isSmall, small, normal);
    code = arith::SelectOp::create(b, isNaN, i32(0x7F), code);
    return arith::TruncIOp::create(b, b.getI8Type(), arith::OrIOp::create(b, code, sign));
  }

private:
  Value f32(float value) { return arith::ConstantOp::create(b, b.getF32FloatAttr(value)); }
  Value i32(uint32_t value) { return arith::ConstantOp::create(b, b.getI32IntegerAttr(value)); }
  Value toBits(Value x) { return arith::BitcastOp::create(b, b.getI32Type(), x); }
  Value compare(arith::CmpIPredicate predicate, Value x, Value y) { return arith::CmpIOp::create(b, predicate, x, y); }

  /// Returns the i32 that is nearest to `x`, for |x| <= 2^22. The f32 sum of `x` and 1.5 * 2^23 has no bits for a
  /// fraction, so that `x` is rounded. The difference of the bits of this sum and of 1.5 * 2^23 is the integer.
  Value roundToInteger(Value x) {
    float whole = 0x1.8p23f;
    return arith::SubIOp::create(b, toBits(arith::AddFOp::create(b, x, f32(whole))),
                                 i32(llvm::bit_cast<uint32_t>(whole)));
  }

  ImplicitLocOpBuilder &b;
};
} // namespace

Value mlir::flash::emitQuantised(ImplicitLocOpBuilder &b, Value value, Value scale, Type type) {
  Value quotient = arith::DivFOp::create(b, value, scale);
  return type.isInteger() ? Quantiser(b).toInteger(quotient) : Quantiser(b).toFloat(quotient);
}
