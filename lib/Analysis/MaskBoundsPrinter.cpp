//===- MaskBoundsPrinter.cpp - the text of bounds -----------------------------------------------------------------===//

#include "flashc/Analysis/MaskBounds.h"
#include "mlir/IR/AsmState.h"

using namespace mlir;
using namespace mlir::flash;

/// Prints an expression of bounds with the names of its symbols.
static void printExpr(raw_ostream &os, AffineExpr expr, const LoopBounds &bounds, AsmState &state, bool isOperand) {
  static constexpr StringLiteral kNames[] = {"begin", "end", "i0", "rows"};
  static constexpr StringLiteral kDualNames[] = {"begin", "end", "j0", "keys"};
  if (auto constant = dyn_cast<AffineConstantExpr>(expr)) {
    os << constant.getValue();
    return;
  }
  if (auto symbol = dyn_cast<AffineSymbolExpr>(expr)) {
    if (symbol.getPosition() < LoopBounds::FirstCaptured) {
      os << (bounds.view == MaskView::Dual ? kDualNames : kNames)[symbol.getPosition()];
      return;
    }
    const CapturedValue &captured = bounds.captured[symbol.getPosition() - LoopBounds::FirstCaptured];
    captured.value.printAsOperand(os, state);
    os << (captured.at == MaskSpace::At::FirstRow ? "[first]" : captured.at == MaskSpace::At::LastRow ? "[last]" : "");
    return;
  }
  auto binary = cast<AffineBinaryOpExpr>(expr);
  AffineExpr lhs = binary.getLHS(), rhs = binary.getRHS();
  bool isProduct = expr.getKind() == AffineExprKind::Mul;
  bool hasParentheses = isOperand && !isProduct;
  os << (hasParentheses ? "(" : "");
  if (expr.getKind() != AffineExprKind::Add) {
    printExpr(os, lhs, bounds, state, /*isOperand=*/true);
    os << (isProduct                                    ? " * "
           : expr.getKind() == AffineExprKind::FloorDiv ? " floordiv "
           : expr.getKind() == AffineExprKind::CeilDiv  ? " ceildiv "
                                                        : " mod ");
    printExpr(os, rhs, bounds, state, /*isOperand=*/true);
    os << (hasParentheses ? ")" : "");
    return;
  }
  // Affine expressions have no subtraction: `a - b` is `a + b * -1`.
  auto product = dyn_cast<AffineBinaryOpExpr>(rhs);
  auto constant = dyn_cast<AffineConstantExpr>(rhs);
  bool isNegated = product && product.getKind() == AffineExprKind::Mul &&
                   product.getRHS() == getAffineConstantExpr(-1, expr.getContext());
  bool isNegative = constant && constant.getValue() < 0;
  printExpr(os, lhs, bounds, state, /*isOperand=*/false);
  os << (isNegated || isNegative ? " - " : " + ");
  printExpr(os, isNegated ? product.getLHS() : isNegative ? -rhs : rhs, bounds, state, isNegated);
  os << (hasParentheses ? ")" : "");
}

static void printInterval(raw_ostream &os, const TileInterval &interval, const LoopBounds &bounds, AsmState &state) {
  auto printList = [&](ArrayRef<AffineExpr> list, StringRef function, StringRef none) {
    if (list.empty())
      os << none;
    if (list.size() > 1)
      os << function << '(';
    llvm::interleaveComma(list, os, [&](AffineExpr expr) { printExpr(os, expr, bounds, state, /*isOperand=*/false); });
    if (list.size() > 1)
      os << ')';
  };
  os << '[';
  printList(interval.begin, "max", "begin");
  os << ", ";
  printList(interval.end, "min", "end");
  os << ')';
  SmallVector<AffineExpr> conditions(interval.conditions);
  conditions.append(interval.rooms);
  if (conditions.empty())
    return;
  os << " if 0 <= ";
  printList(conditions, "min", "");
}

StringRef MaskClass::getName(Kind kind) {
  static constexpr StringLiteral kNames[] = {"exact", "conservative", "opaque"};
  return kNames[kind];
}

void MaskClass::print(raw_ostream &os) const {
  os << getName(kind);
  if (!reason.empty())
    os << ": " << reason;
}

void LoopBounds::print(raw_ostream &os, AsmState &state) const {
  auto printUnion = [&](StringRef name, ArrayRef<TileInterval> intervals) {
    os << name << ' ' << (intervals.empty() ? "nothing" : "");
    llvm::interleave(
        intervals, os, [&](const TileInterval &interval) { printInterval(os, interval, *this, state); }, " or ");
  };
  printUnion("kept", kept);
  printUnion("\ncut", cut);
}
