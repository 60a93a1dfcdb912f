//===- ScheduleTest.cpp -------------------------------------------------------------------------------------------===//

#include "flashc/Schedule/Rules.h"
#include "flashc/Target/Hopper.h"
#include "mlir/IR/MLIRContext.h"
#include "gtest/gtest.h"

using namespace flashc;
using llvm::StringRef;
using mlir::MLIRContext;

namespace {

Schedule parse(StringRef overrides) {
  Schedule schedule;
  llvm::cantFail(overrideSchedule(schedule, overrides));
  return schedule;
}

TEST(Schedule, ReadsWhatItPrints) {
  Schedule schedule = parse("consumers=3,kv-tile=96,stages=5,"
                            "ping-pong=false,persistent=false,q-stages=2,epilogue=softmax,tensor-sums=true,"
                            "store=own-slot,wait-after=12,max=unified,own-keys=true,heads=2,splits=3");
  EXPECT_EQ(parse(schedule.str()), schedule);
  MLIRContext context;
  EXPECT_EQ(llvm::cantFail(Schedule::get(schedule.getAttr(&context))), schedule);
  // Each field of `schedule` differs from its initial value, so that the checks above cover every field.
  for (auto [field, initial] : llvm::zip(schedule.getFields(), Schedule().getFields())) {
    std::string overrides = (field.first + "=" + field.second).str();
    EXPECT_EQ(field.first, initial.first);
    EXPECT_FALSE(parse(overrides) == Schedule()) << overrides;
  }
}

TEST(Schedule, LetsFieldsFollowTheConsumers) {
  EXPECT_FALSE(parse("consumers=1").pingPong);
  EXPECT_TRUE(parse("ping-pong=true,consumers=1").pingPong);
}

TEST(Schedule, SharesTheRegistersAmongTheRoles) {
  for (KernelKind kind : {KernelKind::Forward, KernelKind::Backward}) {
    for (auto [consumers, producer, consumer] : {std::tuple(1, 24, 240), {2, 24, 240}, {3, 32, 160}, {4, 32, 112}}) {
      Schedule schedule(kind);
      schedule.consumers = consumers;
      EXPECT_EQ(schedule.getRegisters().producer, producer);
      EXPECT_EQ(schedule.getRegisters().consumer, consumer);
      ScheduleNeeds needs = getScheduleNeeds(schedule, kHopper, 64, 64);
      EXPECT_LE(needs.ctaRegisters, needs.mostRegisters);
    }
  }
  // The reducer gets the registers that remain. They are enough with two consumers, and too few with three.
  Schedule schedule(KernelKind::Backward);
  schedule.splitGradients = SplitGradients::None;
  EXPECT_EQ(schedule.getRegisters().producer, 32);
  EXPECT_EQ(schedule.getRegisters().consumer, 208);
  schedule.consumers = 3;
  EXPECT_EQ(llvm::toString(checkSchedule(schedule, kHopper, 64, 64)),
            "expected at most 61440 registers per CTA, got 72704");
}

TEST(Schedule, KnowsWhatIsOverridden) {
  EXPECT_TRUE(hasOverride("kv-tile=64, q-stages=1", "q-stages"));
  EXPECT_FALSE(hasOverride("kv-tile=64,q-stages=1", "stages"));
  EXPECT_FALSE(hasOverride("", "stages"));
}

TEST(Schedule, SaysWhatItNeedsAndWhatThereIs) {
  ScheduleNeeds needs = getScheduleNeeds(parse("stages=3"), kHopper, 192, 128);
  EXPECT_EQ(needs.sharedMemoryBytes, 296064);
  EXPECT_EQ(needs.ctaRegisters, 128 * (24 + 2 * 240));
  EXPECT_EQ(needs.tileRegisters, 64 + 64 + 32 + 32);
  EXPECT_EQ(llvm::toString(checkSchedule(parse("stages=3"), kHopper, 192, 128)),
            "expected at most 232448 bytes of shared memory, got 296064");
  EXPECT_EQ(llvm::toString(checkSchedule(parse("epilogue=product,store=q-slot"), kHopper, 64, 64)),
            "expected q-stages of 2 or store=own-slot for epilogue=product with store=q-slot, got 1");
  EXPECT_EQ(llvm::toString(checkSchedule(parse("epilogue=product,store=own-slot"), kHopper, 64, 64)), "");
  EXPECT_EQ(llvm::toString(checkSchedule(parse("max=unified,tensor-sums=true"), kHopper, 64, 64)), "");
  EXPECT_EQ(llvm::toString(checkSchedule(parse("max=unified"), kHopper, 64, 64)),
            "expected tensor-sums for max=unified");
  EXPECT_EQ(llvm::toString(checkSchedule(parse("epilogue=product,persistent=false"), kHopper, 64, 64)),
            "expected persistent for epilogue=product");
  EXPECT_EQ(llvm::toString(checkSchedule(parse("epilogue=softmax"), kHopper, 64, 64)), "");
  // store=own-slot needs a slot of 64 rows for each consumer, and no barriers.
  EXPECT_EQ(getScheduleNeeds(parse("store=own-slot"), kHopper, 64, 128).sharedMemoryBytes,
            getScheduleNeeds(parse(""), kHopper, 64, 128).sharedMemoryBytes + 2 * 2 * 64 * 128);
  // The backward pass keeps one more operand resident, V or the gradient of O, and each stage also holds two numbers
  // for every query. The operand and the numbers have barriers, too.
  EXPECT_EQ(getScheduleNeeds(Schedule(KernelKind::Backward), kHopper, 64, 128).sharedMemoryBytes,
            getScheduleNeeds(parse(""), kHopper, 64, 128).sharedMemoryBytes + 2 * (2 * 64 * 128 + 2 * 8) +
                2 * (2 * 4 * 128 + 2 * 8));
  // Slopes need 32 bytes for each of the 64 rows of a consumer and for each of the 128 columns.
  EXPECT_EQ(getScheduleNeeds(parse(""), kHopper, 64, 128, {/*isSorted=*/false, /*hasSlopes=*/true}).sharedMemoryBytes,
            getScheduleNeeds(parse(""), kHopper, 64, 128).sharedMemoryBytes + 32 * (2 * 64 + 128));
  EXPECT_TRUE(canAddSlopes(parse(""), kHopper, 64, 64));
  EXPECT_FALSE(canAddSlopes(parse("max=unified,tensor-sums=true"), kHopper, 64, 64));
  EXPECT_FALSE(canAddSlopes(parse("stages=3"), kHopper, 128, 128));
  EXPECT_FALSE(canAddSlopes(Schedule(KernelKind::Backward), kHopper, 64, 64));
  EXPECT_EQ(llvm::toString(checkSchedule(parse("own-keys=true"), kHopper, 64, 64)), "");
  EXPECT_EQ(llvm::toString(checkSchedule(parse("own-keys=true,q-stages=2,epilogue=product"), kHopper, 64, 64)),
            "expected epilogue=plain for own-keys: the next tile's first product would run before this tile passes its "
            "turn on");
}

TEST(Schedule, RefusesWordsThatNoFieldHas) {
  auto refuse = [](StringRef overrides) {
    Schedule schedule;
    return llvm::toString(overrideSchedule(schedule, overrides));
  };
  EXPECT_EQ(refuse("max=none"), "expected running or unified for 'max', got 'none'");
  EXPECT_EQ(refuse("stages=-"), "expected an integer for 'stages', got '-'");
  EXPECT_EQ(refuse("chunk=-16"), "expected a number of at least 0 for 'chunk', got '-16'");
}

} // namespace
