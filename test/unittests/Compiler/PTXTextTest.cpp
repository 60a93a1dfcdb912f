//===- PTXTextTest.cpp - kernels are joined and taken apart -------------------------------------------------------===//

#include "flashc/Support/PTXText.h"
#include "flashc/Compiler/BuildAttention.h"
#include "flashc/Compiler/Compiler.h"
#include "flashc/InitAll.h"
#include "flashc/Runtime/Manifest.h"
#include "mlir/IR/MLIRContext.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/SourceMgr.h"
#include "gtest/gtest.h"

using namespace flashc;

namespace {

/// A causal kernel with a variant for few queries, and with a kernel before each that sorts the work.
CompiledKernel compileFour() {
  mlir::DialectRegistry registry;
  registerAllDialects(registry);
  mlir::MLIRContext context(registry, mlir::MLIRContext::Threading::DISABLED);
  AttentionSpec spec;
  spec.headDim = spec.valueDim = 128;
  spec.mask = AttentionSpec::Mask::Causal;
  llvm::SourceMgr sources;
  std::string text = llvm::cantFail(printAttention(spec));
  sources.AddNewSourceBuffer(llvm::MemoryBuffer::getMemBufferCopy(text), llvm::SMLoc());
  auto module = parseModule(sources, context);
  CompileOptions options;
  options.pipeline.schedule = "order=list";
  return *compile(**module, options);
}

TEST(PTXText, ComesApartIntoItsKernels) {
  CompiledKernel compiled = compileFour();
  auto kernels = splitPTX(compiled.ptx);
  ASSERT_TRUE(kernels.has_value());
  ASSERT_EQ(kernels->size(), 4u);
  std::vector<std::string> texts;
  llvm::StringSet<> names;
  for (const PTXKernel &kernel : *kernels) {
    texts.push_back(kernel.text);
    names.insert(kernel.name);
    EXPECT_TRUE(llvm::StringRef(kernel.text).contains(".target sm_90a"));
    EXPECT_EQ(llvm::StringRef(kernel.text).count(".entry"), 1u);
    auto alone = splitPTX(kernel.text);
    ASSERT_TRUE(alone.has_value() && alone->size() == 1);
    EXPECT_EQ(alone->front().name, kernel.name);
    EXPECT_EQ(alone->front().text, kernel.text);
  }
  EXPECT_EQ(joinPTX(texts), compiled.ptx);
  Manifest manifest = llvm::cantFail(Manifest::parse(compiled.manifest));
  ASSERT_EQ(manifest.getNumEntries(), 2u);
  for (size_t number : {0, 1}) {
    const ManifestEntry &entry = manifest.getEntry(number);
    ASSERT_EQ(entry.before.size(), 1u);
    EXPECT_TRUE(names.contains(entry.kernel) && names.contains(entry.before.front().kernel)) << entry.kernel;
  }
}

TEST(PTXText, StaysWholeWhereKernelsCannotBeToldApart) {
  std::string directives = ".version 8.0\n.target sm_90a\n.address_size 64\n", begin = "\n\t// .globl\t";
  std::string a = begin + "a\n.visible .entry a()\n{ ret; }\n", b = begin + "b\n.visible .entry b()\n{ ret; }\n";
  EXPECT_TRUE(splitPTX(directives + a + b).has_value());
  EXPECT_FALSE(splitPTX("").has_value());
  EXPECT_FALSE(splitPTX("\x7f"
                        "ELF")
                   .has_value());
  EXPECT_FALSE(splitPTX(a + b).has_value()) << "no directives";
  EXPECT_FALSE(splitPTX(directives).has_value()) << "no kernel";
  EXPECT_FALSE(splitPTX(directives + ".visible .entry a()\n{ ret; }\n").has_value()) << "no comment";
  EXPECT_FALSE(splitPTX(directives + "\n.func f()\n{ ret; }\n" + a).has_value()) << "a function in front";
  EXPECT_FALSE(splitPTX(directives + a + "\n.func f()\n{ ret; }\n" + b).has_value()) << "a function between";
  EXPECT_FALSE(splitPTX(directives + a + ".visible .entry c()\n{ ret; }\n").has_value()) << "two kernels";
  EXPECT_FALSE(splitPTX(directives + a + begin + "b\n.visible .entry bb()\n{ ret; }\n").has_value()) << "another";
}

} // namespace
