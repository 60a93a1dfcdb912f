//===- KeyPeriod.cpp - conditions that repeat along the keys ------------------------------------------------------===//

#include "flashc/Dialect/Tile/IR/Tile.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/Matchers.h"
#include <numeric>

using namespace mlir;
using namespace mlir::tile;

namespace {
/// Finds the period, in keys, of integers that are computed in the block with the argument `key`.
class KeyPeriods {
public:
  explicit KeyPeriods(BlockArgument key) : key(key) {}

  bool dependsOnKey(Value value) {
    if (value == key || isElement(value))
      return true;
    auto [known, isNew] = depends.try_emplace(value, false);
    if (!isNew)
      return known->second;
    Operation *op = getLocal(value);
    // An op with regions counts as dependent, since code in its regions may read the key.
    bool result = op && (op->getNumRegions() > 0 ||
                         llvm::any_of(op->getOperands(), [&](Value operand) { return dependsOnKey(operand); }));
    return depends[value] = result;
  }

  /// Returns a p > 0 for which `value` is the same at the keys j and j + p, for every j. Returns 1 if the value does
  /// not depend on j. None if no such p is found.
  std::optional<int64_t> getPeriod(Value value) {
    if (!dependsOnKey(value))
      return 1;
    if (auto found = periods.find(value); found != periods.end())
      return found->second;
    std::optional<int64_t> period = computePeriod(value);
    periods[value] = period;
    return period;
  }

private:
  static constexpr int64_t kMostPeriod = 1 << 20;

  std::optional<int64_t> computePeriod(Value value) {
    Operation *op = getLocal(value);
    if (!op)
      return std::nullopt;
    if (std::optional<int64_t> modulus = getModulus(op))
      return modulus;
    if (auto compare = dyn_cast<arith::CmpIOp>(op))
      if (std::optional<int64_t> modulus = getDivisibility(compare))
        return modulus;
    if (!isa<arith::CmpIOp, arith::AndIOp, arith::OrIOp, arith::XOrIOp, arith::AddIOp, arith::SubIOp, arith::MulIOp,
             arith::MinSIOp, arith::MaxSIOp, arith::SelectOp, arith::IndexCastOp, arith::ExtSIOp, arith::ExtUIOp,
             arith::TruncIOp>(op))
      return std::nullopt;
    int64_t period = 1;
    for (Value operand : op->getOperands()) {
      std::optional<int64_t> next = getPeriod(operand);
      if (!next)
        return std::nullopt;
      period = std::lcm(period, *next);
      if (period > kMostPeriod)
        return std::nullopt;
    }
    return period;
  }

  /// Whether `value` is the element of a tile.map. The element differs between keys.
  bool isElement(Value value) {
    auto map = dyn_cast<MapOp>(key.getOwner()->getParentOp());
    return map && value == map.getBody().getArgument(0);
  }

  Operation *getLocal(Value value) {
    Operation *op = value.getDefiningOp();
    return op && op->getBlock() == key.getOwner() ? op : nullptr;
  }

  static std::optional<int64_t> getConstant(Value value) {
    APInt constant;
    if (!matchPattern(value, m_ConstantInt(&constant)) || !constant.isSignedIntN(21) ||
        !constant.isStrictlyPositive() || constant.getSExtValue() > kMostPeriod)
      return std::nullopt;
    return constant.getSExtValue();
  }

  /// Whether `value` is a sum of an integer multiple of the key and of terms that do not depend on the key.
  bool isLinear(Value value) {
    if (value == key || !dependsOnKey(value))
      return true;
    if (auto found = linear.find(value); found != linear.end())
      return found->second;
    bool result = computeIsLinear(value);
    return linear[value] = result;
  }

  bool computeIsLinear(Value value) {
    Operation *op = getLocal(value);
    if (isa_and_nonnull<arith::AddIOp, arith::SubIOp>(op))
      return isLinear(op->getOperand(0)) && isLinear(op->getOperand(1));
    if (isa_and_nonnull<arith::MulIOp>(op))
      return llvm::all_of(op->getOperands(), [&](Value operand) { return isLinear(operand); }) &&
             llvm::any_of(op->getOperands(), [](Value operand) { return matchPattern(operand, m_Constant()); });
    return op && isWideCast(op) && isLinear(op->getOperand(0));
  }

  /// Whether `op` is a cast that preserves positions: a cast to at least 32 bits, since positions are far below 2^31.
  static bool isWideCast(Operation *op) {
    return isa<arith::IndexCastOp, arith::ExtSIOp>(op) &&
           (op->getResult(0).getType().isIndex() || op->getResult(0).getType().getIntOrFloatBitWidth() >= 32);
  }

  /// Whether `value` is the key itself or a cast of it. Such a value is not negative, so that its remainder by c
  /// repeats after c keys.
  bool isKey(Value value) {
    Operation *op = getLocal(value);
    return value == key || (op && isWideCast(op) && isKey(op->getOperand(0)));
  }

  /// Returns c if `op` computes x mod c for a linear x (isLinear), in one of two forms: a bit mask c - 1, where c is a
  /// power of 2, or x - (x floordiv c) * c. Also returns c if `op` is the remainder of the key by c. None otherwise.
  std::optional<int64_t> getModulus(Operation *op) {
    if (isa<arith::RemSIOp, arith::RemUIOp>(op) && isKey(op->getOperand(0)))
      return getConstant(op->getOperand(1));
    if (isa<arith::AndIOp>(op) && !op->getResult(0).getType().isInteger(1)) {
      std::optional<int64_t> mask = getConstant(op->getOperand(1));
      return mask && llvm::isPowerOf2_64(*mask + 1) && isLinear(op->getOperand(0)) ? std::optional(*mask + 1)
                                                                                   : std::nullopt;
    }
    auto product = isa<arith::SubIOp>(op) ? op->getOperand(1).getDefiningOp<arith::MulIOp>() : nullptr;
    auto quotient = product ? product.getLhs().getDefiningOp<arith::FloorDivSIOp>() : nullptr;
    if (!quotient || quotient.getLhs() != op->getOperand(0) || !isLinear(quotient.getLhs()))
      return std::nullopt;
    std::optional<int64_t> divisor = getConstant(quotient.getRhs()), factor = getConstant(product.getRhs());
    return divisor && divisor == factor ? divisor : std::nullopt;
  }

  /// Returns c if `op` is a comparison of x rem c with 0 (eq or ne), where x is linear. None otherwise. A comparison of
  /// x rem c with another number has no period, since x rem c has the sign of x.
  std::optional<int64_t> getDivisibility(arith::CmpIOp op) {
    bool isEquality = op.getPredicate() == arith::CmpIPredicate::eq || op.getPredicate() == arith::CmpIPredicate::ne;
    auto remainder = op.getLhs().getDefiningOp<arith::RemSIOp>();
    if (!isEquality || !remainder || !matchPattern(op.getRhs(), m_Zero()) || !isLinear(remainder.getLhs()))
      return std::nullopt;
    return getConstant(remainder.getRhs());
  }

  BlockArgument key;
  // Caches of results. Without them n ops could take 2^n steps, since ops share operands.
  llvm::DenseMap<Value, bool> depends, linear;
  llvm::DenseMap<Value, std::optional<int64_t>> periods;
};
} // namespace

std::optional<int64_t> tile::getRepeat(Value condition, BlockArgument key, int64_t cols) {
  KeyPeriods periods(key);
  if (!periods.dependsOnKey(condition))
    return std::nullopt;
  std::optional<int64_t> period = periods.getPeriod(condition);
  if (!period)
    return std::nullopt;
  int64_t repeat = *period / std::gcd(*period, kBlockCols);
  return repeat <= kMostRepeat && repeat * kBlockCols <= cols ? std::optional(repeat) : std::nullopt;
}
