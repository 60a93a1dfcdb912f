//===- ScoreDerivativeTest.cpp - each rule against central differences in f64 -------------------------------------===//

#include "flashc/Dialect/Flash/IR/ScoreDerivative.h"
#include "flashc/Dialect/Flash/IR/Flash.h"
#include "flashc/Execution/CPUProgram.h"
#include "flashc/InitAll.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Dominance.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/Parser/Parser.h"
#include "mlir/Transforms/CSE.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/Support/FormatVariadic.h"
#include "gtest/gtest.h"
#include <cmath>
#include <limits>
#include <random>

using namespace mlir;
using namespace flashc;

namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();

/// `code` computes %y, an f64, from %x and %c. The value of %c is 3/4, but the compiler does not know it.
struct Function {
  std::string code;
  std::vector<double> points;
  double step = 1e-5, tolerance = 1e-8;
};

/// Returns the function `%y` = op(x).
Function ofOne(StringRef op, std::vector<double> points) {
  return {llvm::formatv("%y = {0} %x : f64", op), std::move(points)};
}
/// Returns a function that tests both operands of `op`: `%y` is op(x, c) + 3 op(c, x).
Function ofTwo(StringRef op, std::vector<double> points) {
  return {llvm::formatv("%s = {0} %x, %c : f64\n %t = {0} %c, %x : f64\n %y = math.fma %t, %three, %s : f64", op),
          std::move(points)};
}

//===--------------------------------------------------------------------------------------------------------------===//
// The derivative equals the difference quotient
//===--------------------------------------------------------------------------------------------------------------===//

const std::vector<Function> kFunctions = {
    // Arithmetic
    ofOne("arith.negf", {-1, 2}),
    ofTwo("arith.addf", {-1, 2}),
    ofTwo("arith.subf", {-1, 2}),
    ofTwo("arith.mulf", {-1, 2}),
    ofTwo("arith.divf", {-1, 2}),
    ofTwo("arith.remf", {-1.1, 0.7, 2}),
    {"%y = arith.divf %x, %three : f64", {-1, 2}},
    {"%y = arith.mulf %x, %x : f64", {-1, 0, 2}},
    {"%y = arith.subf %x, %x : f64", {-1, 2}},
    {"%y = arith.addf %c, %c : f64", {-1, 2}},
    {"%a = arith.mulf %x, %x : f64\n %b = arith.addf %a, %c : f64\n %y = arith.divf %x, %b : f64", {-1, 2}},
    {"%a = arith.addf %x, %c : f64\n %y = math.fma %a, %x, %x : f64", {-1, 2}},
    {"%a = arith.truncf %x : f64 to f32\n %b = arith.mulf %a, %a : f32\n %y = arith.extf %b : f32 to f64",
     {-1, 2},
     1e-2,
     1e-4},
    {"%a = arith.truncf %x : f64 to f16\n %b = math.exp %a : f16\n %d = arith.truncf %c : f64 to f16\n"
     "%e = arith.mulf %b, %d : f16\n %y = arith.extf %e : f16 to f64",
     {-1, 1},
     0.125,
     2e-2},
    // Functions that are constant between jumps
    ofOne("math.floor", {-1.5, 0.5}),
    ofOne("math.ceil", {-1.5, 0.5}),
    ofOne("math.trunc", {-1.5, 0.5}),
    ofOne("math.round", {-1.3, 0.3}),
    ofOne("math.roundeven", {-1.3, 0.3}),
    {"%n = arith.fptosi %x : f64 to i32\n %a = arith.sitofp %n : i32 to f64\n %y = arith.mulf %a, %x : f64",
     {-1.5, 2.5}},
    {"%n = arith.fptoui %x : f64 to i32\n %a = arith.uitofp %n : i32 to f64\n %y = arith.mulf %a, %x : f64",
     {1.5, 2.5}},
    {"%d = math.isfinite %x : f64\n %e = math.isinf %x : f64\n %f = math.isnan %x : f64\n %g = math.isnormal %x : f64\n"
     "%h = arith.andi %d, %g : i1\n %i = arith.ori %e, %f : i1\n %j = arith.xori %h, %i : i1\n"
     "%y = arith.select %j, %x, %c : f64",
     {-1.5, 2.5}},
    // Choices (a clamp is max(min(x, y), z), as upstream says)
    {"%p = arith.cmpf olt, %x, %c : f64\n %a = arith.mulf %x, %x : f64\n %y = arith.select %p, %a, %x : f64", {-1, 2}},
    {"%p = arith.cmpf olt, %x, %c : f64\n %y = arith.select %p, %c, %x : f64", {-1, 2}},
    ofTwo("arith.maximumf", {-1, 2}),
    ofTwo("arith.minimumf", {-1, 2}),
    ofTwo("arith.maxnumf", {-1, 2}),
    ofTwo("arith.minnumf", {-1, 2}),
    {"%a = arith.mulf %x, %x : f64\n %b = arith.addf %x, %three : f64\n %y = math.clampf %x to [%c, %b] : f64",
     {-1, 1, 2}},
    {"%a = arith.negf %x : f64\n %y = math.clampf %three to [%x, %a] : f64", {-1, 1, 2, 4}},
    ofOne("math.absf", {-1, 2}),
    ofTwo("math.copysign", {-1, 2}),
    {"%a = arith.negf %c : f64\n %y = math.copysign %x, %a : f64", {-1, 2}},
    // Exponentials and logarithms
    ofOne("math.exp", {-1, 2}),
    ofOne("math.exp2", {-1, 2}),
    ofOne("math.expm1", {-1, 0, 2}),
    ofOne("math.log", {0.5, 2}),
    ofOne("math.log2", {0.5, 2}),
    ofOne("math.log10", {0.5, 2}),
    ofOne("math.log1p", {-0.5, 0, 2}),
    {"%e = math.exp %x : f64\n %y = math.log %e : f64", {-1, 2}},
    {"%e = math.exp %x : f64\n %y = math.log1p %e : f64", {-1, 2}},
    {"%e = math.exp2 %x : f64\n %d = arith.addf %e, %c : f64\n %y = math.log2 %d : f64", {-1, 2}},
    {"%e = math.exp %x : f64\n %d = arith.subf %three, %e : f64\n %y = arith.divf %x, %d : f64", {-1, 2}},
    {"%e = math.exp %x : f64\n %d = arith.subf %e, %c : f64\n %y = arith.divf %x, %d : f64", {-1, 2}},
    {"%e = math.exp %x : f64\n %d = arith.mulf %e, %c : f64\n %f = arith.divf %c, %d : f64\n %y = math.log %f : f64",
     {-1, 2}},
    {"%e = math.exp %x : f64\n %f = math.cos %x : f64\n %d = arith.addf %e, %f : f64\n %y = math.log %d : f64", {0, 2}},
    // Powers
    ofOne("math.sqrt", {0.5, 2}),
    ofOne("math.rsqrt", {0.5, 2}),
    ofOne("math.cbrt", {-2, 0.5}),
    ofTwo("math.powf", {0.5, 2}),
    {"%y = math.powf %x, %x : f64", {0.5, 2}},
    {"%y = math.powf %x, %three : f64", {-0.5, 0, 2}},
    {"%y = math.powf %x, %two : f64", {-0.5, 0, 2}},
    {"%y = math.powf %x, %one : f64", {-0.5, 0, 2}},
    {"%y = math.powf %x, %zero : f64", {0.5, 2}},
    {"%n = arith.constant 3 : i32\n %y = math.fpowi %x, %n : f64, i32", {-0.5, 0, 2}},
    {"%n = arith.fptosi %three : f64 to i32\n %y = math.fpowi %x, %n : f64, i32", {-0.5, 0, 2}},
    {"%l = math.log %x : f64\n %m = arith.mulf %l, %c : f64\n %y = math.exp %m : f64", {0.5, 2}},
    {"%l = math.log2 %x : f64\n %m = arith.mulf %x, %l : f64\n %y = math.exp2 %m : f64", {0.5, 2}},
    {"%l = math.log2 %x : f64\n %m = arith.mulf %l, %l : f64\n %y = math.exp2 %m : f64", {0.5, 2}},
    // Trigonometric and hyperbolic functions
    ofOne("math.sin", {-1, 2}),
    ofOne("math.cos", {-1, 2}),
    {"%s, %d = math.sincos %x : f64\n %a = arith.mulf %s, %three : f64\n %y = arith.addf %a, %d : f64", {-1, 2}},
    ofOne("math.tan", {-1, 0.5}),
    ofOne("math.asin", {-0.9, 0.5}),
    ofOne("math.acos", {-0.9, 0.5}),
    ofOne("math.atan", {-1, 2}),
    ofTwo("math.atan2", {-1, 2}),
    ofOne("math.sinh", {-1, 2}),
    ofOne("math.cosh", {-1, 2}),
    ofOne("math.tanh", {-1, 0, 2}),
    ofOne("math.asinh", {-1, 2}),
    ofOne("math.acosh", {1.5, 3}),
    ofOne("math.atanh", {-0.9, 0.5}),
    ofOne("math.erf", {-1, 0.5}),
    ofOne("math.erfc", {-1, 0.5}),
    // Factors and divisors that can be combined
    {"%a = arith.divf %x, %c : f64\n %t = math.tanh %a : f64\n %y = arith.mulf %c, %t : f64", {-1, 2}},
    {"%a = arith.divf %x, %c : f64\n %b = arith.divf %x, %c : f64\n %d = arith.subf %three, %b : f64\n"
     "%e = math.sin %a : f64\n %f = arith.addf %d, %e : f64\n %y = arith.divf %f, %three : f64",
     {-1, 2}},
    {"%a = math.sin %x : f64\n %b = math.cos %x : f64\n %d = arith.mulf %a, %three : f64\n"
     "%e = arith.mulf %b, %three : f64\n %y = arith.subf %e, %d : f64",
     {-1, 2}},
    {"%a = arith.divf %x, %c : f64\n %b = arith.divf %a, %a : f64\n %d = math.log %x : f64\n"
     "%e = arith.divf %d, %c : f64\n %y = arith.subf %b, %e : f64",
     {0.5, 2}},
    // Control flow
    {"%p = arith.cmpf olt, %x, %c : f64\n %y = scf.if %p -> f64 {\n %a = math.exp %x : f64\n scf.yield %a : f64\n"
     "} else {\n scf.yield %c : f64 }",
     {-1, 2}},
    {"%p = arith.cmpf olt, %x, %c : f64\n %a = arith.mulf %x, %x : f64\n %s, %t, %n = scf.if %p -> (f64, f64, i1) {\n"
     "scf.yield %a, %x, %p : f64, f64, i1\n } else {\n %b = arith.addf %a, %c : f64\n"
     "scf.yield %b, %a, %p : f64, f64, i1 }\n %y = arith.mulf %s, %t : f64",
     {-1, 2}},
    {"%i0 = arith.constant 0 : index\n %i1 = arith.constant 1 : index\n %i3 = arith.constant 3 : index\n"
     "%s, %t, %y = scf.for %i = %i0 to %i3 step %i1 iter_args(%u = %x, %v = %c, %w = %c) -> (f64, f64, f64) {\n"
     "%p = arith.cmpf olt, %x, %c : f64\n %a = scf.if %p -> f64 {\n %b = math.sin %v : f64\n scf.yield %b : f64\n"
     "} else {\n scf.yield %v : f64 }\n %d = arith.mulf %u, %a : f64\n"
     "scf.yield %u, %d, %v : f64, f64, f64 }",
     {-1, 2}},
    {"%i0 = arith.constant 0 : index\n %i1 = arith.constant 1 : index\n %i3 = arith.constant 3 : index\n"
     "%m:2 = scf.for %i = %i0 to %i3 step %i1 iter_args(%v = %x, %n = %i0) -> (f64, index) {\n"
     "%o = scf.for %j = %i0 to %i3 step %i1 iter_args(%u = %v) -> f64 {\n %a = arith.mulf %u, %c : f64\n"
     "%b = math.cos %a : f64\n scf.yield %b : f64 }\n scf.yield %o, %i : f64, index }\n"
     "%k = arith.index_cast %m#1 : index to i32\n %f = arith.sitofp %k : i32 to f64\n %y = arith.mulf %m#0, %f : f64",
     {-1, 2}},
    {"%k = arith.fptosi %x : f64 to i32\n %i = arith.index_cast %k : i32 to index\n"
     "%s:2 = scf.index_switch %i -> f64, f64 case 1 {\n %a = math.exp %x : f64\n scf.yield %a, %c : f64, f64 }\n"
     "case 2 {\n scf.yield %c, %x : f64, f64 }\n default {\n scf.yield %x, %x : f64, f64 }\n"
     "%y = arith.mulf %s#0, %s#1 : f64",
     {-1.5, 1.5, 2.5}},
    {"%s = scf.execute_region -> f64 {\n %a = math.exp %x : f64\n scf.yield %a : f64 }\n"
     "%y = arith.addf %s, %x : f64",
     {-1, 2}},
    // Halves x until it is below c, so that the number of iterations depends on x. The two blocks yield different
    // values.
    {"%l = arith.addf %x, %three : f64\n %h = arith.constant 0.5 : f64\n"
     "%y, %z, %p = scf.while (%u = %one, %v = %x, %w = %c) : (f64, f64, f64) -> (f64, f64, i1) {\n"
     "%q = arith.cmpf ogt, %v, %c : f64\n %a = arith.addf %v, %u : f64\n"
     "scf.condition(%q) %a, %v, %q : f64, f64, i1 } do {\n ^bb0(%u: f64, %v: f64, %q: i1):\n"
     "%d = arith.mulf %v, %h : f64\n %e = math.sin %u : f64\n scf.yield %e, %d, %u : f64, f64, f64 }",
     {-1, 2, 7}},
};

//===--------------------------------------------------------------------------------------------------------------===//
// The derivative is a convention, or difference quotients do not show it
//===--------------------------------------------------------------------------------------------------------------===//

struct Value1 {
  std::string code;
  double point, derivative;
};

const std::vector<Value1> kValues = {
    // Kinks
    {"%y = math.absf %x : f64", 0, 0},
    {"%y = arith.maximumf %x, %zero : f64", 0, 0.5},
    {"%y = arith.minimumf %zero, %x : f64", 0, 0.5},
    {"%y = arith.maxnumf %x, %zero : f64", 0, 0.5},
    {"%y = arith.minnumf %zero, %x : f64", 0, 0.5},
    {"%a = arith.mulf %x, %three : f64\n %y = arith.maximumf %x, %a : f64", 0, 2},
    {"%y = math.clampf %x to [%two, %one] : f64", 1, 0.5},
    {"%y = math.clampf %x to [%two, %one] : f64", 2, 0.5},
    {"%y = math.copysign %x, %c : f64", 0, 0},
    {"%y = math.floor %x : f64", 1, 0},
    // log(1 + exp(x)) has no kink at 0, though this code computes it from two functions that have one.
    {"%a = math.absf %x : f64\n %b = arith.negf %a : f64\n %d = math.exp %b : f64\n %e = math.log1p %d : f64\n"
     "%f = arith.maximumf %x, %zero : f64\n %y = arith.addf %e, %f : f64",
     0, 0.5},
    // NaN as an operand
    {"%n = arith.constant 0x7FF8000000000000 : f64\n %y = arith.maxnumf %x, %n : f64", 1, 1},
    {"%n = arith.constant 0x7FF8000000000000 : f64\n %y = arith.minnumf %n, %x : f64", 1, 1},
    // The branch that is not chosen does not count, though its derivative is infinite.
    {"%p = arith.cmpf ogt, %x, %zero : f64\n %a = math.sqrt %x : f64\n %y = arith.select %p, %a, %zero : f64", 0, 0},
    // Exponentials that are infinite
    {"%a = arith.negf %x : f64\n %b = math.exp %a : f64\n %d = arith.addf %b, %one : f64\n"
     "%y = arith.divf %one, %d : f64",
     -1000, 0},
    {"%a = arith.negf %x : f64\n %b = math.exp %a : f64\n %d = arith.addf %one, %b : f64\n"
     "%y = arith.divf %x, %d : f64",
     -1000, 0},
    {"%b = math.exp %x : f64\n %y = math.log1p %b : f64", 1000, 1},
    {"%b = math.exp2 %x : f64\n %d = arith.addf %b, %one : f64\n %y = math.log2 %d : f64", 2000, 1},
    // Powers of 0
    {"%y = math.powf %x, %c : f64", 0, kInf},
    {"%a = arith.mulf %c, %two : f64\n %y = math.powf %x, %a : f64", 0, 0},
    {"%a = arith.subf %c, %c : f64\n %y = math.powf %x, %a : f64", 0, 0},
    {"%y = math.powf %zero, %x : f64", 2, 0},
    {"%n = arith.constant 0 : i32\n %y = math.fpowi %x, %n : f64, i32", 0, 0},
    {"%e = arith.constant 1.5 : f64\n %l = math.log2 %x : f64\n %m = arith.mulf %e, %l : f64\n"
     "%y = math.exp2 %m : f64",
     0, 0},
};

//===--------------------------------------------------------------------------------------------------------------===//
// One program of all functions
//===--------------------------------------------------------------------------------------------------------------===//

/// A function that takes an array of x and the scalar c, and returns f(x) and f'(x).
constexpr const char *kTemplate = R"mlir(
func.func @f{0}(%xs: tensor<?xf64>, %c: f64) -> (tensor<?xf64>, tensor<?xf64>) {{
  %zero = arith.constant 0.0 : f64
  %one = arith.constant 1.0 : f64
  %two = arith.constant 2.0 : f64
  %three = arith.constant 3.0 : f64
  %r:2 = linalg.generic {{indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>],
                         iterator_types = ["parallel"]} outs(%xs, %xs : tensor<?xf64>, tensor<?xf64>) {{
  ^bb0(%x: f64, %unused: f64):
    {1}
    linalg.yield %y, %y : f64, f64
  } -> (tensor<?xf64>, tensor<?xf64>)
  return %r#0, %r#1 : tensor<?xf64>, tensor<?xf64>
}
)mlir";

class ScoreDerivative : public ::testing::Test {
protected:
  ScoreDerivative() : context(makeRegistry()) {}

  static DialectRegistry makeRegistry() {
    DialectRegistry registry;
    registerAllDialects(registry);
    return registry;
  }

  static std::string getSource(StringRef code, size_t number = 0) {
    return llvm::formatv(kTemplate, number, code).str();
  }

  static Block &getBody(func::FuncOp function) {
    return (*function.getOps<linalg::GenericOp>().begin()).getRegion().front();
  }

  /// Returns a module with all functions and their derivatives.
  template <typename T> OwningOpRef<ModuleOp> makeModule(ArrayRef<T> functions) {
    std::string source;
    for (auto [number, function] : llvm::enumerate(functions))
      source += getSource(function.code, number);
    OwningOpRef<ModuleOp> module = parseSourceString<ModuleOp>(source, &context);
    for (func::FuncOp function : module->getOps<func::FuncOp>()) {
      Block &body = getBody(function);
      FailureOr<Value> derivative = flash::differentiate(body, body.getArgument(0));
      EXPECT_TRUE(succeeded(derivative)) << function.getName().str();
      body.getTerminator()->setOperand(1, *derivative);
    }
    return module;
  }

  MLIRContext context;
};

/// f and f' at some points.
struct Values {
  SmallVector<double, 0> of, derivative;
};

Values run(CPUProgram &program, ModuleOp module, size_t number, ArrayRef<double> points) {
  HostTensor arguments[] = {HostTensor(DType::F64, {int64_t(points.size())}), HostTensor(DType::F64, {})};
  arguments[0].forEach([&](int64_t index, void *element) { storeElement(DType::F64, element, points[index]); });
  arguments[1].forEach([&](int64_t, void *element) { storeElement(DType::F64, element, 0.75); });
  auto function = module.lookupSymbol<func::FuncOp>(("f" + Twine(number)).str());
  FailureOr<SmallVector<HostTensor>> results = program.run(function, arguments);
  EXPECT_TRUE(succeeded(results));
  return {(*results)[0].toDoubles(), (*results)[1].toDoubles()};
}

TEST_F(ScoreDerivative, IsTheLimitOfDifferences) {
  OwningOpRef<ModuleOp> module = makeModule(ArrayRef(kFunctions));
  FailureOr<CPUProgram> program = CPUProgram::compile(*module);
  ASSERT_TRUE(succeeded(program));
  for (auto [number, function] : llvm::enumerate(kFunctions))
    for (double x : function.points) {
      double h = function.step;
      Values values = run(*program, *module, number, {x - h, x, x + h});
      double expected = (values.of[2] - values.of[0]) / (2 * h);
      EXPECT_NEAR(values.derivative[1], expected, function.tolerance * (1 + std::abs(expected)))
          << function.code << " at " << x;
    }
}

TEST_F(ScoreDerivative, FollowsConventions) {
  OwningOpRef<ModuleOp> module = makeModule(ArrayRef(kValues));
  FailureOr<CPUProgram> program = CPUProgram::compile(*module);
  ASSERT_TRUE(succeeded(program));
  for (auto [number, value] : llvm::enumerate(kValues))
    EXPECT_EQ(run(*program, *module, number, {value.point}).derivative[0], value.derivative) << value.code;
}

//===--------------------------------------------------------------------------------------------------------------===//
// Random code
//===--------------------------------------------------------------------------------------------------------------===//

/// Returns straight-line code: each op is picked at random, and its operands are values computed before.
std::string makeCode(std::mt19937 &random) {
  const StringRef ofOne[] = {"arith.negf", "math.sin",   "math.cos", "math.tanh", "math.absf",
                             "math.sqrt",  "math.rsqrt", "math.exp", "math.exp2", "math.log",
                             "math.log2",  "math.log1p", "math.erf", "math.floor"};
  const StringRef ofTwo[] = {"arith.addf", "arith.subf",     "arith.mulf",     "arith.divf",   "arith.addf",
                             "arith.subf", "arith.maximumf", "arith.minimumf", "math.atan2",   "math.copysign",
                             "arith.mulf", "arith.divf",     "arith.maxnumf",  "arith.minnumf"};
  auto pick = [&](auto &&list) { return list[random() % std::size(list)]; };
  std::vector<std::string> values = {"%x", "%x", "%c", "%one", "%three"};
  std::string code;
  llvm::raw_string_ostream os(code);
  for (unsigned number = 0; number < 12; ++number) {
    std::string result = number == 11 ? "%y" : llvm::formatv("%v{0}", number).str();
    std::string a = pick(values), b = pick(values), c = pick(values);
    switch (random() % 8) {
    case 0:
    case 1:
    case 2:
      os << llvm::formatv("{0} = {1} {2} : f64\n", result, pick(ofOne), a);
      break;
    case 3:
      os << llvm::formatv("%p{0} = arith.cmpf olt, {1}, {2} : f64\n"
                          "{3} = arith.select %p{0}, {2}, {4} : f64\n",
                          number, a, b, result, c);
      break;
    case 4:
      os << llvm::formatv("%p{0} = arith.cmpf olt, {1}, %x : f64\n"
                          "{2} = scf.if %p{0} -> f64 {{\n %q{0} = math.sin {3} : f64\n scf.yield %q{0} : f64\n"
                          "} else {{\n scf.yield {4} : f64 }\n",
                          number, a, result, b, c);
      break;
    default:
      os << llvm::formatv("{0} = {1} {2}, {3} : f64\n", result, pick(ofTwo), a, b);
    }
    values.push_back(result);
  }
  return code;
}

TEST_F(ScoreDerivative, OfRandomCode) {
  std::mt19937 random(20);
  std::vector<Function> functions;
  for (unsigned number = 0; number < 250; ++number)
    functions.push_back({makeCode(random), {-1.3, 0.4, 2.1}});
  OwningOpRef<ModuleOp> module = makeModule(ArrayRef(functions));
  FailureOr<CPUProgram> program = CPUProgram::compile(*module);
  ASSERT_TRUE(succeeded(program));
  unsigned numCompared = 0;
  for (auto [number, function] : llvm::enumerate(functions))
    for (double x : function.points) {
      constexpr double h = 1e-5;
      Values values = run(*program, *module, number, {x - h, x - h / 2, x, x + h / 2, x + h});
      double far = (values.of[4] - values.of[0]) / (2 * h), near = (values.of[3] - values.of[1]) / h;
      double scale = 1 + std::abs(near), isSmooth = std::abs(far - near) < 1e-6 * scale;
      if (!isSmooth || std::abs(values.of[2]) > 1e4 || std::abs(near) > 1e4) // NaN is never smooth
        continue;
      ++numCompared;
      EXPECT_NEAR(values.derivative[2], near, 1e-5 * scale) << function.code << " at " << x;
    }
  EXPECT_GT(numCompared, 400u);
}

//===--------------------------------------------------------------------------------------------------------------===//
// Ops that have a rule
//===--------------------------------------------------------------------------------------------------------------===//

const StringRef kRefused[] = {"arith.bitcast", "arith.scaling_extf", "arith.scaling_truncf"};

/// Ops that have no derivative because they work on integers or have no operands.
const StringRef kOfIntegers[] = {"arith.addi",       "arith.addui_extended", "arith.andi",
                                 "arith.ceildivsi",  "arith.ceildivui",      "arith.cmpi",
                                 "arith.constant",   "arith.divsi",          "arith.divui",
                                 "arith.extsi",      "arith.extui",          "arith.floordivsi",
                                 "arith.index_cast", "arith.index_castui",   "arith.maxsi",
                                 "arith.maxui",      "arith.minsi",          "arith.minui",
                                 "arith.muli",       "arith.mulsi_extended", "arith.mului_extended",
                                 "arith.ori",        "arith.remsi",          "arith.remui",
                                 "arith.shli",       "arith.shrsi",          "arith.shrui",
                                 "arith.sitofp",     "arith.subi",           "arith.trunci",
                                 "arith.uitofp",     "arith.xori",           "math.absi",
                                 "math.ctlz",        "math.ctpop",           "math.cttz",
                                 "math.ipowi"};

TEST_F(ScoreDerivative, KnowsEveryOperationOfFloats) {
  std::string source;
  for (auto [number, function] : llvm::enumerate(kFunctions))
    source += getSource(function.code, number);
  OwningOpRef<ModuleOp> module = parseSourceString<ModuleOp>(source, &context);
  llvm::StringSet<> known;
  module->walk([&](Operation *op) { known.insert(op->getName().getStringRef()); });
  unsigned numFound = 0;
  for (RegisteredOperationName name : context.getRegisteredOperations()) {
    StringRef op = name.getStringRef();
    if (name.getDialectNamespace() != "arith" && name.getDialectNamespace() != "math")
      continue;
    ++numFound;
    EXPECT_TRUE(known.contains(op) || llvm::is_contained(kRefused, op) || llvm::is_contained(kOfIntegers, op))
        << op.str() << " is in no table of this test";
  }
  EXPECT_GT(numFound, 90u);
}

TEST_F(ScoreDerivative, OfAnyValueOfTheBlock) {
  std::string source = getSource("%a = math.sin %x : f64\n %b = math.exp %a : f64\n %y = arith.mulf %b, %a : f64");
  OwningOpRef<ModuleOp> module = parseSourceString<ModuleOp>(source, &context);
  Block &body = getBody(module->lookupSymbol<func::FuncOp>("f0"));
  FailureOr<Value> derivative = flash::differentiate(body, body.front().getResult(0));
  ASSERT_TRUE(succeeded(derivative));
  body.getTerminator()->setOperand(1, *derivative);
  FailureOr<CPUProgram> program = CPUProgram::compile(*module);
  ASSERT_TRUE(succeeded(program));
  double a = std::sin(0.5);
  EXPECT_NEAR(run(*program, *module, 0, {0.5}).derivative[0], std::exp(a) * (1 + a), 1e-12);
}

/// The score and its derivative are emitted into one block, as in a kernel. The derivative must reuse what the score's
/// code has computed.
TEST_F(ScoreDerivative, SharesTheScoresCode) {
  const std::pair<StringRef, StringRef> scores[] = {
      {"math.tanh", "%a = arith.divf %s, %c : f32\n %t = math.tanh %a : f32\n %y = arith.mulf %t, %c : f32"},
      {"math.exp", "%a = arith.negf %s : f32\n %e = math.exp %a : f32\n %d = arith.addf %e, %c : f32\n"
                   "%y = arith.divf %c, %d : f32"},
      {"math.exp", "%e = math.exp %s : f32\n %p = arith.cmpf olt, %s, %c : f32\n %y = scf.if %p -> f32 {\n"
                   "scf.yield %e : f32\n } else {\n %a = arith.mulf %s, %c : f32\n scf.yield %a : f32 }"},
      {"math.sqrt", "%a = arith.mulf %s, %s : f32\n %d = arith.addf %a, %c : f32\n %y = math.sqrt %d : f32"}};
  for (const auto &shared : scores) {
    StringRef name = shared.first, code = shared.second;
    std::string source = llvm::formatv(R"mlir(
!q = tensor<1x1x8x8xf32>
func.func @f(%q: !q, %lse: tensor<1x1x8xf32>, %c: f32) {{
  %r:3 = flash.attention_backward ins(%q, %q, %q, %q, %lse, %q : !q, !q, !q, !q, tensor<1x1x8xf32>, !q)
      {{scale = 1.0 : f32} score (%s: f32, %b: index, %h: index, %i: index, %j: index) {{
        {0}
        flash.yield %y : f32
      } -> !q, !q, !q
  return
})mlir",
                                       code);
    OwningOpRef<ModuleOp> module = parseSourceString<ModuleOp>(source, &context);
    auto op = *module->lookupSymbol<func::FuncOp>("f").getOps<flash::AttentionBackwardOp>().begin();
    Region &derivative = op.getDerivative();
    ASSERT_TRUE(succeeded(flash::differentiateScore(op.getScore(), derivative)));
    Block &score = op.getScore().front();
    Operation *yield = score.getTerminator();
    OpBuilder b(yield);
    IRMapping mapping;
    mapping.map(derivative.getArguments(), score.getArguments());
    for (Operation &nested : derivative.front().without_terminator())
      b.clone(nested, mapping);
    Value slope = mapping.lookup(derivative.front().getTerminator()->getOperand(0));
    yield->setOperand(0, arith::AddFOp::create(b, op.getLoc(), yield->getOperand(0), slope));
    IRRewriter rewriter(&context);
    DominanceInfo dominance;
    eliminateCommonSubExpressions(rewriter, dominance, op);
    EXPECT_EQ(llvm::count_if(score, [&](Operation &nested) { return nested.getName().getStringRef() == name; }), 1)
        << name.str();
  }
}

} // namespace
