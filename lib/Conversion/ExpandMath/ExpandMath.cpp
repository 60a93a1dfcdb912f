//===- ExpandMath.cpp - functions that a target has no instruction for --------------------------------------------===//

#include "flashc/Conversion/ExpandMath.h"
#include "flashc/Conversion/Passes.h"
#include "flashc/Target/GPUTarget.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Math/Transforms/Passes.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"
#include "mlir/IR/Matchers.h"
#include "mlir/Transforms/GreedyPatternRewriteDriver.h"
#include <cmath>
#include <limits>

namespace flashc {
#define GEN_PASS_DEF_EXPANDMATH
#include "flashc/Conversion/Passes.h.inc"
} // namespace flashc

using namespace mlir;

//===--------------------------------------------------------------------------------------------------------------===//
// Which ops
//===--------------------------------------------------------------------------------------------------------------===//

bool flashc::isMathInstruction(Operation *op) {
  Type type = op->getOperand(0).getType();
  if (isa<math::Exp2Op, math::ExpOp, math::Log2Op, math::LogOp, math::Log10Op, math::TanhOp, math::RsqrtOp, math::SinOp,
          math::CosOp>(op))
    return type.isF32();
  if (isa<math::SqrtOp>(op))
    return type.isF32() || type.isF64();
  return isa<math::AbsFOp, math::AbsIOp, math::CeilOp, math::CopySignOp, math::CountLeadingZerosOp,
             math::CountTrailingZerosOp, math::CtPopOp, math::FloorOp, math::FmaOp, math::IsFiniteOp, math::IsNaNOp,
             math::RoundEvenOp, math::RoundOp, math::TruncOp>(op);
}

static LogicalResult checkOp(Operation *op) {
  auto constant = dyn_cast<arith::ConstantIndexOp>(op);
  if (constant && !llvm::isInt<32>(constant.value())) {
    // The canonicalizer moves constants and drops their locations, so the error is reported at a user of the constant.
    Operation *user = constant->use_empty() ? op : *constant->user_begin();
    return user->emitError() << "expected an index of 32 bits in a kernel, got " << constant.value();
  }
  bool isFunction = isa_and_present<math::MathDialect>(op->getDialect());
  if (!isFunction || isa<ShapedType>(op->getOperand(0).getType()) || flashc::isMathInstruction(op))
    return success();
  return op->emitError() << "expected a function of f32 that " << flashc::GPUTarget::of(op).name << " has, got '"
                         << op->getName() << "' of " << op->getOperand(0).getType();
}

LogicalResult flashc::checkScalarCode(Operation *root) {
  return failure(root->walk([](Operation *op) { return WalkResult(checkOp(op)); }).wasInterrupted());
}

//===--------------------------------------------------------------------------------------------------------------===//
// Functions of f32 that libm has
//===--------------------------------------------------------------------------------------------------------------===//

namespace {

/// A builder of scalar code in f32. At most one argument of each call creates an op, since the order of evaluation of
/// arguments depends on the compiler.
struct Code : ImplicitLocOpBuilder {
  using ImplicitLocOpBuilder::ImplicitLocOpBuilder;

  Value number(double value) { return arith::ConstantOp::create(*this, getF32FloatAttr(value)); }
  Value add(Value x, Value y) { return arith::AddFOp::create(*this, x, y); }
  Value sub(Value x, Value y) { return arith::SubFOp::create(*this, x, y); }
  Value mul(Value x, Value y) { return arith::MulFOp::create(*this, x, y); }
  Value div(Value x, Value y) { return arith::DivFOp::create(*this, x, y); }
  Value select(Value condition, Value x, Value y) { return arith::SelectOp::create(*this, condition, x, y); }
  Value less(Value x, Value y) { return arith::CmpFOp::create(*this, arith::CmpFPredicate::OLT, x, y); }
  Value equal(Value x, Value y) { return arith::CmpFOp::create(*this, arith::CmpFPredicate::OEQ, x, y); }
  Value abs(Value x) { return math::AbsFOp::create(*this, x); }
  Value add(Value x, double y) { return add(x, number(y)); }
  Value sub(Value x, double y) { return sub(x, number(y)); }
  Value sub(double x, Value y) { return sub(number(x), y); }
  Value mul(Value x, double y) { return mul(x, number(y)); }
  Value less(Value x, double y) { return less(x, number(y)); }

  /// c[0] + c[1] x + c[2] x^2 + ...
  Value polynomial(Value x, ArrayRef<double> c) {
    Value sum = number(c.back());
    for (double coefficient : llvm::reverse(c.drop_back()))
      sum = math::FmaOp::create(*this, sum, x, number(coefficient));
    return sum;
  }

  /// log(1 + x). Where the sum 1 + x would drop digits of x, the series of 2 artanh(x / (2 + x)) is used.
  Value log1p(Value x) {
    Value ratio = div(x, add(x, 2.0));
    Value series = polynomial(mul(ratio, ratio), {2.0, 2.0 / 3, 2.0 / 5, 2.0 / 7, 2.0 / 9});
    Value large = math::LogOp::create(*this, add(x, 1.0));
    Value small = mul(ratio, series);
    return select(less(abs(x), 0.25), small, large);
  }
};

/// Expands one op on f32.
template <typename OpTy, Value (*expand)(Code &code, Value x)>
LogicalResult expandF32(OpTy op, PatternRewriter &rewriter) {
  if (!op.getType().isF32())
    return rewriter.notifyMatchFailure(op, "not on f32");
  Code code(op.getLoc(), rewriter);
  rewriter.replaceOp(op, expand(code, op.getOperand()));
  return success();
}

/// exp(x) - 1, by Taylor's series where the difference would drop digits.
Value expandExpM1(Code &code, Value x) {
  Value series = code.polynomial(x, {1.0, 1.0 / 2, 1.0 / 6, 1.0 / 24, 1.0 / 120, 1.0 / 720, 1.0 / 5040});
  Value small = code.mul(x, series), large = code.sub(math::ExpOp::create(code, x), 1.0);
  return code.select(code.less(code.abs(x), 0.5), small, large);
}

Value expandLog1p(Code &code, Value x) { return code.log1p(x); }

/// (exp(x) - exp(-x)) / 2, by Taylor's series where the difference would drop digits.
Value expandSinh(Code &code, Value x) {
  Value series = code.polynomial(code.mul(x, x), {1.0, 1.0 / 6, 1.0 / 120, 1.0 / 5040});
  Value up = math::ExpOp::create(code, x), down = math::ExpOp::create(code, arith::NegFOp::create(code, x));
  Value small = code.mul(x, series), large = code.mul(code.sub(up, down), 0.5);
  return code.select(code.less(code.abs(x), 0.5), small, large);
}

/// erf(x). Up to |x| = 0.93 it is x + x p(x^2), above it is 1 - 2^(|x| q(|x|)) with the sign of x. The polynomials p of
/// degree 5 and q of degree 6 are fitted to the least relative errors of erf (2e-8 and 1e-9; with rounding 1.2 units in
/// the last place). The fit of q ends at |x| = 4. Above, q still descends, so that the power is less than half a unit
/// in the last place of 1.
Value expandErf(Code &code, Value x) {
  Value square = code.mul(x, x), magnitude = code.abs(x);
  Value p = code.polynomial(square, {0.12837915, -0.37612486, 0.11281721, -0.026763124, 0.004988004, -0.00059642526});
  Value q = code.polynomial(
      magnitude, {-1.6282978, -0.91632056, -0.15328242, 0.03429434, -0.005261073, 0.000467212, -1.6353704e-05});
  Value small = math::FmaOp::create(code, p, x, x);
  Value large = code.sub(1.0, math::Exp2Op::create(code, code.mul(q, magnitude)));
  Value isSmall = code.less(magnitude, 0.93);
  return code.select(isSmall, small, math::CopySignOp::create(code, large, x));
}

/// asinh(x) = log(|x| + sqrt(x^2 + 1)) with the sign of x, computed as log1p(|x| + x^2 / (1 + sqrt(x^2 + 1))). For
/// large x it is computed as log(2 |x|).
Value expandAsinh(Code &code, Value x) {
  Value one = code.number(1.0), magnitude = code.abs(x), square = code.mul(x, x);
  Value root = math::SqrtOp::create(code, code.add(square, one));
  Value small = code.log1p(code.add(magnitude, code.div(square, code.add(root, one))));
  Value large = code.add(math::LogOp::create(code, magnitude), 0.6931471805599453);
  return math::CopySignOp::create(code, code.select(code.less(magnitude, 1e4), small, large), x);
}

/// log((1 + x) / (1 - x)) / 2, as log1p(2 |x| / (1 - |x|)) / 2 with the sign of x.
Value expandAtanh(Code &code, Value x) {
  Value magnitude = code.abs(x), twice = code.add(magnitude, magnitude);
  Value ratio = code.div(twice, code.sub(1.0, magnitude));
  return math::CopySignOp::create(code, code.mul(code.log1p(ratio), 0.5), x);
}

/// Computes the angle in the first octant and mirrors it into the octant of the point (x, y). The angle of the origin
/// is 0.
LogicalResult expandAtan2(math::Atan2Op op, PatternRewriter &rewriter) {
  if (!op.getType().isF32())
    return rewriter.notifyMatchFailure(op, "not on f32");
  Code code(op.getLoc(), rewriter);
  constexpr double kPi = 3.14159265358979324;
  Value zero = code.number(0.0), y = code.abs(op.getLhs()), x = code.abs(op.getRhs());
  Value isSteep = code.less(x, y);
  Value least = code.select(isSteep, x, y), most = code.select(isSteep, y, x);
  Value angle = math::AtanOp::create(code, code.div(least, most));
  angle = code.select(code.equal(most, zero), zero, angle);
  angle = code.select(isSteep, code.sub(kPi / 2, angle), angle);
  Value isLeft = code.less(op.getRhs(), zero);
  angle = code.select(isLeft, code.sub(kPi, angle), angle);
  rewriter.replaceOpWithNewOp<math::CopySignOp>(op, angle, op.getLhs());
  return success();
}

/// x^y in f32 like C's powf for finite numbers: a negative x needs an integer y.
Value createPower(Code &code, Value x, Value y) {
  Value zero = code.number(0.0), one = code.number(1.0), half = code.mul(y, 0.5);
  Value logarithm = math::Log2Op::create(code, code.abs(x));
  Value power = math::Exp2Op::create(code, code.mul(y, logarithm));
  Value isWhole = code.equal(math::FloorOp::create(code, y), y);
  Value isEven = code.equal(math::FloorOp::create(code, half), half);
  Value negated = code.select(isEven, power, arith::NegFOp::create(code, power));
  negated = code.select(isWhole, negated, code.number(std::numeric_limits<float>::quiet_NaN()));
  power = code.select(code.less(x, zero), negated, power);
  return code.select(code.equal(y, zero), one, power); // x^0 is 1, but `power` is NaN for x = 0
}

LogicalResult expandPowF(math::PowFOp op, PatternRewriter &rewriter) {
  Code code(op.getLoc(), rewriter);
  APFloat exponent(0.0f);
  if (matchPattern(op.getRhs(), m_ConstantFloat(&exponent)) && exponent.isInteger() &&
      std::abs(exponent.convertToDouble()) <= 64) {
    // An upstream pattern expands powers with a constant whole exponent to products.
    auto whole = static_cast<int64_t>(exponent.convertToDouble());
    Value times = arith::ConstantOp::create(code, rewriter.getI32IntegerAttr(whole));
    rewriter.replaceOpWithNewOp<math::FPowIOp>(op, op.getLhs(), times);
    return success();
  }
  if (!op.getType().isF32())
    return rewriter.notifyMatchFailure(op, "not on f32");
  rewriter.replaceOp(op, createPower(code, op.getLhs(), op.getRhs()));
  return success();
}

LogicalResult expandSincos(math::SincosOp op, PatternRewriter &rewriter) {
  Value sine = math::SinOp::create(rewriter, op.getLoc(), op.getOperand());
  Value cosine = math::CosOp::create(rewriter, op.getLoc(), op.getOperand());
  rewriter.replaceOp(op, {sine, cosine});
  return success();
}

} // namespace

//===--------------------------------------------------------------------------------------------------------------===//
// Ops that libm does not have
//===--------------------------------------------------------------------------------------------------------------===//

namespace {

LogicalResult expandFPowI(math::FPowIOp op, PatternRewriter &rewriter) {
  if (matchPattern(op.getRhs(), m_Constant()))
    return rewriter.notifyMatchFailure(op, "products, which an upstream pattern writes");
  Value exponent = arith::SIToFPOp::create(rewriter, op.getLoc(), op.getType(), op.getRhs());
  rewriter.replaceOpWithNewOp<math::PowFOp>(op, op.getLhs(), exponent);
  return success();
}

/// Expands math.isinf to a comparison of the magnitude with infinity. Expands math.isnormal to two comparisons of the
/// magnitude, with infinity and with the least normal number.
template <typename OpTy> LogicalResult expandClass(OpTy op, PatternRewriter &rewriter) {
  auto type = dyn_cast<FloatType>(op.getOperand().getType());
  if (!type)
    return rewriter.notifyMatchFailure(op, "not on a scalar");
  Location loc = op.getLoc();
  Value magnitude = math::AbsFOp::create(rewriter, loc, op.getOperand());
  auto compare = [&](arith::CmpFPredicate predicate, const APFloat &limit) -> Value {
    Value constant = arith::ConstantOp::create(rewriter, loc, rewriter.getFloatAttr(type, limit));
    return arith::CmpFOp::create(rewriter, loc, predicate, magnitude, constant);
  };
  APFloat infinity = APFloat::getInf(type.getFloatSemantics());
  Value result;
  if constexpr (std::is_same_v<OpTy, math::IsInfOp>) {
    result = compare(arith::CmpFPredicate::OEQ, infinity);
  } else {
    Value above = compare(arith::CmpFPredicate::OGE, APFloat::getSmallestNormalized(type.getFloatSemantics()));
    Value below = compare(arith::CmpFPredicate::OLT, infinity);
    result = arith::AndIOp::create(rewriter, loc, above, below);
  }
  rewriter.replaceOp(op, result);
  return success();
}

/// Multiplies squares, one for each bit of the exponent. A power with a negative exponent is 0, except if the base is 1
/// or -1.
LogicalResult expandIPowI(math::IPowIOp op, PatternRewriter &rewriter) {
  if (!isa<IntegerType>(op.getType()))
    return rewriter.notifyMatchFailure(op, "not on scalars");
  ImplicitLocOpBuilder b(op.getLoc(), rewriter);
  Type type = op.getType();
  auto number = [&](int64_t value) -> Value { return arith::ConstantOp::create(b, b.getIntegerAttr(type, value)); };
  auto compare = [&](arith::CmpIPredicate predicate, Value x, Value y) -> Value {
    return arith::CmpIOp::create(b, predicate, x, y);
  };
  Value base = op.getLhs(), exponent = op.getRhs(), zero = number(0), one = number(1);
  auto isOdd = [&](Value x) { return compare(arith::CmpIPredicate::ne, arith::AndIOp::create(b, x, one), zero); };
  auto loop = scf::WhileOp::create(
      b, TypeRange{type, type, type}, ValueRange{one, base, exponent},
      [&](OpBuilder &, Location, ValueRange state) {
        scf::ConditionOp::create(b, compare(arith::CmpIPredicate::sgt, state[2], zero), state);
      },
      [&](OpBuilder &, Location, ValueRange state) {
        Value factor = arith::SelectOp::create(b, isOdd(state[2]), state[1], one);
        Value product = arith::MulIOp::create(b, state[0], factor);
        Value square = arith::MulIOp::create(b, state[1], state[1]);
        scf::YieldOp::create(b, ValueRange{product, square, arith::ShRSIOp::create(b, state[2], one)});
      });
  Value isUnit = compare(arith::CmpIPredicate::eq, base, one);
  Value isMinusOne = compare(arith::CmpIPredicate::eq, base, number(-1));
  Value ofMinusOne = arith::SelectOp::create(b, isOdd(exponent), base, one);
  Value inverse = arith::SelectOp::create(b, isUnit, one, arith::SelectOp::create(b, isMinusOne, ofMinusOne, zero));
  Value isNegative = compare(arith::CmpIPredicate::slt, exponent, zero);
  rewriter.replaceOp(op, arith::SelectOp::create(b, isNegative, inverse, loop.getResult(0)));
  return success();
}

} // namespace

//===--------------------------------------------------------------------------------------------------------------===//
// The pass
//===--------------------------------------------------------------------------------------------------------------===//

void flashc::populateExpandToLibmPatterns(RewritePatternSet &patterns) {
  patterns.add(expandF32<math::ExpM1Op, expandExpM1>, /*benefit=*/2);
  patterns.add(expandF32<math::Log1pOp, expandLog1p>, /*benefit=*/2);
  patterns.add(expandFPowI, /*benefit=*/2);
  patterns.add(expandClass<math::IsInfOp>);
  patterns.add(expandClass<math::IsNormalOp>);
  patterns.add(expandIPowI);
  math::populateExpansionPatterns(patterns, {"clampf", "fpowi"});
}

/// Functions that are computed in f32 for f16 and bf16.
static bool isWidened(StringRef name) {
  static const StringRef names[] = {"acos", "acosh", "asin",  "asinh", "atan", "atan2", "atanh", "cbrt",  "cos",
                                    "cosh", "erf",   "erfc",  "exp",   "exp2", "expm1", "log",   "log10", "log1p",
                                    "log2", "powf",  "rsqrt", "sin",   "sinh", "sqrt",  "tan",   "tanh"};
  return name.consume_front("math.") && llvm::is_contained(names, name);
}

/// Functions for which upstream has a polynomial.
static bool isApproximated(StringRef name) {
  return llvm::is_contained({"math.acos", "math.asin", "math.atan", "math.cbrt", "math.erfc"}, name);
}

void flashc::populateExpandMathPatterns(RewritePatternSet &patterns) {
  populateExpandToLibmPatterns(patterns);
  patterns.add(expandF32<math::ErfOp, expandErf>, /*benefit=*/2);
  patterns.add(expandF32<math::SinhOp, expandSinh>, /*benefit=*/2);
  patterns.add(expandF32<math::AsinhOp, expandAsinh>, /*benefit=*/2);
  patterns.add(expandF32<math::AtanhOp, expandAtanh>, /*benefit=*/2);
  patterns.add(expandAtan2);
  patterns.add(expandPowF);
  patterns.add(expandSincos);
  populateMathF32ExpansionPatterns(patterns, isWidened, /*benefit=*/3);
  populateMathPolynomialApproximationPatterns(patterns, isApproximated);
  math::populateExpansionPatterns(patterns, {"acosh", "cosh", "tan"});
}

namespace {
struct ExpandMath : flashc::impl::ExpandMathBase<ExpandMath> {
  using ExpandMathBase::ExpandMathBase;

  void runOnOperation() override {
    SmallVector<Operation *> ops;
    getOperation()->walk([&](Operation *op) {
      if (isa<math::MathDialect>(op->getDialect()) && !flashc::isMathInstruction(op))
        ops.push_back(op);
    });
    if (ops.empty())
      return; // there is nothing to expand, so no time is spent on patterns
    numOps += ops.size();
    RewritePatternSet patterns(&getContext());
    if (libm)
      flashc::populateExpandToLibmPatterns(patterns);
    else
      flashc::populateExpandMathPatterns(patterns);
    GreedyRewriteConfig config;
    config.setStrictness(GreedyRewriteStrictness::ExistingAndNewOps);
    if (failed(applyOpPatternsGreedily(ops, std::move(patterns), config)))
      signalPassFailure();
  }
};
} // namespace
