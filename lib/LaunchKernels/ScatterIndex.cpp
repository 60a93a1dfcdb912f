//===- ScatterIndex.cpp - how an index moves with a position ------------------------------------------------------===//

#include "ScatterIndex.h"
#include "flashc/Analysis/LinearExpr.h"
#include "flashc/Dialect/Flash/IR/FlashIndex.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Utils/StaticValueUtils.h"

using namespace mlir;
using namespace flashc;
using flash::Gradients;
using flash::LinearExpr;

namespace {
class Analyzer {
public:
  explicit Analyzer(flash::ScatterSumOp op) : region(op.getIndex()), gradients(op.getGradients()) {}

  ScatterIndex analyze(Value index) {
    SmallVector<unsigned> dims = llvm::to_vector(llvm::make_filter_range(
        llvm::seq<unsigned>(0, getNumDims()), [&](unsigned dim) { return dependsOn(index, dim); }));
    if (dims.empty())
      return {ScatterIndex::Kind::Constant};
    signs.clear();
    if (dims.size() > 1) {
      bool isOfKeys = gradients == Gradients::Pairs && dims.back() == 3;
      int direction = isOfKeys ? getDirection(index, 3).value_or(0) : 0;
      return {ScatterIndex::Kind::Any, 0, signs, direction};
    }
    unsigned dim = dims.front();
    if (gradients != Gradients::Diagonals && index == getArgument(dim))
      return {ScatterIndex::Kind::Same, dim};
    std::optional<int> direction = getDirection(index, dim);
    if (!direction || *direction == 0)
      return {};
    return {*direction > 0 ? ScatterIndex::Kind::Rising : ScatterIndex::Kind::Falling, dim, signs};
  }

private:
  unsigned getNumDims() const { return gradients == Gradients::Pairs ? 4 : 3; }
  Value getArgument(unsigned dim) { return region.getArgument(gradients == Gradients::Columns && dim == 2 ? 3 : dim); }
  /// Whether `dim` is the dimension of the distance j - i.
  bool isDistance(unsigned dim) const { return gradients == Gradients::Diagonals && dim == 2; }

  bool isPosition(Value value, unsigned dim) {
    return isDistance(dim) ? value == region.getArgument(2) || value == region.getArgument(3)
                           : value == getArgument(dim);
  }

  bool dependsOn(Value value, unsigned dim) {
    if (isPosition(value, dim))
      return true;
    Operation *def = value.getDefiningOp();
    if (!def || !region.isAncestor(def->getParentRegion()))
      return false;
    auto [found, isNew] = known.try_emplace({value, dim}, false);
    if (!isNew)
      return found->second;
    bool depends =
        def->walk([&](Operation *nested) {
             bool uses = llvm::any_of(nested->getOperands(), [&](Value operand) {
               return !def->isProperAncestor(operand.getParentBlock()->getParentOp()) && dependsOn(operand, dim);
             });
             return uses ? WalkResult::interrupt() : WalkResult::advance();
           })
            .wasInterrupted();
    return known[{value, dim}] = depends;
  }

  /// Returns the direction of a sum or a maximum of two values with the directions `x` and `y`.
  static std::optional<int> join(std::optional<int> x, std::optional<int> y) {
    if (!x || !y || (*x && *y && *x != *y))
      return std::nullopt;
    return *x ? x : y;
  }

  /// Returns 1 if `value` never falls as the position in dimension `dim` grows, -1 if it never rises, and 0 if it does
  /// not change. Returns nullopt if none of these is known.
  std::optional<int> getDirection(Value value, unsigned dim) {
    if (!dependsOn(value, dim))
      return 0;
    if (!isDistance(dim) && isPosition(value, dim))
      return 1;
    LinearExpr expr = LinearExpr::get(value);
    if (expr.getTerms().size() != 1 || expr.getTerms().front().value != value)
      return getDirection(expr, dim);
    if (Value wrapped = flash::matchWrappedIndex(value)) {
      std::optional<int> direction = getDirection(wrapped, dim);
      if (direction && *direction != 0 && llvm::none_of(signs, [&](auto &sign) { return sign.index == wrapped; }))
        signs.push_back({wrapped, *direction > 0});
      return direction;
    }
    Operation *def = value.getDefiningOp();
    if (isa_and_nonnull<arith::MaxSIOp, arith::MinSIOp>(def))
      return join(getDirection(def->getOperand(0), dim), getDirection(def->getOperand(1), dim));
    if (isa_and_nonnull<arith::DivSIOp, arith::FloorDivSIOp, arith::CeilDivSIOp>(def))
      if (std::optional<int64_t> divisor = getConstantIntValue(def->getOperand(1)); divisor && *divisor > 0)
        return getDirection(def->getOperand(0), dim);
    return std::nullopt;
  }

  std::optional<int> getDirection(LinearExpr expr, unsigned dim) {
    std::optional<int> direction = 0;
    if (isDistance(dim)) {
      Value i = region.getArgument(2), j = region.getArgument(3);
      if (expr.getCoefficient(i) != -expr.getCoefficient(j))
        return std::nullopt;
      direction = sign(expr.getCoefficient(j));
      expr = expr.without(i).without(j);
    }
    for (const LinearExpr::Term &term : expr.getTerms()) {
      std::optional<int> ofTerm = getDirection(term.value, dim);
      direction = join(direction, ofTerm ? std::optional(*ofTerm * sign(term.coefficient)) : std::nullopt);
    }
    return direction;
  }

  static int sign(int64_t number) { return (number > 0) - (number < 0); }

  Region &region;
  Gradients gradients;
  DenseMap<std::pair<Value, unsigned>, bool> known;
  /// The wraps that were found in the index that is analyzed now.
  SmallVector<ScatterIndex::Sign, 1> signs;
};
} // namespace

SmallVector<ScatterIndex> flashc::analyzeScatterIndices(flash::ScatterSumOp op) {
  Analyzer analyzer(op);
  return llvm::map_to_vector(op.getIndices(), [&](Value index) { return analyzer.analyze(index); });
}
