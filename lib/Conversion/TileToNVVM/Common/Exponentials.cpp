//===- Exponentials.cpp - exponentials as polynomials -------------------------------------------------------------===//
//
// tile.exp2: some exponentials on the multi-function unit, the others as multiply-adds. The op's description has the
// formulas; the method is that of Cody and Waite (1980), its use in attention FlashAttention-4's.
//
//===--------------------------------------------------------------------------------------------------------------===//

#include "Lowering.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"

using namespace mlir;
using namespace mlir::tile;
using namespace flashc::tiletonvvm;

namespace {

/// Exponents are this far above the least one, at which the result is 0, and are divided by kRange, so that the
/// hardware's saturation to [0, 1] cuts off what is below. kRange is a power of two: that is exact.
constexpr double kLeast = 127.0, kRange = 256.0;
/// 1.5 * 2^15: the last bit of a sum with a number in [0, 1] is 1 / kRange. It is whole in its low nine bits.
constexpr double kRounding = 49152.0;
/// 2^x = 1 + c1 x + c2 x^2 + c3 x^3 on [-1/2, 1/2], with the least relative error: 1.013e-4. Exact at 0.
constexpr double kCoefficients[] = {1.0, 0.6932829274615321, 0.24221096292078187, 0.055008931469788164};

/// The bits of 1.5 * 2^23, the rounding to whole numbers, end in zeros, too.
constexpr double kWholeRounding = 12582912.0;

class Exponentials {
public:
  Exponentials(Exp2Op op, ValueRange offsets, OpBuilder &builder) : b(op.getLoc(), builder) {
    double value = op.getFactor().convertToDouble();
    factor = number(value);
    if (offsets.empty())
      return;
    smallFactor = number(value / kRange);
    Value inverse = number(1.0 / kRange), least = number(kLeast / kRange);
    for (Value offset : offsets) {
      this->offsets.push_back(offset);
      smallOffsets.push_back(math::FmaOp::create(b, offset, inverse, least));
    }
  }

  Value emitExponential(Value score, int64_t half) {
    Value exponent = offsets.empty() ? arith::MulFOp::create(b, score, factor).getResult()
                                     : math::FmaOp::create(b, score, factor, offsets[half]).getResult();
    return math::Exp2Op::create(b, exponent);
  }

  /// Exponents of any size.
  Value emitSaturated(Value score, int64_t half) {
    // A result that is NaN becomes 0 (PTX ISA 9.7.3.6).
    Value exponent = Emitter(b, b.getLoc())
                         .ptx(b.getF32Type(), "fma.rn.sat.f32 $0, $1, $2, $3;", "=f,f,f,f",
                              {score, smallFactor, smallOffsets[half]}, /*sideEffects=*/false);
    Value rounding = number(kRounding - kLeast / kRange);
    Value rounded = arith::AddFOp::create(b, exponent, rounding);
    Value fraction = arith::AddFOp::create(b, exponent, arith::SubFOp::create(b, rounding, rounded));
    return emitPower(rounded, fraction, kRange);
  }

  /// Exponents of -126 to 127.
  Value emitSmall(Value score) {
    Value rounding = number(kWholeRounding);
    Value rounded = math::FmaOp::create(b, score, factor, rounding);
    Value fraction = math::FmaOp::create(b, score, factor, arith::SubFOp::create(b, rounding, rounded));
    return emitPower(rounded, fraction, 1.0);
  }

private:
  Value number(double value) { return arith::ConstantOp::create(b, b.getF32FloatAttr(static_cast<float>(value))); }

  /// 2^(range * fraction), times two to the power of the number in the low bits of `rounded`.
  Value emitPower(Value rounded, Value fraction, double range) {
    double scale = range * range * range;
    Value power = number(kCoefficients[3] * scale);
    for (int64_t degree : {2, 1, 0}) {
      scale /= range;
      power = math::FmaOp::create(b, power, fraction, number(kCoefficients[degree] * scale));
    }
    auto toBits = [&](Value value) -> Value { return arith::BitcastOp::create(b, b.getI32Type(), value); };
    Value whole = arith::ShLIOp::create(b, toBits(rounded), Emitter(b, b.getLoc()).i32(23));
    return arith::BitcastOp::create(b, b.getF32Type(), arith::AddIOp::create(b, toBits(power), whole));
  }

  ImplicitLocOpBuilder b;
  Value factor, smallFactor;
  SmallVector<Value, 2> offsets, smallOffsets;
};

struct Exp2Lowering : KernelPattern<Exp2Op> {
  using KernelPattern::KernelPattern;
  TileValues lower(Exp2Op op, Adaptor adaptor, Emitter &emit) const override {
    Exponentials exponentials(op, op.getOffset() ? adaptor.getOffset() : ValueRange(), emit.builder);
    SmallVector<Value> results;
    for (auto [e, score] : llvm::enumerate(adaptor.getSource())) {
      bool isPolynomial = (e + 1) * op.getFma() / kExponentialGroup > e * op.getFma() / kExponentialGroup;
      results.push_back(!isPolynomial    ? exponentials.emitExponential(score, getHalf(e))
                        : op.getOffset() ? exponentials.emitSaturated(score, getHalf(e))
                                         : exponentials.emitSmall(score));
    }
    return {results};
  }
};

} // namespace

void flashc::tiletonvvm::populateExponentialPatterns(KernelPatterns &patterns) {
  patterns.add<Exp2Lowering>();
}
