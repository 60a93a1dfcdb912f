//===- GridFormula.cpp - a grid extent as a formula of the arguments' shapes --------------------------------------===//

#include "flashc/Runtime/GridFormula.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringSwitch.h"
#include "llvm/Support/MathExtras.h"

#include <limits>

#include <algorithm>
#include <optional>

using namespace flashc;
using namespace llvm;

namespace flashc {
/// A recursive-descent parser that produces the formula in postfix order.
class GridFormulaParser {
public:
  explicit GridFormulaParser(StringRef text) : text(text), rest(text) {}

  Expected<GridFormula> parse() {
    if (Error error = parseFormula())
      return error;
    rest = rest.ltrim();
    if (!rest.empty())
      return expected("the end");
    return formula;
  }

private:
  using Op = GridFormula::Op;

  Error expected(const Twine &what) {
    return createStringError("grid formula '" + text + "': expected " + what + ", got '" + rest + "'");
  }

  bool consume(char c) {
    rest = rest.ltrim();
    return rest.consume_front(StringRef(&c, 1));
  }

  Error parseInteger(int64_t &value) {
    if (rest.empty() || !isDigit(rest.front()) || rest.consumeInteger(10, value))
      return expected("an integer");
    return Error::success();
  }

  Error parseFormula() {
    rest = rest.ltrim();
    if (!rest.empty() && isDigit(rest.front())) {
      GridFormula::Step step{Op::Constant};
      if (Error error = parseInteger(step.first))
        return error;
      formula.steps.push_back(step);
      return Error::success();
    }
    if (rest.consume_front("sm_count")) {
      formula.steps.push_back({Op::SMCount});
      return Error::success();
    }
    if (rest.starts_with("arg"))
      return parseExtent();
    return parseCall();
  }

  Error parseExtent() {
    GridFormula::Step step{Op::Extent};
    rest.consume_front("arg");
    if (Error error = parseInteger(step.first))
      return error;
    if (!rest.consume_front(".dim"))
      return expected("'.dim'");
    if (Error error = parseInteger(step.second))
      return error;
    formula.steps.push_back(step);
    return Error::success();
  }

  Error parseCall() {
    StringRef name = rest.take_while(isAlnum);
    auto op = StringSwitch<std::optional<Op>>(name)
                  .Case("ceildiv", Op::CeilDiv)
                  .Case("mul", Op::Mul)
                  .Case("min", Op::Min)
                  .Case("add", Op::Add)
                  .Case("mul64", Op::Mul64)
                  .Case("add64", Op::Add64)
                  .Default(std::nullopt);
    if (!op)
      return expected("an integer, argK.dimN, sm_count, ceildiv, mul, min, add, mul64 or add64");
    rest = rest.drop_front(name.size());
    if (!consume('('))
      return expected("'('");
    if (Error error = parseFormula())
      return error;
    if (!consume(','))
      return expected("','");
    if (Error error = parseFormula())
      return error;
    if (!consume(')'))
      return expected("')'");
    formula.steps.push_back({*op});
    return Error::success();
  }

  StringRef text, rest;
  GridFormula formula;
};
} // namespace flashc

Expected<GridFormula> GridFormula::parse(StringRef text) { return GridFormulaParser(text).parse(); }

Expected<int64_t> GridFormula::evaluate(ArrayRef<ArrayRef<int64_t>> shapes, int64_t smCount) const {
  SmallVector<int64_t, 8> stack;
  for (const Step &step : steps) {
    if (step.op == Op::Constant) {
      stack.push_back(step.first);
      continue;
    }
    if (step.op == Op::SMCount) {
      stack.push_back(smCount);
      continue;
    }
    if (step.op == Op::Extent) {
      if (size_t(step.first) >= shapes.size() || size_t(step.second) >= shapes[step.first].size())
        return createStringError("grid formula: no dimension arg" + Twine(step.first) + ".dim" + Twine(step.second));
      stack.push_back(shapes[step.first][step.second]);
      continue;
    }
    int64_t right = stack.pop_back_val(), left = stack.pop_back_val(), value = 0;
    if (step.op == Op::CeilDiv && right == 0)
      return createStringError("grid formula: division by zero");
    bool isProduct = step.op == Op::Mul || step.op == Op::Mul64, isSum = step.op == Op::Add || step.op == Op::Add64;
    bool isOfKernels = step.op == Op::Mul || step.op == Op::Add; // kernels compute these in 32 bits
    if ((isProduct && MulOverflow(left, right, value)) || (isSum && AddOverflow(left, right, value)) ||
        (isOfKernels && value > std::numeric_limits<int32_t>::max()))
      return createStringError(Twine("grid formula: expected values below 2^") + (isOfKernels ? "31" : "63"));
    if (step.op == Op::CeilDiv)
      value = divideCeilSigned(left, right);
    if (step.op == Op::Min)
      value = std::min(left, right);
    stack.push_back(value);
  }
  return stack.back();
}

std::optional<std::pair<unsigned, unsigned>> GridFormula::getExtent() const {
  if (steps.size() != 1 || steps.front().op != Op::Extent)
    return std::nullopt;
  return std::pair<unsigned, unsigned>(steps.front().first, steps.front().second);
}

std::string GridFormula::getText() const {
  SmallVector<std::string, 4> stack;
  for (const Step &step : steps) {
    if (step.op == Op::Constant)
      stack.push_back(std::to_string(step.first));
    else if (step.op == Op::SMCount)
      stack.push_back("sm_count");
    else if (step.op == Op::Extent)
      stack.push_back(("arg" + Twine(step.first) + ".dim" + Twine(step.second)).str());
    else {
      static constexpr StringLiteral names[] = {"ceildiv", "mul", "min", "add", "mul64", "add64"}; // in the order of Op
      std::string right = stack.pop_back_val(), left = stack.pop_back_val();
      StringRef name = names[unsigned(step.op) - unsigned(Op::CeilDiv)];
      stack.push_back((name + "(" + left + ", " + right + ")").str());
    }
  }
  return stack.back();
}

std::string GridFormula::str(function_ref<std::string(unsigned)> describe) const {
  SmallVector<std::string, 4> stack;
  for (const Step &step : steps) {
    if (step.op == Op::Constant || step.op == Op::SMCount) {
      stack.push_back(step.op == Op::Constant ? std::to_string(step.first) : "the number of multiprocessors");
      continue;
    }
    if (step.op == Op::Extent) {
      stack.push_back("dimension " + std::to_string(step.second) + " of " + describe(step.first));
      continue;
    }
    std::string right = stack.pop_back_val(), left = stack.pop_back_val();
    if (step.op == Op::Mul || step.op == Op::Mul64)
      stack.push_back(right + " times " + left);
    else if (step.op == Op::Add || step.op == Op::Add64)
      stack.push_back(left + " plus " + right);
    else if (step.op == Op::Min)
      stack.push_back("the smaller of " + left + " and " + right);
    else
      stack.push_back(left + " by " + right + ", rounded up");
  }
  return stack.back();
}
