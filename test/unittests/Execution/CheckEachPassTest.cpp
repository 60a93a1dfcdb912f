//===- CheckEachPassTest.cpp - a pass that changes the numbers is found -------------------------------------------===//

#include "flashc/Execution/CheckEachPass.h"
#include "flashc/Dialect/Flash/IR/Flash.h"
#include "flashc/Dialect/Flash/Transforms/Passes.h"
#include "flashc/InitAll.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/Parser/Parser.h"
#include "mlir/Pass/PassManager.h"
#include "gtest/gtest.h"

using namespace mlir;
using namespace flashc;

namespace {

constexpr StringLiteral kSource = R"mlir(
func.func @attention(%q: tensor<1x1x9x8xbf16>, %k: tensor<1x1x7x8xbf16>, %v: tensor<1x1x7x8xbf16>)
    -> (tensor<1x1x9x8xbf16>, tensor<1x1x9xf32>) {
  %o, %lse = flash.attention ins(%q, %k, %v : tensor<1x1x9x8xbf16>, tensor<1x1x7x8xbf16>, tensor<1x1x7x8xbf16>)
      {scale = 1.000000e+00 : f32} -> tensor<1x1x9x8xbf16>, tensor<1x1x9xf32>
  return %o, %lse : tensor<1x1x9x8xbf16>, tensor<1x1x9xf32>
})mlir";

/// A wrong pass: it makes scores a tenth larger.
struct WrongScale : PassWrapper<WrongScale, OperationPass<ModuleOp>> {
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(WrongScale)
  StringRef getArgument() const final { return "test-wrong-scale"; }
  void runOnOperation() final {
    getOperation().walk([](flash::OnlineAttentionOp op) {
      op.setScaleAttr(FloatAttr::get(op.getScaleAttr().getType(), op.getScaleAttr().getValueAsDouble() * 1.1));
    });
  }
};

/// Runs the pipeline with its checks, and keeps what was printed and diagnosed.
struct CheckedRun {
  CheckedRun(llvm::function_ref<void(OpPassManager &)> build) : context(makeRegistry()) {
    ScopedDiagnosticHandler handler(&context, [&](Diagnostic &diagnostic) { diagnostics += diagnostic.str() + "\n"; });
    OwningOpRef<ModuleOp> module = parseSourceString<ModuleOp>(kSource, &context);
    auto function = module->lookupSymbol<func::FuncOp>("attention");
    auto checker = ModuleChecker::create(*module, function, InputOptions(), /*withReference=*/true);
    if (failed(checker))
      return;
    PassManager pm(&context);
    build(pm);
    llvm::raw_string_ostream os(output);
    passed = succeeded(runAndCheckEachPass(*module, pm, *checker, os));
  }

  static DialectRegistry makeRegistry() {
    DialectRegistry registry;
    registerAllDialects(registry);
    return registry;
  }

  MLIRContext context;
  std::string output, diagnostics;
  bool passed = false;
};

TEST(CheckEachPass, RightPassesPass) {
  CheckedRun run([](OpPassManager &pm) {
    pm.addPass(flash::createOnlineSoftmax());
    pm.addPass(flash::createTile());
  });
  EXPECT_TRUE(run.passed) << run.output << run.diagnostics;
  EXPECT_EQ(StringRef(run.output).count(" PASS\n"), 2u) << run.output;
}

TEST(CheckEachPass, RefusesAPipelineWithoutPasses) {
  CheckedRun run([](OpPassManager &) {});
  EXPECT_FALSE(run.passed);
  EXPECT_NE(StringRef(run.diagnostics).find("nothing to compare: expected passes to check, got none"), StringRef::npos)
      << run.diagnostics;
}

TEST(CheckEachPass, NamesTheFirstWrongPassAndStops) {
  CheckedRun run([](OpPassManager &pm) {
    pm.addPass(flash::createOnlineSoftmax());
    pm.addPass(std::make_unique<WrongScale>());
    pm.addPass(flash::createTile());
  });
  EXPECT_FALSE(run.passed);
  StringRef output = run.output;
  EXPECT_EQ(output.count('\n'), 2u) << run.output;
  auto [first, second] = output.split('\n');
  EXPECT_TRUE(first.starts_with("after flash-online-softmax: @attention: o error ")) << run.output;
  EXPECT_TRUE(first.ends_with(" PASS")) << run.output;
  EXPECT_TRUE(second.starts_with("after test-wrong-scale: @attention: o error ")) << run.output;
  EXPECT_TRUE(second.ends_with(" FAIL\n")) << run.output;
  StringRef expected = "pass 'test-wrong-scale' changed the result of @attention: the error of o was ";
  EXPECT_TRUE(StringRef(run.diagnostics).starts_with(expected)) << run.diagnostics;
}

} // namespace
