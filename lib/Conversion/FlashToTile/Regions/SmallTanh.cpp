//===- SmallTanh.cpp - tanh of small scores as a polynomial -------------------------------------------------------===//

#include "Regions/SmallTanh.h"
#include "Regions/ScoreMap.h"
#include "mlir/Analysis/SliceAnalysis.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"

using namespace mlir;
using namespace flashc;

/// Returns the tanh through which the region's first argument reaches its only result. Factors between tanh and result
/// are allowed if the exponent can include them. Null if there is no such tanh, or if the argument also reaches the
/// result in another way.
static math::TanhOp findTanh(Region &region) {
  Operation *yield = region.front().getTerminator();
  double factor = 1.0;
  Value value = yield->getOperand(0), other;
  while (std::optional<double> constant = getConstantFactor(region, value, other)) {
    factor *= *constant;
    if (!isExponentFactor(*constant) || !isExponentFactor(factor))
      return {};
    value = other;
  }
  auto tanh = value.getDefiningOp<math::TanhOp>();
  if (yield->getNumOperands() != 1 || !tanh || !tanh.getType().isF32())
    return {};
  SetVector<Operation *> ofScore;
  getForwardSlice(region.getArgument(0), &ofScore);
  return ofScore.contains(tanh) ? tanh : math::TanhOp();
}

bool flashc::isSoftCap(Region &score) { return static_cast<bool>(findTanh(score)); }

std::optional<double> flashc::getTanhFactor(Region &score) {
  math::TanhOp tanh = findTanh(score);
  if (!tanh)
    return std::nullopt;
  double product = 1.0;
  Value value = tanh.getOperand();
  while (value != score.getArgument(0)) {
    std::optional<double> factor = getConstantFactor(score, value, value);
    if (!factor)
      return std::nullopt;
    product *= *factor;
  }
  return product;
}

//===--------------------------------------------------------------------------------------------------------------===//
// Polynomials
//===--------------------------------------------------------------------------------------------------------------===//

namespace {
/// Approximates tanh(u) by c0 u + c1 u^3 + ... for |u| <= limit.
class Polynomial {
public:
  explicit Polynomial(int64_t terms);

  double getLimit() const { return limit; }
  /// Returns p(x). The product x * p(x) * getLeading(k) approximates tanh(k * x) for |k * x| <= limit. The leading
  /// coefficient of p is 1 or -1.
  Value emitMonic(ImplicitLocOpBuilder &b, Value x, double k) const;
  double getLeading(double k) const {
    return std::abs(coefficients.back()) * std::pow(k, 2.0 * coefficients.size() - 1.0);
  }

private:
  double limit;
  SmallVector<double, 3> coefficients;
};
} // namespace

/// The number of terms: two suffice for arguments of tanh up to 0.35, three for arguments up to 0.75.
constexpr int64_t kLeastTerms = 2, kMostTerms = 3;

static Value number(ImplicitLocOpBuilder &b, double value) {
  return arith::ConstantOp::create(b, b.getF32FloatAttr(static_cast<float>(value)));
}

/// The coefficients give the least relative error (found by Remez's exchange for tanh(u) / u as a function of u^2):
/// 2^-12.04 with two terms, 2^-12.18 with three. The error of tanh.approx.f32 is 2^-11 (PTX ISA 9.7.3.22).
Polynomial::Polynomial(int64_t terms) {
  if (terms == kLeastTerms) {
    limit = 0.35;
    coefficients = {0.9997628015935932, -0.31769618576084446};
  } else {
    limit = 0.75;
    coefficients = {0.9997851998754244, -0.32629671971217256, 0.09735547757938301};
  }
}

/// With u = k * x and h = c1 / (2 * c2), two terms are computed as (c0 / -c1 - u^2) / k^2, and three terms as ((u^2 +
/// h)^2 + (c0 / c2 - h^2)) / k^4; the constants contain the powers of k. This takes one multiply-add fewer than a
/// polynomial with a leading coefficient, and one register fewer than Horner's rule.
Value Polynomial::emitMonic(ImplicitLocOpBuilder &b, Value x, double k) const {
  double square = k * k, leading = coefficients.back();
  if (coefficients.size() == 2)
    return math::FmaOp::create(b, arith::NegFOp::create(b, x), x, number(b, coefficients[0] / -leading / square));
  double shift = coefficients[1] / (2.0 * leading);
  Value shifted = math::FmaOp::create(b, x, x, number(b, shift / square));
  return math::FmaOp::create(b, shifted, shifted,
                             number(b, (coefficients[0] / leading - shift * shift) / (square * square)));
}

double flashc::getSmallTanhLimit() { return Polynomial(kMostTerms).getLimit(); }

void flashc::expandSmallTanh(Block &block) {
  Polynomial polynomial(kMostTerms);
  block.walk([&](math::TanhOp tanh) {
    if (!tanh.getType().isF32())
      return;
    ImplicitLocOpBuilder b(tanh.getLoc(), tanh);
    Value scaled = arith::MulFOp::create(b, tanh.getOperand(), number(b, polynomial.getLeading(1.0)));
    tanh.replaceAllUsesWith(
        arith::MulFOp::create(b, scaled, polynomial.emitMonic(b, tanh.getOperand(), 1.0)).getResult());
    tanh.erase();
  });
}

//===--------------------------------------------------------------------------------------------------------------===//
// The branches
//===--------------------------------------------------------------------------------------------------------------===//

namespace {
/// The branches that replace `map`. In each branch a map yields tanh(k * e) / unit for each element e of `source`, by a
/// polynomial or by tanh itself. `unit` is the leading coefficient of the shortest polynomial (getLeading).
struct Branches {
  tile::MapOp map;
  Value source;
  double k, unit;
  llvm::function_ref<Value(OpBuilder &, Value)> finish;

  /// Emits the branches for the polynomials of at least `terms` terms, and for tanh. At run time the shortest
  /// polynomial whose limit holds for all arguments is computed, or tanh if there is no such polynomial.
  Value emit(OpBuilder &b, int64_t terms = kLeastTerms);

private:
  Value emitPolynomial(ImplicitLocOpBuilder &b, Value e, const Polynomial &polynomial);
  Value emitTanh(ImplicitLocOpBuilder &b, Value e);
  Value emitMap(OpBuilder &b, llvm::function_ref<Value(ImplicitLocOpBuilder &, Value)> function);
};
} // namespace

Value Branches::emit(OpBuilder &b, int64_t terms) {
  if (terms > kMostTerms)
    return emitMap(b, [&](ImplicitLocOpBuilder &inside, Value e) { return emitTanh(inside, e); });
  Polynomial polynomial(terms);
  FloatAttr limit = b.getF32FloatAttr(static_cast<float>(polynomial.getLimit() / k));
  Value isSmall = tile::AllWithinOp::create(b, map.getLoc(), b.getI1Type(), source, limit);
  auto branch = scf::IfOp::create(
      b, map.getLoc(), isSmall,
      [&](OpBuilder &nested, Location loc) {
        auto function = [&](ImplicitLocOpBuilder &inside, Value e) { return emitPolynomial(inside, e, polynomial); };
        scf::YieldOp::create(nested, loc, emitMap(nested, function));
      },
      [&](OpBuilder &nested, Location loc) { scf::YieldOp::create(nested, loc, emit(nested, terms + 1)); });
  return branch.getResult(0);
}

Value Branches::emitPolynomial(ImplicitLocOpBuilder &b, Value e, const Polynomial &polynomial) {
  Value product = polynomial.emitMonic(b, e, k);
  double leading = polynomial.getLeading(k) / unit;
  if (leading != 1.0)
    e = arith::MulFOp::create(b, e, number(b, leading));
  return arith::MulFOp::create(b, e, product);
}

Value Branches::emitTanh(ImplicitLocOpBuilder &b, Value e) {
  Value argument = arith::MulFOp::create(b, e, number(b, k));
  return arith::MulFOp::create(b, math::TanhOp::create(b, argument), number(b, 1.0 / unit));
}

Value Branches::emitMap(OpBuilder &b, llvm::function_ref<Value(ImplicitLocOpBuilder &, Value)> function) {
  Location loc = map.getLoc();
  auto branch = tile::MapOp::create(b, loc, source, map.getRow(), map.getCol());
  OpBuilder::InsertionGuard guard(b);
  Type types[] = {b.getF32Type(), b.getIndexType(), b.getIndexType()};
  Block *body = b.createBlock(&branch.getBody(), {}, types, {loc, loc, loc});
  ImplicitLocOpBuilder inside(loc, b);
  tile::YieldOp::create(inside, function(inside, body->getArgument(0)));
  b.setInsertionPointAfter(branch);
  return finish(b, branch.getResult());
}

Value flashc::splitSmallTanh(tile::MapOp map, double &factor, llvm::function_ref<Value(OpBuilder &, Value)> finish) {
  Polynomial least(kLeastTerms);
  Value e = findTanh(map.getBody()).getOperand(), other;
  double k = 1.0;
  if (std::optional<double> constant = getConstantFactor(map.getBody(), e, other);
      constant && *constant > 0.0 && isExponentFactor(least.getLeading(*constant) * factor))
    e = other, k = *constant;
  double unit = least.getLeading(k);
  factor *= unit;

  auto uses = llvm::map_to_vector(map.getResult().getUses(), [](OpOperand &use) { return &use; });
  bool isScore = e == map.getBody().getArgument(0); // otherwise the map computes it
  map.getBody().front().getTerminator()->setOperand(0, e);
  OpBuilder b(map->getContext());
  b.setInsertionPointAfter(map);
  Value source = isScore ? map.getSource() : map.getResult();
  Value result = Branches{map, source, k, unit, finish}.emit(b);
  for (OpOperand *use : uses)
    use->set(result);
  if (isScore)
    map.erase();
  return result;
}
