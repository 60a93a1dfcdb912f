//===- CaptureIndex.cpp - which positions the indices of a read depend on -----------------------------------------===//

#include "CaptureIndex.h"
#include "flashc/Analysis/LinearExpr.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

using namespace mlir;
using namespace mlir::flash;

namespace {
class Analyzer {
public:
  explicit Analyzer(Region &score)
      : score(score), query(score.getArguments().end()[-2]), key(score.getArguments().end()[-1]) {}

  CaptureIndex analyze(ValueRange indices) {
    auto anyDepends = [&](Value position) {
      return llvm::any_of(indices, [&](Value index) { return dependsOn(index, position); });
    };
    CaptureIndex result{getGradients(indices, anyDepends(query), anyDepends(key)), anyDepends(score.getArgument(1)),
                        anyDepends(score.getArgument(2))};
    return result;
  }

  bool hangsOnDistance(Value value) { return isOfDistance(value); }

private:
  Gradients getGradients(ValueRange indices, bool onQuery, bool onKey) {
    if (!onQuery || !onKey)
      return onKey ? Gradients::Columns : Gradients::Rows;
    bool isOfDistances = llvm::all_of(indices, [&](Value index) { return isOfDistance(index); });
    return isOfDistances ? Gradients::Diagonals : Gradients::Pairs;
  }

  /// Whether `value` of the score depends on `position`.
  bool dependsOn(Value value, Value position) {
    if (value == position)
      return true;
    Operation *def = value.getDefiningOp();
    if (!def) // an argument of a nested block may depend on any position
      return value.getParentRegion() != &score && score.isAncestor(value.getParentRegion());
    if (!score.isAncestor(def->getParentRegion()))
      return false;
    auto [found, isNew] = known.try_emplace({value, position}, false);
    if (!isNew)
      return found->second;
    bool depends = def->walk([&](Operation *nested) {
                        for (Value operand : nested->getOperands())
                          if (!def->isAncestor(operand.getParentBlock()->getParentOp()) && dependsOn(operand, position))
                            return WalkResult::interrupt();
                        return WalkResult::advance();
                      })
                       .wasInterrupted();
    return known[{value, position}] = depends;
  }

  bool dependsOnPair(Value value) { return dependsOn(value, query) || dependsOn(value, key); }

  /// Whether `expr` depends on i and j through their distance only.
  bool isOfDistance(const LinearExpr &expr) {
    return expr.getCoefficient(query) == -expr.getCoefficient(key) &&
           llvm::all_of(expr.getTerms(), [&](const LinearExpr::Term &term) {
             return term.value == query || term.value == key || isOfDistance(term.value);
           });
  }

  bool isOfDistance(Value value) {
    if (!dependsOnPair(value))
      return true;
    Operation *def = value.getDefiningOp();
    if (!def)
      return false;
    auto [found, isNew] = ofDistance.try_emplace(value, false);
    if (!isNew)
      return found->second;
    return ofDistance[value] = computeIsOfDistance(value, def);
  }

  bool computeIsOfDistance(Value value, Operation *def) {
    if (value.getType().isIntOrIndex()) {
      LinearExpr expr = LinearExpr::get(value);
      bool isItself = expr.getTerms().size() == 1 && expr.getTerms().front().value == value;
      if (!isItself && isOfDistance(expr))
        return true;
    }
    if (auto compare = dyn_cast<arith::CmpIOp>(def); compare && !compare.getLhs().getType().isInteger(1))
      if (isSigned(compare.getPredicate()) &&
          isOfDistance(LinearExpr::get(compare.getLhs()) - LinearExpr::get(compare.getRhs())))
        return true;
    return def->getNumRegions() == 0 && (isMemoryEffectFree(def) || hasSingleEffect<MemoryEffects::Read>(def)) &&
           llvm::all_of(def->getOperands(), [&](Value operand) { return isOfDistance(operand); });
  }

  static bool isSigned(arith::CmpIPredicate predicate) { return predicate <= arith::CmpIPredicate::sge; }

  Region &score;
  Value query, key;
  DenseMap<std::pair<Value, Value>, bool> known;
  DenseMap<Value, bool> ofDistance;
};
} // namespace

bool mlir::flash::hangsOnDistance(Region &region, Value value) { return Analyzer(region).hangsOnDistance(value); }

CaptureIndex mlir::flash::analyzeCaptureIndex(Region &score, tensor::ExtractOp read) {
  return Analyzer(score).analyze(read.getIndices());
}
