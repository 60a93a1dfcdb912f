//===- GridFormulaTest.cpp ----------------------------------------------------------------------------------------===//

#include "flashc/Runtime/GridFormula.h"
#include "gtest/gtest.h"

using namespace flashc;
using namespace llvm;

namespace {

/// Evaluates a formula for q [2, 8, 1000, 128], a scalar and 132 multiprocessors. Returns the value, or the error's
/// text.
std::string evaluate(StringRef text) {
  int64_t extents[] = {2, 8, 1000, 128};
  ArrayRef<int64_t> shapes[] = {extents, {}};
  Expected<GridFormula> formula = GridFormula::parse(text);
  if (!formula)
    return toString(formula.takeError());
  Expected<int64_t> value = formula->evaluate(shapes, 132);
  return value ? std::to_string(*value) : toString(value.takeError());
}

TEST(GridFormula, Atoms) {
  EXPECT_EQ(evaluate("1"), "1");
  EXPECT_EQ(evaluate(" 65535 "), "65535");
  EXPECT_EQ(evaluate("arg0.dim2"), "1000");
  EXPECT_EQ(evaluate("sm_count"), "132");
}

TEST(GridFormula, Functions) {
  EXPECT_EQ(evaluate("ceildiv(arg0.dim2, 128)"), "8");
  EXPECT_EQ(evaluate("ceildiv(arg0.dim2,125)"), "8");
  EXPECT_EQ(evaluate("mul(arg0.dim0, arg0.dim1)"), "16");
  EXPECT_EQ(evaluate("add(3,4)"), "7");
  EXPECT_EQ(evaluate("min( sm_count , mul(ceildiv(arg0.dim2, 128), mul(arg0.dim1, arg0.dim0)))"), "128");
  EXPECT_EQ(evaluate("min(arg0.dim2, sm_count)"), "132");
}

TEST(GridFormula, IsMadeOfOthersAndWritten) {
  GridFormula tiles = ceilDiv(GridFormula::extent(0, 2) + 1, 128);
  GridFormula formula = min(GridFormula::smCount(), tiles * GridFormula::extent(12, 3) * 8);
  EXPECT_EQ(formula.getText(), "min(sm_count, mul(mul(ceildiv(add(arg0.dim2, 1), 128), arg12.dim3), 8))");
  EXPECT_EQ(cantFail(GridFormula::parse(formula.getText())).getText(), formula.getText());
}

TEST(GridFormula, RefusesWhatIsNoFormula) {
  EXPECT_EQ(evaluate(""),
            "grid formula '': expected an integer, argK.dimN, sm_count, ceildiv, mul, min, add, mul64 or add64, "
            "got ''");
  EXPECT_EQ(
      evaluate("max(1, 2)"),
      "grid formula 'max(1, 2)': expected an integer, argK.dimN, sm_count, ceildiv, mul, min, add, mul64 or add64, "
      "got 'max(1, 2)'");
  EXPECT_EQ(evaluate("mul(1)"), "grid formula 'mul(1)': expected ',', got ')'");
  EXPECT_EQ(evaluate("mul(1, 2"), "grid formula 'mul(1, 2': expected ')', got ''");
  EXPECT_EQ(evaluate("1 2"), "grid formula '1 2': expected the end, got '2'");
  EXPECT_EQ(evaluate("arg0"), "grid formula 'arg0': expected '.dim', got ''");
  EXPECT_EQ(evaluate("argx.dim0"), "grid formula 'argx.dim0': expected an integer, got 'x.dim0'");
}

/// The value of a formula of bytes may exceed 32 bits, since kernels count bytes in 64 bits.
TEST(GridFormula, CountsBytesIn64Bits) {
  EXPECT_EQ(evaluate("mul64(65536, 32768)"), "2147483648");
  EXPECT_EQ(evaluate("add64(2147483647, 1)"), "2147483648");
  EXPECT_EQ(evaluate("add64(mul64(4, mul(2147483647, 1)), 16)"), "8589934604");
  EXPECT_EQ(evaluate("ceildiv(mul64(mul64(2147483647, 2147483647), 2), 4)"), "2305843007066210305");
  EXPECT_EQ(evaluate("mul64(4, mul(65536, 32768))"), "grid formula: expected values below 2^31");
  EXPECT_EQ(evaluate("mul64(9223372036854775807, 2)"), "grid formula: expected values below 2^63");
  EXPECT_EQ(evaluate("add64(9223372036854775807, 1)"), "grid formula: expected values below 2^63");
  GridFormula bytes = add64(mul64(4, GridFormula::extent(0, 2)), 16);
  EXPECT_EQ(bytes.getText(), "add64(mul64(4, arg0.dim2), 16)");
  EXPECT_EQ(cantFail(GridFormula::parse(bytes.getText())).getText(), bytes.getText());
}

TEST(GridFormula, RefusesWhatHasNoValue) {
  EXPECT_EQ(evaluate("arg0.dim4"), "grid formula: no dimension arg0.dim4");
  EXPECT_EQ(evaluate("arg1.dim0"), "grid formula: no dimension arg1.dim0");
  EXPECT_EQ(evaluate("arg2.dim0"), "grid formula: no dimension arg2.dim0");
  EXPECT_EQ(evaluate("ceildiv(1, 0)"), "grid formula: division by zero");
  EXPECT_EQ(evaluate("mul(9223372036854775807, 2)"), "grid formula: expected values below 2^31");
  EXPECT_EQ(evaluate("min(sm_count, mul(65536, 32768))"), "grid formula: expected values below 2^31");
  EXPECT_EQ(evaluate("min(sm_count, add(2147483647, 1))"), "grid formula: expected values below 2^31");
}

} // namespace
