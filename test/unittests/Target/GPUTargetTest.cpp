//===- GPUTargetTest.cpp ------------------------------------------------------------------------------------------===//

#include "flashc/Target/GPUTarget.h"
#include "flashc/Target/Ampere.h"
#include "flashc/Target/Hopper.h"
#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/IR/Builders.h"
#include "gtest/gtest.h"

using namespace flashc;
using namespace mlir;

namespace {

TEST(GPUTarget, IsFoundByItsName) {
  EXPECT_EQ(GPUTarget::lookup("sm_90a"), &kHopper);
  EXPECT_EQ(GPUTarget::lookup("sm_80"), &kAmpere);
  EXPECT_EQ(GPUTarget::lookup("sm_90"), nullptr);
  EXPECT_EQ(GPUTarget::lookup(""), nullptr);
  EXPECT_EQ(GPUTarget::getNames(), "sm_90a, sm_80");
  EXPECT_NE(GPUTarget::lookup(kDefaultTarget), nullptr);
}

TEST(GPUTarget, ComputesWhatFollowsFromItsFacts) {
  EXPECT_EQ(kHopper.getPanelCols(), 64);
  EXPECT_EQ(kHopper.getSwizzleRows(), 8);
  EXPECT_EQ(kHopper.countPanels(64), 1);
  EXPECT_EQ(kHopper.countPanels(72), 2);
  EXPECT_EQ(kHopper.getSlotBytes(128, 72), 2 * 128 * 128);
  EXPECT_EQ(kHopper.getStepRowBytes(), 32);
  EXPECT_EQ(kHopper.getOnesBytes(), 2048);
  // By the rule of the programming guide, for three and for five warpgroups.
  EXPECT_EQ(kHopper.getRegistersOfCTA(3 * 128), 64512);
  EXPECT_EQ(kHopper.getRegistersOfCTA(5 * 128), 61440);
}

TEST(GPUTarget, RefusesWhatItsInstructionsCannot) {
  for (int64_t keys : {0, 8, 72, 264, 272})
    EXPECT_FALSE(kHopper.allowsKeys(keys)) << keys;
  for (int64_t keys : {16, 80, 256})
    EXPECT_TRUE(kHopper.allowsKeys(keys)) << keys;
  for (int64_t registers : {16, 28, 264})
    EXPECT_FALSE(kHopper.allowsRegisters(registers)) << registers;
  for (int64_t registers : {24, 112, 256})
    EXPECT_TRUE(kHopper.allowsRegisters(registers)) << registers;
}

struct GPUTargetInIR : testing::Test {
  GPUTargetInIR() { context.loadDialect<gpu::GPUDialect, NVVM::NVVMDialect>(); }

  OwningOpRef<gpu::GPUModuleOp> makeModule(ArrayAttr targets) {
    OpBuilder b(&context);
    return gpu::GPUModuleOp::create(b, b.getUnknownLoc(), "kernels", targets);
  }

  MLIRContext context;
};

TEST_F(GPUTargetInIR, IsThatOfTheModule) {
  auto module = makeModule(kHopper.getAttr(&context));
  EXPECT_EQ(&GPUTarget::of(*module), &kHopper);
  OpBuilder b = OpBuilder::atBlockBegin(module->getBody());
  Operation *kernel = gpu::GPUFuncOp::create(b, b.getUnknownLoc(), "kernel", b.getFunctionType({}, {}));
  EXPECT_EQ(&GPUTarget::of(kernel), &kHopper);
  EXPECT_TRUE(succeeded(GPUTarget::verify(kernel)));
}

TEST_F(GPUTargetInIR, IsTheDefaultWithoutOne) {
  auto module = makeModule(ArrayAttr());
  EXPECT_EQ(GPUTarget::of(*module).name, kDefaultTarget);
  EXPECT_TRUE(succeeded(GPUTarget::verify(*module)));
}

} // namespace
