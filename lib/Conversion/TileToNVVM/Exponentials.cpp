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

struct Exp2Lowering : KernelPattern<Exp2Op> {
  using KernelPattern::KernelPattern;
  LogicalResult matchAndRewrite(Exp2Op op, OneToNOpAdaptor adaptor,
                                ConversionPatternRewriter &rewriter) const override {
    ImplicitLocOpBuilder b(op.getLoc(), rewriter);
    double factor = op.getFactor().convertToDouble();
    Value inverse = number(b, 1.0 / kRange), least = number(b, kLeast / kRange);
    Value factors[] = {number(b, factor), number(b, factor / kRange)}, offsets[2];
    for (int64_t half = 0; half < 2; ++half)
      offsets[half] = math::FmaOp::create(b, adaptor.getOffset()[half], inverse, least);
    SmallVector<Value> results;
    for (auto [e, score] : llvm::enumerate(adaptor.getSource())) {
      int64_t half = getHalf(e);
      bool isPolynomial = (e + 1) * op.getFma() / kExponentialGroup > e * op.getFma() / kExponentialGroup;
      results.push_back(
          isPolynomial ? emitPolynomial(b, score, factors[1], offsets[half])
                       : math::Exp2Op::create(b, math::FmaOp::create(b, score, factors[0], adaptor.getOffset()[half])));
    }
    rewriter.replaceOpWithMultiple(op, {results});
    return success();
  }

private:
  static Value number(ImplicitLocOpBuilder &b, double value) {
    return arith::ConstantOp::create(b, b.getF32FloatAttr(static_cast<float>(value)));
  }

  /// 2^(kRange * (score * factor + offset) - kLeast).
  static Value emitPolynomial(ImplicitLocOpBuilder &b, Value score, Value factor, Value offset) {
    Emitter emit(b, b.getLoc());
    // A result that is NaN becomes 0 (PTX ISA 9.7.3.6).
    Value exponent = emit.ptx(b.getF32Type(), "fma.rn.sat.f32 $0, $1, $2, $3;", "=f,f,f,f", {score, factor, offset},
                              /*sideEffects=*/false);
    Value rounding = number(b, kRounding - kLeast / kRange);
    Value rounded = arith::AddFOp::create(b, exponent, rounding);
    Value fraction = arith::AddFOp::create(b, exponent, arith::SubFOp::create(b, rounding, rounded));
    double scale = kRange * kRange * kRange;
    Value power = number(b, kCoefficients[3] * scale);
    for (int64_t degree : {2, 1, 0}) {
      scale /= kRange;
      power = math::FmaOp::create(b, power, fraction, number(b, kCoefficients[degree] * scale));
    }
    auto toBits = [&](Value value) -> Value { return arith::BitcastOp::create(b, b.getI32Type(), value); };
    Value whole = arith::ShLIOp::create(b, toBits(rounded), emit.i32(23));
    return arith::BitcastOp::create(b, b.getF32Type(), arith::AddIOp::create(b, toBits(power), whole));
  }
};

} // namespace

void flashc::tiletonvvm::populateExponentialPatterns(TileTypeConverter &converter, RewritePatternSet &patterns,
                                                     KernelContext &kernel) {
  patterns.add<Exp2Lowering>(converter, patterns.getContext(), kernel);
}
