//===- MaskBoundsPrinter.cpp - the text of bounds -----------------------------------------------------------------===//

#include "flashc/Analysis/MaskBounds.h"
#include "mlir/IR/AsmState.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace mlir::flash;

static void printExpr(raw_ostream &os, AffineExpr expr, const LoopBounds &bounds, AsmState &state, bool isOperand);

namespace {
/// `a + b * -3 + 2` as its terms: affine expressions have no subtraction.
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
    bool hasOpposite = factor && factor.getValue() != std::numeric_limits<int64_t>::min();
    if (hasOpposite && factor.getValue() < 0)
      subtracted.push_back(binary.getLHS() * -factor.getValue());
    else
      added.push_back(expr);
  }
};
} // namespace

/// What is subtracted comes behind what is added; a constant first only where nothing else is added.
static void printSum(raw_ostream &os, const Sum &sum, const LoopBounds &bounds, AsmState &state) {
  StringRef plus = "", minus = "-";
  auto print = [&](bool isNegative, auto printTerm) {
    os << (isNegative ? minus : plus);
    printTerm();
    std::tie(plus, minus) = std::pair(" + ", " - ");
  };
  auto printConstant = [&] { os << llvm::AbsoluteValue(sum.constant); };
  for (AffineExpr term : sum.added)
    print(false, [&] { printExpr(os, term, bounds, state, /*isOperand=*/false); });
  bool isConstantFirst = sum.added.empty() && sum.constant > 0;
  if (isConstantFirst)
    print(false, printConstant);
  for (AffineExpr term : sum.subtracted)
    print(true, [&] { printExpr(os, term, bounds, state, /*isOperand=*/true); });
  if (sum.constant != 0 && !isConstantFirst)
    print(sum.constant < 0, printConstant);
}

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
  Sum sum;
  sum.add(expr);
  bool isSum = sum.added != SmallVector<AffineExpr>{expr};
  bool hasParentheses = isOperand && (isSum || expr.getKind() != AffineExprKind::Mul);
  os << (hasParentheses ? "(" : "");
  if (isSum) {
    printSum(os, sum, bounds, state);
  } else {
    auto binary = cast<AffineBinaryOpExpr>(expr);
    printExpr(os, binary.getLHS(), bounds, state, /*isOperand=*/true);
    os << (expr.getKind() == AffineExprKind::Mul        ? " * "
           : expr.getKind() == AffineExprKind::FloorDiv ? " floordiv "
           : expr.getKind() == AffineExprKind::CeilDiv  ? " ceildiv "
                                                        : " mod ");
    printExpr(os, binary.getRHS(), bounds, state, /*isOperand=*/true);
  }
  os << (hasParentheses ? ")" : "");
}

/// Prints `max(a, b)`, or the only expression, or `none`.
static void printList(raw_ostream &os, ArrayRef<AffineExpr> list, StringRef function, StringRef none,
                      const LoopBounds &bounds, AsmState &state) {
  if (list.empty())
    os << none;
  if (list.size() > 1)
    os << function << '(';
  llvm::interleaveComma(list, os, [&](AffineExpr expr) { printExpr(os, expr, bounds, state, /*isOperand=*/false); });
  if (list.size() > 1)
    os << ')';
}

static void printInterval(raw_ostream &os, const TileInterval &interval, const LoopBounds &bounds, AsmState &state) {
  auto printList = [&](ArrayRef<AffineExpr> list, StringRef function, StringRef none) {
    ::printList(os, list, function, none, bounds, state);
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
  if (!isMoved)
    return;
  os << "\norigin ";
  printList(os, kept.front().begin, "max", "begin", *this, state);
}
