//===- HostTensorTest.cpp - number formats, strides, and the rule of right and wrong ------------------------------===//

#include "flashc/Execution/HostTensor.h"
#include "flashc/Execution/Check.h"
#include "gtest/gtest.h"

#include <cmath>

using namespace flashc;

namespace {

double roundTrip(DType dtype, double value) {
  char storage[8];
  storeElement(dtype, storage, value);
  return loadElement(dtype, storage);
}

uint16_t bits(DType dtype, double value) {
  uint16_t storage;
  storeElement(dtype, &storage, value);
  return storage;
}

TEST(Formats, HalfHasItsBits) {
  EXPECT_EQ(bits(DType::F16, 1.0), 0x3C00);
  EXPECT_EQ(bits(DType::F16, -2.5), 0xC100);
  EXPECT_EQ(bits(DType::F16, 65504.0), 0x7BFF);
  EXPECT_EQ(bits(DType::F16, 65520.0), 0x7C00) << "rounds to infinity";
  EXPECT_EQ(bits(DType::F16, 0x1p-24), 0x0001) << "smallest subnormal";
  EXPECT_EQ(bits(DType::F16, 0x1p-14), 0x0400) << "smallest normal";
  EXPECT_EQ(bits(DType::F16, 1.0 + 0x1p-11), 0x3C00) << "ties to even";
  EXPECT_EQ(bits(DType::F16, 1.0 + 3 * 0x1p-11), 0x3C02) << "ties to even";
  for (uint32_t pattern = 0; pattern < 0x7C00; ++pattern) {
    auto half = static_cast<uint16_t>(pattern);
    ASSERT_EQ(bits(DType::F16, loadElement(DType::F16, &half)), half);
  }
}

TEST(Formats, BFloatHasItsBits) {
  EXPECT_EQ(bits(DType::BF16, 1.0), 0x3F80);
  EXPECT_EQ(bits(DType::BF16, 1.0 + 0x1p-8), 0x3F80) << "ties to even";
  EXPECT_EQ(bits(DType::BF16, 1.0 + 3 * 0x1p-8), 0x3F82) << "ties to even";
  EXPECT_EQ(bits(DType::BF16, INFINITY), 0x7F80);
  for (uint32_t pattern = 0; pattern < 0x7F80; ++pattern) {
    auto half = static_cast<uint16_t>(pattern);
    ASSERT_EQ(bits(DType::BF16, loadElement(DType::BF16, &half)), half);
  }
}

TEST(Formats, NaNStaysNaN) {
  for (DType dtype : {DType::BF16, DType::F16, DType::F32, DType::F64})
    EXPECT_TRUE(std::isnan(roundTrip(dtype, NAN)));
}

TEST(HostTensor, PoisonIsNaNAndStridesAreHonoured) {
  HostTensor tensor(DType::BF16, {2, 3}, /*strides=*/{8, 2}, /*offset=*/1);
  for (double value : tensor.toDoubles())
    EXPECT_TRUE(std::isnan(value));
  tensor.forEach([](int64_t index, void *data) { storeElement(DType::BF16, data, double(index)); });
  HostTensor wide = tensor.convert(DType::F64);
  EXPECT_EQ(static_cast<double *>(wide.getBuffer())[1 + 8 + 4], 5.0);
  EXPECT_TRUE(std::isnan(static_cast<double *>(wide.getBuffer())[2])) << "a gap is left alone";
}

TEST(Compare, HoldsTheBound) {
  // The reference is 1.0, and `naive` is off by 1/64. In bf16, 1.0 + 0.3 - 0.3 is 1.0 - 1/256. So the bound is 2/64 +
  // 2/256, which lies between the errors 2/64 and 3/64 of the outputs.
  EXPECT_TRUE(compareOutput("o", DType::BF16, {1.0 + 1.0 / 32}, {1.0 + 1.0 / 64}, {1.0}).passed());
  EXPECT_FALSE(compareOutput("o", DType::BF16, {1.0 + 3.0 / 64}, {1.0 + 1.0 / 64}, {1.0}).passed());
}

TEST(Compare, InfinitiesMatchAndNaNNever) {
  EXPECT_TRUE(compareOutput("lse", DType::F32, {-INFINITY}, {-INFINITY}, {-INFINITY}).passed());
  EXPECT_FALSE(compareOutput("lse", DType::F32, {0.0}, {-INFINITY}, {-INFINITY}).passed());
  EXPECT_FALSE(compareOutput("o", DType::BF16, {NAN}, {1.0}, {1.0}).passed());
  EXPECT_FALSE(compareOutput("o", DType::BF16, {NAN}, {NAN}, {NAN}).passed());
}

} // namespace
