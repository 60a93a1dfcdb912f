//===- LaunchInterfaceTest.cpp - what a launch passes, by the function and by the kernel --------------------------===//

#include "flashc/Launch/LaunchInterface.h"
#include "flashc/Compiler/BuildAttention.h"
#include "flashc/Compiler/Compiler.h"
#include "flashc/InitAll.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/DialectRegistry.h"
#include "mlir/IR/MLIRContext.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/SourceMgr.h"
#include "gtest/gtest.h"

using namespace flashc;
using namespace mlir;

namespace {

struct Program {
  explicit Program(StringRef text) {
    DialectRegistry registry;
    registerAllDialects(registry);
    context.appendDialectRegistry(registry);
    llvm::SourceMgr sources;
    sources.AddNewSourceBuffer(llvm::MemoryBuffer::getMemBufferCopy(text), llvm::SMLoc());
    FailureOr<OwningOpRef<ModuleOp>> result = parseModule(sources, context);
    if (succeeded(result))
      module = std::move(*result);
  }

  func::FuncOp getFunction() { return *module->getOps<func::FuncOp>().begin(); }

  MLIRContext context{MLIRContext::Threading::DISABLED};
  OwningOpRef<ModuleOp> module;
};

/// Prints each argument as `name` for an input or `name!` for an output, and then the requirements.
std::string describe(StringRef text) {
  Program program(text);
  if (!program.module)
    return "no module";
  LaunchInterface interface = describeLaunch(program.getFunction());
  std::string result;
  for (const ManifestArgument &info : interface.arguments)
    result += info.name + (info.isOutput ? "! " : " ");
  for (const auto &[first, second] : interface.requirements)
    result += "\n" + first.getText() + " = " + second.getText();
  return result;
}

TEST(LaunchInterface, OfTensors) {
  EXPECT_EQ(describe(R"mlir(
    func.func @f(%slope: f32, %v: tensor<?x?x?x8xf32>, %k: tensor<?x?x9x16xf32>, %q: tensor<2x?x?x16xf32>,
                 %bias: tensor<?xf32> {flash.name = "bias"}) -> (tensor<2x?x?xf32>, tensor<2x?x?x8xf32>) {
      %o, %lse = flash.attention ins(%q, %k, %v : tensor<2x?x?x16xf32>, tensor<?x?x9x16xf32>, tensor<?x?x?x8xf32>)
          {group_size = 3, scale = 1.0 : f32} -> tensor<2x?x?x8xf32>, tensor<2x?x?xf32>
      return %lse, %o : tensor<2x?x?xf32>, tensor<2x?x?x8xf32>
    })mlir"),
            "arg0 v k q bias lse! o! \n"
            "arg3.dim0 = arg2.dim0\n"
            "arg3.dim1 = mul(arg2.dim1, 3)\n"
            "arg2.dim0 = arg1.dim0\n"
            "arg2.dim1 = arg1.dim1\n"
            "arg2.dim2 = arg1.dim2\n"
            "arg3.dim1 = arg6.dim1\n"
            "arg3.dim2 = arg6.dim2\n"
            "arg3.dim1 = arg5.dim1\n"
            "arg3.dim2 = arg5.dim2");
}

TEST(LaunchInterface, OfMemRefsAndSelfAttention) {
  EXPECT_EQ(describe(R"mlir(
    func.func @f(%x: memref<?x2x?x16xf32>, %o: memref<?x2x?x16xf32>, %lse: memref<?x2x?xf32>) {
      flash.attention ins(%x, %x, %x : memref<?x2x?x16xf32>, memref<?x2x?x16xf32>, memref<?x2x?x16xf32>)
          outs(%o, %lse : memref<?x2x?x16xf32>, memref<?x2x?xf32>) {scale = 1.0 : f32}
      return
    })mlir"),
            "q o! lse! \n"
            "arg0.dim0 = arg1.dim0\n"
            "arg0.dim2 = arg1.dim2\n"
            "arg0.dim0 = arg2.dim0\n"
            "arg0.dim2 = arg2.dim2");
}

TEST(LaunchInterface, LooksThroughCasts) {
  EXPECT_EQ(describe(R"mlir(
    func.func @f(%a: tensor<1x2x3x?xf32>, %k: tensor<1x2x4x16xf32>, %v: tensor<1x2x5x16xf32>) -> tensor<?x?x?x?xf32> {
      %q = tensor.cast %a : tensor<1x2x3x?xf32> to tensor<1x2x3x16xf32>
      %w = tensor.cast %v : tensor<1x2x5x16xf32> to tensor<1x2x?x16xf32>
      %o, %lse = flash.attention ins(%q, %k, %w : tensor<1x2x3x16xf32>, tensor<1x2x4x16xf32>, tensor<1x2x?x16xf32>)
          {scale = 1.0 : f32} -> tensor<1x2x3x16xf32>, tensor<1x2x3xf32>
      %r = tensor.cast %o : tensor<1x2x3x16xf32> to tensor<?x?x?x?xf32>
      return %r : tensor<?x?x?x?xf32>
    })mlir"),
            "q k v o! \n"
            "16 = arg0.dim3\n"
            "arg1.dim2 = arg2.dim2\n" // never true: every launch is refused
            "arg0.dim0 = arg3.dim0\n"
            "arg0.dim1 = arg3.dim1\n"
            "arg0.dim2 = arg3.dim2\n"
            "16 = arg3.dim3");
}

TEST(LaunchInterface, OfColumnSums) {
  auto describeSums = [](StringRef attributes) {
    return describe((R"mlir(
      !t = tensor<?x?x?x16xf32>
      func.func @f(%q: !t, %k: !t, %lse: tensor<?x?x?xf32>) -> tensor<?x?x?xf32> {
        %c = flash.column_sums ins(%q, %k, %lse : !t, !t, tensor<?x?x?xf32>)
            {group_size = 3, scale = 1.0 : f32)mlir" +
                     attributes + R"mlir(} -> tensor<?x?x?xf32>
        return %c : tensor<?x?x?xf32>
      })mlir")
                        .str());
  };
  std::string inputs = "q k lse c! \n"
                       "arg0.dim0 = arg1.dim0\n"
                       "arg0.dim1 = mul(arg1.dim1, 3)\n"
                       "arg0.dim0 = arg2.dim0\n"
                       "arg0.dim1 = arg2.dim1\n"
                       "arg0.dim2 = arg2.dim2\n";
  EXPECT_EQ(describeSums(""), inputs + "arg0.dim0 = arg3.dim0\narg0.dim1 = arg3.dim1\narg1.dim2 = arg3.dim2");
  EXPECT_EQ(describeSums(", sum_groups"),
            inputs + "arg1.dim0 = arg3.dim0\narg1.dim1 = arg3.dim1\narg1.dim2 = arg3.dim2");
}

TEST(LaunchInterface, OfPlainOps) {
  EXPECT_EQ(describe(R"mlir(
    func.func @f(%lse: tensor<?x?x?x?xf32>, %o: tensor<?x?x?x?x16xf32>) -> (tensor<?x?x?xf32>, tensor<?x?x?x16xf32>) {
      %0:2 = flash.merge_states ins(%o, %lse : tensor<?x?x?x?x16xf32>, tensor<?x?x?x?xf32>)
          -> tensor<?x?x?x16xf32>, tensor<?x?x?xf32>
      return %0#1, %0#0 : tensor<?x?x?xf32>, tensor<?x?x?x16xf32>
    })mlir"),
            "lse_parts o_parts lse! o! \n"
            "arg1.dim0 = arg0.dim0\n"
            "arg1.dim1 = arg0.dim1\n"
            "arg1.dim2 = arg0.dim2\n"
            "arg1.dim3 = arg0.dim3\n"
            "arg1.dim1 = arg3.dim0\n"
            "arg1.dim2 = arg3.dim1\n"
            "arg1.dim3 = arg3.dim2\n"
            "arg1.dim1 = arg2.dim0\n"
            "arg1.dim2 = arg2.dim1\n"
            "arg1.dim3 = arg2.dim2");
  EXPECT_EQ(describe(R"mlir(
    !x = memref<?x?x?x16xf32>
    func.func @f(%k: !x, %v: !x, %positions: memref<?xi32>, %table: memref<?x?xi32>, %kc: !x, %vc: !x) {
      flash.append_kv ins(%k, %v, %positions : !x, !x, memref<?xi32>) table(%table : memref<?x?xi32>)
          outs(%kc, %vc : !x, !x)
      return
    })mlir"),
            "k v positions table k_cache! v_cache! \n"
            "arg0.dim0 = arg1.dim0\n"
            "arg0.dim1 = arg1.dim1\n"
            "arg0.dim2 = arg1.dim2\n"
            "arg0.dim0 = arg2.dim0\n"
            "arg0.dim0 = arg3.dim0\n"
            "arg0.dim2 = arg4.dim2\n"
            "arg4.dim0 = arg5.dim0\n"
            "arg4.dim1 = arg5.dim1\n"
            "arg4.dim2 = arg5.dim2");
}

/// Returns the manifest's keys `arguments` and `requires`.
std::string getInterface(StringRef manifest) {
  llvm::json::Value value = llvm::cantFail(llvm::json::parse(manifest));
  std::string text;
  llvm::raw_string_ostream os(text);
  for (const char *key : {"arguments", "requires"})
    os << *value.getAsObject()->get(key) << "\n";
  return text;
}

TEST(LaunchInterface, IsTheSameOnBothSides) {
  AttentionSpec spec;
  spec.headDim = spec.valueDim = 64;
  spec.groupSize = 4;
  spec.captures = {{"bias", "f32", false, {-1, -1}}, {"slope", "f32", true, {}}};
  spec.scoreCode = "%x = tensor.extract %bias[%i, %j] : tensor<?x?xf32>\n%t = arith.mulf %x, %slope : f32\n"
                   "flash.yield %t : f32";
  for (int64_t keyHeads : {-1, 2}) {
    spec.keyHeads = keyHeads;
    Program program(llvm::cantFail(printAttention(spec)));
    ASSERT_TRUE(program.module);
    FailureOr<CompiledKernel> gpu = compile(*program.module), cpu = compileForCPU(*program.module, {});
    ASSERT_TRUE(succeeded(gpu) && succeeded(cpu));
    std::string interface = getInterface(cpu->manifest);
    EXPECT_EQ(getInterface(gpu->manifest), interface);
    EXPECT_NE(interface.find("\"name\":\"bias\""), std::string::npos) << interface;
  }
}

} // namespace
