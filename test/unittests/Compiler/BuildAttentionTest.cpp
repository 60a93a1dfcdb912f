//===- BuildAttentionTest.cpp - the text of an attention ----------------------------------------------------------===//

#include "flashc/Compiler/BuildAttention.h"
#include "flashc/Compiler/Compiler.h"
#include "flashc/Dialect/Flash/IR/Flash.h"
#include "flashc/InitAll.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/DialectRegistry.h"
#include "mlir/IR/MLIRContext.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/SourceMgr.h"
#include "gtest/gtest.h"

#include <cmath>
#include <cstring>

using namespace flashc;
using namespace mlir;
using Mask = AttentionSpec::Mask;

namespace {

AttentionSpec makeSpec() {
  AttentionSpec spec;
  spec.headDim = 128;
  spec.valueDim = 64;
  spec.groupSize = 4;
  spec.keyHeads = 2;
  spec.scale = 0.125f;
  return spec;
}

/// The module parsed from a text and verified; `error` gets the diagnostics.
struct Parsed {
  explicit Parsed(StringRef text) {
    DialectRegistry registry;
    registerAllDialects(registry);
    context.appendDialectRegistry(registry);
    ScopedDiagnosticHandler handler(&context, [&](Diagnostic &diagnostic) {
      error += diagnostic.str() + "\n";
      return success();
    });
    llvm::SourceMgr sources;
    sources.AddNewSourceBuffer(llvm::MemoryBuffer::getMemBufferCopy(text), llvm::SMLoc());
    FailureOr<OwningOpRef<ModuleOp>> result = parseModule(sources, context);
    if (succeeded(result))
      module = std::move(*result);
  }

  func::FuncOp getFunction() { return *module->getOps<func::FuncOp>().begin(); }
  flash::AttentionOp getAttention() { return *getFunction().getOps<flash::AttentionOp>().begin(); }
  unsigned count(StringRef name) {
    unsigned number = 0;
    module->walk([&](Operation *op) { number += op->getName().getStringRef() == name; });
    return number;
  }

  MLIRContext context{MLIRContext::Threading::DISABLED};
  OwningOpRef<ModuleOp> module;
  std::string error;
};

std::string print(const AttentionSpec &spec) {
  llvm::Expected<std::string> text = printAttention(spec);
  return text ? *text : "error: " + llvm::toString(text.takeError());
}

/// Expects that the text printed for `spec` parses as a valid program.
void expectGood(const AttentionSpec &spec, llvm::function_ref<void(Parsed &)> check = [](Parsed &) {}) {
  std::string text = print(spec);
  Parsed parsed(text);
  ASSERT_TRUE(parsed.module) << text << parsed.error;
  check(parsed);
}

void expectError(const AttentionSpec &spec, StringRef error) { EXPECT_EQ(print(spec), ("error: " + error).str()); }

TEST(BuildAttention, ColumnSums) {
  AttentionSpec spec = makeSpec();
  spec.valueDim = 0; // column sums have no values
  spec.mask = Mask::Causal;
  for (auto operation : {AttentionSpec::Operation::ColumnSums, AttentionSpec::Operation::GroupColumnSums}) {
    spec.operation = operation;
    expectGood(spec, [&](Parsed &parsed) {
      auto sums = *parsed.getFunction().getOps<flash::ColumnSumsOp>().begin();
      bool isGrouped = operation == AttentionSpec::Operation::GroupColumnSums;
      EXPECT_EQ(sums.getSumGroups(), isGrouped);
      EXPECT_EQ(sums.getOutputType(0).getDimSize(1), isGrouped ? 2 : 8);
      EXPECT_TRUE(sums.hasMask());
      EXPECT_EQ(parsed.count("flash.attention"), 0u);
    });
  }
}

TEST(BuildAttention, Backward) {
  AttentionSpec spec = makeSpec();
  spec.operation = AttentionSpec::Operation::Backward;
  spec.mask = Mask::Causal;
  spec.captures = {{"do", "f32", true, {}}, {"dlse", "f32", true, {}}}; // named as arguments of the backward pass
  spec.scoreCode = "%t = arith.addf %s, %dlse : f32\nflash.yield %t : f32";
  for (bool hasDlse : {true, false}) {
    spec.logSumExp = hasDlse;
    expectGood(spec, [&](Parsed &parsed) {
      std::string type;
      llvm::raw_string_ostream(type) << parsed.getFunction().getFunctionType();
      EXPECT_EQ(type, std::string("(tensor<?x8x?x128xbf16>, tensor<?x2x?x128xbf16>, tensor<?x2x?x64xbf16>, "
                                  "tensor<?x8x?x64xbf16>, tensor<?x8x?xf32>, tensor<?x8x?x64xbf16>") +
                          (hasDlse ? ", tensor<?x8x?xf32>" : "") +
                          ", f32, f32) -> (tensor<?x8x?x128xbf16>, tensor<?x2x?x128xbf16>, tensor<?x2x?x64xbf16>)");
      EXPECT_EQ(parsed.getFunction().getName(), "attention_backward");
      auto op = *parsed.getFunction().getOps<flash::AttentionBackwardOp>().begin();
      EXPECT_EQ(op.getDlse() != nullptr, hasDlse);
      EXPECT_TRUE(op.hasMask() && op.hasScore());
    });
  }
}

TEST(BuildAttention, PrintsSinks) {
  AttentionSpec spec = makeSpec();
  spec.hasSinks = true;
  expectGood(spec, [](Parsed &parsed) {
    EXPECT_TRUE(parsed.getAttention().getSinks());
    EXPECT_EQ(parsed.getFunction().getNumArguments(), 4u);
    std::string type;
    llvm::raw_string_ostream(type) << parsed.getFunction().getArgumentTypes()[3];
    EXPECT_EQ(type, "tensor<8xf32>");
  });
  spec.operation = AttentionSpec::Operation::Backward;
  expectGood(spec, [](Parsed &parsed) { EXPECT_EQ(parsed.getFunction().getNumResults(), 4u); });
  spec.operation = AttentionSpec::Operation::ColumnSums;
  expectError(spec, "expected no sinks for column sums: the log-sum-exp includes them");
  spec.hasSinks = false;
  spec.dropoutP = 0.1f;
  expectError(spec, "expected no dropout for column sums: they sum probabilities before dropout");
}

TEST(BuildAttention, BackwardHasValues) {
  AttentionSpec spec = makeSpec();
  spec.operation = AttentionSpec::Operation::Backward;
  spec.valueDim = 0;
  expectError(spec, "expected value_dim to be positive, got 0");
}

TEST(BuildAttention, PrintsTheShapes) {
  expectGood(makeSpec(), [](Parsed &parsed) {
    std::string type;
    llvm::raw_string_ostream(type) << parsed.getFunction().getFunctionType();
    EXPECT_EQ(type, "(tensor<?x8x?x128xbf16>, tensor<?x2x?x128xbf16>, tensor<?x2x?x64xbf16>) -> "
                    "(tensor<?x8x?x64xbf16>, tensor<?x8x?xf32>)");
    EXPECT_EQ(parsed.getFunction().getName(), "attention");
    EXPECT_FALSE(parsed.getAttention().hasMask());
    EXPECT_FALSE(parsed.getAttention().hasScore());
  });
}

TEST(BuildAttention, PrintsStaticShapes) {
  AttentionSpec spec = makeSpec();
  spec.dtype = "f32";
  spec.batch = 3;
  spec.queries = 5;
  spec.keys = 7;
  expectGood(spec, [](Parsed &parsed) {
    EXPECT_EQ(parsed.getAttention().getQType().getShape(), ArrayRef<int64_t>({3, 8, 5, 128}));
    EXPECT_EQ(parsed.getAttention().getVType().getShape(), ArrayRef<int64_t>({3, 2, 7, 64}));
    EXPECT_TRUE(parsed.getAttention().getQType().getElementType().isF32());
  });
}

TEST(BuildAttention, ReturnsTheLogSumExpOnlyIfAsked) {
  AttentionSpec spec = makeSpec();
  spec.logSumExp = false;
  spec.mask = Mask::Causal;
  expectGood(spec, [](Parsed &parsed) {
    std::string type;
    llvm::raw_string_ostream(type) << parsed.getFunction().getResultTypes();
    EXPECT_EQ(type, "tensor<?x8x?x64xbf16>");
    EXPECT_EQ(parsed.getAttention()->getNumResults(), 2u);
    EXPECT_TRUE(parsed.getAttention()->getResult(1).use_empty());
  });
}

TEST(BuildAttention, LeavesTheNumberOfHeadsOpen) {
  AttentionSpec spec = makeSpec();
  spec.keyHeads = -1;
  expectGood(spec, [](Parsed &parsed) {
    std::string type;
    llvm::raw_string_ostream(type) << parsed.getFunction().getFunctionType();
    EXPECT_EQ(type, "(tensor<?x?x?x128xbf16>, tensor<?x?x?x128xbf16>, tensor<?x?x?x64xbf16>) -> "
                    "(tensor<?x?x?x64xbf16>, tensor<?x?x?xf32>)");
    EXPECT_EQ(parsed.getAttention().getGroup(), 4);
  });
}

TEST(BuildAttention, CausalIsAWindowUpToTheDiagonal) {
  AttentionSpec spec = makeSpec(), window = makeSpec();
  spec.mask = Mask::Causal;
  window.mask = Mask::Window;
  window.windowRight = 0;
  expectGood(spec, [](Parsed &parsed) {
    EXPECT_TRUE(parsed.getAttention().hasMask());
    EXPECT_EQ(parsed.count("arith.cmpi"), 1u);
  });
  EXPECT_EQ(print(spec), print(window));
}

TEST(BuildAttention, WindowHasABoundForEachSideThatIsNotNegative) {
  AttentionSpec spec = makeSpec();
  spec.mask = Mask::Window;
  expectGood(spec, [](Parsed &parsed) { EXPECT_FALSE(parsed.getAttention().hasMask()); });
  spec.windowLeft = 10;
  expectGood(spec, [](Parsed &parsed) {
    EXPECT_EQ(parsed.count("arith.cmpi"), 1u);
    EXPECT_EQ(parsed.count("arith.andi"), 0u);
  });
  spec.windowRight = 3;
  expectGood(spec, [](Parsed &parsed) {
    EXPECT_EQ(parsed.count("arith.cmpi"), 2u);
    EXPECT_EQ(parsed.count("arith.andi"), 1u);
  });
  // A window that is wider than any sequence masks nothing. The MLIR text must not contain its width, which an index of
  // 32 bits could not hold.
  spec.windowLeft = std::numeric_limits<int64_t>::max();
  spec.windowRight = std::numeric_limits<int32_t>::max();
  expectGood(spec, [](Parsed &parsed) { EXPECT_FALSE(parsed.getAttention().hasMask()); });
}

TEST(BuildAttention, JoinsTheCodeToTheWindow) {
  AttentionSpec spec = makeSpec();
  spec.maskCode = "%same = arith.cmpi eq, %i, %j : index\n flash.yield %same : i1";
  expectGood(spec, [](Parsed &parsed) { EXPECT_EQ(parsed.count("arith.andi"), 0u); });
  spec.mask = Mask::Window;
  spec.windowLeft = 7;
  spec.windowRight = 0;
  expectGood(spec, [](Parsed &parsed) {
    EXPECT_EQ(parsed.count("arith.cmpi"), 3u);
    EXPECT_EQ(parsed.count("arith.andi"), 2u);
  });
}

TEST(BuildAttention, CodeAsksForTheLengths) {
  AttentionSpec spec = makeSpec();
  spec.maskCode = "%end = arith.subi %flashc.nk, %flashc.nq : index\n"
                  "%keep = arith.cmpi slt, %j, %end : index\nflash.yield %keep : i1";
  expectGood(spec, [](Parsed &parsed) { EXPECT_EQ(parsed.count("tensor.dim"), 2u); });
  // The window and the code need the same lengths, which are computed only once.
  spec.mask = Mask::Causal;
  expectGood(spec, [](Parsed &parsed) { EXPECT_EQ(parsed.count("tensor.dim"), 2u); });
  spec = makeSpec();
  spec.scoreCode = "%n = arith.index_cast %flashc.nq : index to i32\n%r = arith.sitofp %n : i32 to f32\n"
                   "flash.yield %r : f32";
  expectGood(spec, [](Parsed &parsed) { EXPECT_GE(parsed.count("tensor.dim"), 1u); });
  spec.scoreCode = "flash.yield %s : f32";
  expectGood(spec, [](Parsed &parsed) { EXPECT_EQ(parsed.count("tensor.dim"), 0u); });
}

TEST(BuildAttention, CodeAsksForTheShiftThatTheWindowHas) {
  AttentionSpec spec = makeSpec();
  spec.maskCode = "%i1 = arith.addi %i, %flashc.shift : index\n%keep = arith.cmpi sle, %j, %i1 : index\n"
                  "flash.yield %keep : i1";
  for (Mask mask : {Mask::None, Mask::Causal}) {
    spec.mask = mask;
    expectGood(spec, [](Parsed &parsed) {
      EXPECT_EQ(parsed.count("tensor.dim"), 2u);
      EXPECT_EQ(parsed.count("arith.subi"), 1u);
    });
  }
}

TEST(BuildAttention, LengthsInACacheAreTheSequences) {
  AttentionSpec spec = makeSpec();
  spec.hasCache = true;
  spec.maskCode = "%i1 = arith.addi %i, %flashc.shift : index\n%keep = arith.cmpi slt, %i1, %flashc.nk : index\n"
                  "flash.yield %keep : i1";
  expectGood(spec, [](Parsed &parsed) {
    EXPECT_EQ(parsed.count("tensor.dim"), 1u); // the number of queries
    EXPECT_EQ(parsed.count("tensor.extract"), 1u);
  });
}

TEST(BuildAttention, TakesCodeInAnyLayout) {
  AttentionSpec spec = makeSpec();
  spec.mask = Mask::Causal;
  for (const char *code : {"%x = arith.cmpi eq, %i, %j : index flash.yield %x:i1", "flash.yield %flag : i1\n\n",
                           "// flash.yield %x : i1\n%0 = arith.constant true\n\tflash.yield\n%0\n:\ni1 ",
                           "%x:2 = arith.addui_extended %i, %j : index, i1\nflash.yield %x#1 : i1"}) {
    spec.maskCode = code;
    spec.captures = {{"flag", "i1", true, {}}};
    expectGood(spec);
  }
}

TEST(BuildAttention, CodeReadsCaptures) {
  AttentionSpec spec = makeSpec();
  // The text has values of its own with some of these names. They must not clash with the captures.
  spec.captures = {{"bias", "f32", false, {-1, 8, -1, 300}},
                   {"o", "i1", false, {4}},
                   {"lse", "f32", true, {}},
                   {"scale", "bf16", false, {}},
                   {"c2", "i64", true, {}},
                   {"dim", "i8", false, {1}},
                   {"shift_1", "i32", false, {2}},
                   {"nq", "f16", true, {}}};
  spec.mask = Mask::Causal;
  spec.maskCode = "%keep = tensor.extract %o[%h] : tensor<4xi1>\nflash.yield %keep : i1";
  spec.scoreCode = "%dim2 = tensor.extract %bias[%b, %h, %i, %j] : tensor<?x8x?x300xf32>\n"
                   "%t = arith.mulf %dim2, %lse : f32\n%r = arith.addf %t, %s : f32\nflash.yield %r : f32";
  expectGood(spec, [](Parsed &parsed) {
    FunctionType type = parsed.getFunction().getFunctionType();
    ASSERT_EQ(type.getNumInputs(), 11u);
    std::string text;
    llvm::raw_string_ostream(text) << type.getInput(3) << " " << type.getInput(5) << " " << type.getInput(6);
    EXPECT_EQ(text, "tensor<?x8x?x300xf32> f32 tensor<bf16>");
    EXPECT_TRUE(parsed.getAttention().hasScore());
  });
}

TEST(BuildAttention, ScaleKeepsItsBits) {
  for (float scale :
       {1.0f, -0.0f, 0.0883883461f, 1e30f, 1e-45f, 3.40282347e38f, 16777216.0f, 0.1f, 1.17549435e-38f, -123456.789f}) {
    AttentionSpec spec = makeSpec();
    spec.scale = scale;
    expectGood(spec, [&](Parsed &parsed) {
      float read = parsed.getAttention().getScale().convertToFloat();
      EXPECT_EQ(std::memcmp(&read, &scale, sizeof(float)), 0) << scale << " became " << read;
    });
  }
}

TEST(BuildAttention, ScaleIsReadable) {
  AttentionSpec spec = makeSpec();
  spec.scale = 0.0883883461f;
  EXPECT_NE(print(spec).find("{scale = 0.0883883461 : f32}"), std::string::npos) << print(spec);
}

TEST(BuildAttention, VerifierRefusesScalesThatAreNotFinite) {
  for (float scale : {NAN, INFINITY, -INFINITY}) {
    AttentionSpec spec = makeSpec();
    spec.scale = scale;
    Parsed parsed(print(spec));
    EXPECT_FALSE(parsed.module);
    EXPECT_NE(parsed.error.find("expected a finite scale"), std::string::npos) << parsed.error;
    EXPECT_NE(parsed.error.find("(C7)"), std::string::npos) << parsed.error;
  }
}

TEST(BuildAttention, MarksAttentionInDoublePrecision) {
  AttentionSpec spec = makeSpec();
  spec.dtype = "f32";
  spec.isDouble = true;
  spec.captures = {{"ids", "i32", false, {-1}}};
  expectGood(spec, [](Parsed &parsed) { EXPECT_TRUE(parsed.getFunction()->hasAttr(kDoubleAttr)); });
  spec.captures.push_back({"bias", "bf16", false, {-1}});
  expectError(spec, "expected capture 'bias' of f64 or of integers where dtype is f64, got 'bf16'");
}

TEST(BuildAttention, TakesOptionsByName) {
  AttentionSpec spec = makeSpec();
  EXPECT_FALSE(llvm::errorToBool(spec.setOptions("")));
  EXPECT_FALSE(llvm::errorToBool(spec.setOptions("sinks,dropout_p=0.25,deterministic")));
  EXPECT_TRUE(spec.hasSinks && spec.isDeterministic && spec.dropoutP == 0.25f);
  for (StringRef text : {"sink", "sinks=1", "dropout_p", "dropout_p=much", "sinks,"})
    EXPECT_EQ(llvm::toString(spec.setOptions(text)),
              ("expected options to be among deterministic, packed_queries, sinks, dropout_p=number, got '" +
               (text == "sinks," ? "" : text) + "'")
                  .str());
}

TEST(BuildAttention, NamesTheWrongField) {
  auto refuse = [](llvm::function_ref<void(AttentionSpec &)> change, StringRef error) {
    AttentionSpec spec = makeSpec();
    change(spec);
    expectError(spec, error);
  };
  refuse([](AttentionSpec &spec) { spec.dtype = "f64"; }, "expected dtype to be bf16, f16 or f32, got 'f64'");
  refuse([](AttentionSpec &spec) { spec.headDim = -8; }, "expected head_dim to be positive, got -8");
  refuse([](AttentionSpec &spec) { spec.valueDim = 0; }, "expected value_dim to be positive, got 0");
  refuse([](AttentionSpec &spec) { spec.groupSize = 0; }, "expected group_size to be positive, got 0");
  refuse([](AttentionSpec &spec) { spec.batch = -2; }, "expected batch to be positive or any, got -2");
  refuse([](AttentionSpec &spec) { spec.keyHeads = 0; }, "expected key_heads to be positive or any, got 0");
  refuse([](AttentionSpec &spec) { spec.queries = 0; }, "expected queries to be positive or any, got 0");
  refuse([](AttentionSpec &spec) { spec.keys = 0; }, "expected keys to be positive or any, got 0");
  refuse(
      [](AttentionSpec &spec) {
        spec.keyHeads = int64_t(1) << 40;
        spec.groupSize = int64_t(1) << 40;
      },
      "expected key_heads * group_size to fit 64 bits, got 1099511627776 * 1099511627776");
  refuse(
      [](AttentionSpec &spec) {
        spec.mask = Mask::Window;
        spec.windowLeft = (int64_t(1) << 30) + 1;
      },
      "expected window_left to be at most 1073741824, or negative for no bound, got 1073741825");
}

TEST(BuildAttention, RefusesCaptures) {
  auto refuse = [](std::vector<AttentionSpec::Capture> captures, StringRef error) {
    AttentionSpec spec = makeSpec();
    spec.captures = std::move(captures);
    expectError(spec, error);
  };
  for (StringRef name : {"", "1", "x-y", "_x", "x.y", "%x"})
    refuse({{name.str(), "f32", true, {}}},
           ("expected the name of a capture to be a letter, then letters, digits and underscores, got '" + name + "'")
               .str());
  for (StringRef name : {"q", "k", "v", "b", "h", "i", "j", "s"})
    refuse({{name.str(), "f32", true, {}}},
           ("expected the name of a capture to be none of q, k, v, b, h, i, j, s, got '" + name + "'").str());
  refuse({{"x", "f32", true, {}}, {"x", "f32", true, {}}}, "expected captures of different names, got 'x' twice");
  refuse({{"x", "u8", true, {}}}, "expected capture 'x' to be of bf16, f16, f32, f64, i1, i8, i32 or i64, got 'u8'");
  refuse({{"x", "f32", true, {2}}}, "expected capture 'x', a scalar, to have no extents, got 1");
  refuse({{"x", "f32", false, {2, 0}}}, "expected the extents of capture 'x' to be positive or any, got 0");
}

TEST(BuildAttention, RefusesCodeWithoutYield) {
  for (const char *code : {"%x = arith.cmpi eq, %i, %j : index", "flash.yield %x : f32", "flash.yield %x",
                           "// flash.yield %x : i1", "my.flash.yield %x : i1", "flash.yield % : i1",
                           "flash.yield %x : i1 }", "flash.yield %x : i1 // done", "flash.yield %x, %y : i1"}) {
    AttentionSpec spec = makeSpec();
    spec.maskCode = code;
    expectError(spec, "expected mask_code to end with 'flash.yield %name : i1'");
  }
  AttentionSpec spec = makeSpec();
  spec.scoreCode = "flash.yield %x : i1";
  expectError(spec, "expected score_code to end with 'flash.yield %name : f32'");
}

} // namespace
