//===- MaskBoundsPrinter.cpp - the text of bounds -----------------------------------------------------------------===//

#include "flashc/Analysis/MaskBounds.h"

using namespace mlir;
using namespace mlir::flash;

namespace {
/// The terms of a sum such as `a + b * -3 + 2`. Affine expressions have no subtraction, so negative terms are told
/// apart here.
struct Sum {
  SmallVector<AffineExpr> added, subtracted;
  int64_t constant = 0;

  void add(AffineExpr expr) {
    auto binary = dyn_cast<AffineBinaryOpExpr>(expr);
    if (expr.getKind() == AffineExprKind::Add) {
      add(binary.getLHS());
      add(binary.getRHS());
      return;
    }
    if (auto number = dyn_cast<AffineConstantExpr>(expr)) {
      constant += number.getValue();
      return;
    }
    auto factor =
        expr.getKind() == AffineExprKind::Mul ? dyn_cast<AffineConstantExpr>(binary.getRHS()) : AffineConstantExpr();
    if (factor && factor.getValue() < 0)
      subtracted.push_back(binary.getLHS() * -factor.getValue());
    else
      added.push_back(expr);
  }
};

/// Prints expressions with the names of the bounds' symbols.
class BoundsPrinter {
public:
  BoundsPrinter(raw_ostream &os, const LoopBounds &bounds, PrintValue printValue)
      : os(os), bounds(bounds), printValue(printValue) {}

  void printUnion(StringRef name, ArrayRef<TileInterval> intervals) {
    os << name << ' ' << (intervals.empty() ? "nothing" : "");
    llvm::interleave(intervals, os, [&](const TileInterval &interval) { printInterval(interval); }, " or ");
  }

  /// Prints `max(a, b)`, or the only expression, or `none`.
  void printList(ArrayRef<AffineExpr> list, StringRef function, StringRef none) {
    os << (list.empty() ? none : "") << (list.size() > 1 ? (function + "(").str() : "");
    llvm::interleaveComma(list, os, [&](AffineExpr expr) { print(expr, /*isOperand=*/false); });
    os << (list.size() > 1 ? ")" : "");
  }

private:
  void printInterval(const TileInterval &interval) {
    os << '[';
    printList(interval.begin, "max", "begin");
    os << ", ";
    printList(interval.end, "min", "end");
    os << ')';
    SmallVector<AffineExpr> conditions(interval.conditions);
    conditions.append(interval.rooms);
    os << (conditions.empty() ? "" : " if 0 <= ");
    printList(conditions, "min", "");
  }

  void print(AffineExpr expr, bool isOperand) {
    if (auto constant = dyn_cast<AffineConstantExpr>(expr)) {
      os << constant.getValue();
      return;
    }
    if (auto symbol = dyn_cast<AffineSymbolExpr>(expr))
      return printSymbol(symbol.getPosition());
    Sum sum;
    sum.add(expr);
    bool isSum = sum.added != SmallVector<AffineExpr>{expr};
    bool hasParentheses = isOperand && (isSum || expr.getKind() != AffineExprKind::Mul);
    os << (hasParentheses ? "(" : "");
    if (isSum)
      printSum(sum);
    else
      printBinary(cast<AffineBinaryOpExpr>(expr));
    os << (hasParentheses ? ")" : "");
  }

  void printSymbol(unsigned position) {
    static constexpr StringLiteral kNames[] = {"begin", "end", "i0", "rows"};
    static constexpr StringLiteral kDualNames[] = {"begin", "end", "j0", "keys"};
    if (position < LoopBounds::FirstCaptured) {
      os << (bounds.view == MaskView::Dual ? kDualNames : kNames)[position];
      return;
    }
    const CapturedValue &captured = bounds.captured[position - LoopBounds::FirstCaptured];
    printValue(os, captured.value, captured.at);
  }

  void printBinary(AffineBinaryOpExpr expr) {
    print(expr.getLHS(), /*isOperand=*/true);
    os << (expr.getKind() == AffineExprKind::Mul        ? " * "
           : expr.getKind() == AffineExprKind::FloorDiv ? " floordiv "
           : expr.getKind() == AffineExprKind::CeilDiv  ? " ceildiv "
                                                        : " mod ");
    print(expr.getRHS(), /*isOperand=*/true);
  }

  /// First prints the terms that are added, then those that are subtracted. The constant comes first only if no other
  /// term is added.
  void printSum(const Sum &sum) {
    SmallVector<std::pair<AffineExpr, bool>> terms; // a term, and whether it is subtracted
    for (AffineExpr term : sum.added)
      terms.push_back({term, false});
    for (AffineExpr term : sum.subtracted)
      terms.push_back({term, true});
    bool isConstantFirst = sum.added.empty() && sum.constant > 0;
    if (sum.constant != 0)
      terms.insert(isConstantFirst ? terms.begin() : terms.end(),
                   {getAffineConstantExpr(std::abs(sum.constant), terms[0].first.getContext()), sum.constant < 0});
    StringRef plus = "", minus = "-";
    for (auto [term, isSubtracted] : terms) {
      os << (isSubtracted ? minus : plus);
      print(term, /*isOperand=*/isSubtracted);
      std::tie(plus, minus) = std::pair(" + ", " - ");
    }
  }

  raw_ostream &os;
  const LoopBounds &bounds;
  PrintValue printValue;
};
} // namespace

StringRef MaskClass::getName(Kind kind) {
  static constexpr StringLiteral kNames[] = {"exact", "mapped", "conservative", "opaque"};
  return kNames[kind];
}

void LoopBounds::print(raw_ostream &os, PrintValue printValue) const {
  BoundsPrinter printer(os, *this, printValue);
  printer.printUnion("kept", kept);
  printer.printUnion("\ncut", cut);
  if (!isMoved)
    return;
  os << "\norigin ";
  printer.printList(kept.front().begin, "max", "begin");
}
