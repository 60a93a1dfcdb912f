//===- ValueNames.cpp - formulas for people -----------------------------------------------------------------------===//

#include "ValueNames.h"
#include "flashc/Dialect/Flash/IR/Arguments.h"
#include "flashc/Dialect/Flash/IR/SortedData.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/Matchers.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringSwitch.h"

using namespace mlir;
using namespace flashc;

ValueNames::ValueNames(func::FuncOp function, flash::StepOpInterface tile, std::vector<std::string> arguments)
    : state(function), arguments(std::move(arguments)) {
  // Names for the position of a row of the resident tile: of any row, of the first one, and of the last one. The
  // resident tile has queries or, in the dual view of a mask, keys.
  static constexpr StringLiteral kQueries[] = {"i", "i0", "(i0 + rows - 1)"}, kKeys[] = {"j", "j0", "(j0 + keys - 1)"};
  static constexpr StringLiteral kTile[] = {"b", "h", "i0", "j0"};
  bool isDual = tile.getMaskView() == flash::MaskView::Dual;
  for (auto [names, resident] : llvm::zip_equal(this->names, isDual ? kKeys : kQueries)) {
    for (auto [position, name] : llvm::zip_equal(tile.getPosition(), kTile))
      names[position] = name;
    if (auto segments = tile.getPositionIn(flash::StepDim::I).getDefiningOp<flash::SegmentTileOp>())
      names[segments.getSize()] = "rows";
    StringRef positions[] = {"b", "h", resident, isDual ? "i" : "j"};
    for (auto [argument, name] : llvm::zip(tile.getMask().getArguments(), positions))
      names[argument] = name.str();
    for (auto [argument, name] : llvm::zip(function.getArguments(), this->arguments))
      names[argument] = name;
  }
}

std::string ValueNames::printOperand(Value value) {
  std::string name;
  llvm::raw_string_ostream os(name);
  value.printAsOperand(os, state);
  return name;
}

/// Returns an extent of q, k or v as a letter (such as Nq), and an extent of another argument as extent(name,
/// dimension).
std::string ValueNames::describeExtent(Operation *dim) {
  APInt number;
  BlockArgument argument = flash::getRootArgument(dim->getOperand(0));
  if (!argument || !matchPattern(dim->getOperand(1), m_ConstantInt(&number)) ||
      number.uge(std::min<int64_t>(4, cast<ShapedType>(dim->getOperand(0).getType()).getRank())))
    return printOperand(dim->getResult(0));
  StringRef name = arguments[argument.getArgNumber()];
  static constexpr StringLiteral kQuery[] = {"B", "Hq", "Nq", "D"}, kKey[] = {"B", "Hk", "Nk", "D"};
  if (name == "q" || name == "k" || name == "v")
    return (name == "q" ? kQuery : kKey)[number.getZExtValue()].str();
  return ("extent(" + name + ", " + Twine(number.getZExtValue()) + ")").str();
}

static StringRef getSymbol(Operation *op) {
  return llvm::StringSwitch<StringRef>(op->getName().getStringRef())
      .Case("arith.addi", "+")
      .Case("arith.subi", "-")
      .Case("arith.muli", "*")
      .Cases({"arith.divsi", "arith.divui", "arith.floordivsi"}, "floordiv")
      .Cases({"arith.remsi", "arith.remui"}, "mod")
      .Case("arith.ceildivsi", "ceildiv")
      .Default("");
}

static StringRef getSymbol(arith::CmpIPredicate predicate) {
  static constexpr StringLiteral kSymbols[] = {"==", "!=", "<", "<=", ">", ">=", "u<", "u<=", "u>", "u>="};
  return kSymbols[unsigned(predicate)];
}

static StringRef getFunctionName(Operation *op) {
  return llvm::StringSwitch<StringRef>(op->getName().getStringRef())
      .Cases({"arith.minsi", "arith.minui"}, "min")
      .Cases({"arith.maxsi", "arith.maxui"}, "max")
      .Default(op->getName().stripDialect());
}

/// Joins formulas by commas. Removes the parentheses around each formula.
static std::string joinBare(ArrayRef<std::string> formulas) {
  std::string text;
  llvm::raw_string_ostream os(text);
  llvm::interleaveComma(formulas, os, [&](StringRef formula) {
    os << (formula.starts_with("(") ? formula.drop_front().drop_back() : formula);
  });
  return text;
}

static std::string index(StringRef array, ArrayRef<std::string> indices) {
  return indices.empty() ? array.str() : (array + "[" + joinBare(indices) + "]").str();
}

std::string ValueNames::describeOp(Operation *op, At at) {
  if (isa<tensor::DimOp, memref::DimOp>(op))
    return describeExtent(op);
  SmallVector<std::string> operands;
  for (Value operand : op->getOperands())
    operands.push_back(describe(operand, at));
  if (auto extract = dyn_cast<tensor::ExtractOp>(op))
    if (auto table = extract.getTensor().getDefiningOp<flash::RowTableOp>()) { // the formula of the row
      for (auto [argument, position] : llvm::zip_equal(table.getBody().getArguments(), ArrayRef(operands).drop_front()))
        names[unsigned(at)][argument] = position;
      return describe(table.getValue(), at);
    }
  if (isa<arith::IndexCastOp, arith::IndexCastUIOp, arith::ExtSIOp, arith::ExtUIOp, arith::TruncIOp>(op))
    return operands[0];
  if (isa<tensor::ExtractOp, memref::LoadOp>(op))
    return index(operands[0], ArrayRef(operands).drop_front());
  if (isa<flash::SegmentTileOp>(op)) // the number of the segment that has query i
    return "count_le(i, " + index(operands[1], ArrayRef(operands).drop_front(2).drop_back()) + ")";
  if (auto count = dyn_cast<flash::CountLeOp>(op))
    return (count.getStrict() ? "count_lt(" : "count_le(") + joinBare(operands[0]) + ", " +
           index(operands[1], ArrayRef(operands).drop_front(2)) + ")";
  if (isa<flash::NthOp>(op)) {
    std::rotate(operands.begin(), operands.begin() + 1, operands.end()); // the order: array, leading indices, position
    return index(operands[0], ArrayRef(operands).drop_front());
  }
  if (auto compare = dyn_cast<arith::CmpIOp>(op))
    return "(" + operands[0] + " " + getSymbol(compare.getPredicate()).str() + " " + operands[1] + ")";
  if (isa<arith::AddIOp>(op) && StringRef(operands[1]).starts_with("-"))
    return "(" + operands[0] + " - " + operands[1].substr(1) + ")";
  if (StringRef symbol = getSymbol(op); !symbol.empty())
    return "(" + operands[0] + " " + symbol.str() + " " + operands[1] + ")";
  return getFunctionName(op).str() + "(" + joinBare(operands) + ")";
}

std::string ValueNames::describe(Value value, At at) {
  value = flash::stripTileClamp(value); // the clamp changes nothing for queries and keys that exist
  APInt constant;
  if (matchPattern(value, m_ConstantInt(&constant)))
    return llvm::toString(constant, 10, /*Signed=*/true);
  if (APFloat real(0.0); matchPattern(value, m_ConstantFloat(&real))) {
    SmallString<16> digits;
    real.toString(digits);
    return digits.str().str();
  }
  if (isa<ShapedType>(value.getType()))
    if (BlockArgument argument = flash::getRootArgument(value))
      value = argument;
  auto [entry, isNew] = names[unsigned(at)].try_emplace(value, printOperand(value));
  if (!isNew)
    return entry->second;
  Operation *op = value.getDefiningOp();
  // A tensor, and the result of an op with regions, get an SSA name and no formula.
  if (!op || op->getNumRegions() || op->getNumOperands() == 0 || !value.getType().isIntOrIndexOrFloat())
    return entry->second;
  std::string text = describeOp(op, at);
  return names[unsigned(at)][value] = text;
}
