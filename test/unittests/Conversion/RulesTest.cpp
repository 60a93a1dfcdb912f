//===- RulesTest.cpp ----------------------------------------------------------------------------------------------===//

#include "flashc/Schedule/Rules.h"
#include "flashc/Target/Hopper.h"
#include "llvm/Support/MemoryBuffer.h"
#include "gtest/gtest.h"

using namespace flashc;
using llvm::StringRef;

namespace {

/// The fields of a schedule, each with legal and illegal values.
const std::pair<StringRef, std::vector<StringRef>> kValues[] = {
    {"consumers", {"0", "1", "2", "3", "4", "5"}},
    {"kv-tile", {"0", "8", "16", "64", "128", "256", "272"}},
    {"stages", {"0", "1", "2", "8", "65"}},
    {"ping-pong", {"true", "false"}},
    {"persistent", {"true", "false"}},
    {"q-stages", {"0", "1", "2", "4", "65"}},
    {"epilogue", {"plain", "product", "softmax"}},
    {"tensor-sums", {"true", "false"}},
    {"store", {"registers", "q-slot", "own-slot"}},
    {"wait-after", {"-1", "0", "8", "200"}},
    {"max", {"running", "unified"}},
    {"own-keys", {"true", "false"}},
    {"heads", {"1", "3"}},
    {"splits", {"0", "1", "3", "65"}},
    {"split-gradients", {"none", "queries", "each"}},
};

/// Returns four questions to the schedule table. For each of them but `wide`, many values of the fields are legal.
std::vector<Question> makeKeys() {
  Question plain;
  plain.dtype = "bf16";
  plain.d = plain.dv = 64;
  plain.group = 3;
  plain.mask = MaskClass::Several;
  plain.outputs.hasLse = false;
  Question bounded = plain, listed = plain, wide = plain;
  bounded.rows = RowsClass::Bounded;
  bounded.score = ScoreClass::Bounded;
  listed.rows = RowsClass::Listed;
  listed.hasSlopes = true;
  wide.dv = 96;
  wide.outputs = {/*hasLse=*/true, /*hasInputType=*/false};
  return {plain, bounded, listed, wide};
}

/// Applies `overrides` to the row. Returns the error, or an empty text.
std::string refuse(const ScheduleRow &row, const Question &key, const std::string &overrides) {
  llvm::Expected<Schedule> schedule = applyRow(row, key, overrides);
  if (!schedule)
    return llvm::toString(schedule.takeError());
  // The schedule that was chosen fits the hardware, and parsing its text gives the same schedule.
  EXPECT_EQ(llvm::toString(checkSchedule(*schedule, kHopper, key.d, key.dv)), "") << overrides;
  Schedule again(schedule->kind);
  EXPECT_EQ(llvm::toString(overrideSchedule(again, schedule->str())), "");
  EXPECT_EQ(again, *schedule);
  return "";
}

/// Whether `message` is about `field`: it has the field's name, or is about one of the hardware's budgets, which many
/// fields share.
bool isAbout(StringRef message, StringRef field) {
  return message.contains(field) || message.contains("shared memory") || message.contains("registers per");
}

/// Sets every pair of fields to every pair of values. The pair either becomes a schedule that fits, or it is refused.
/// If both values are accepted alone, the message of the refusal must name both fields.
TEST(Rules, AllPairsOfFieldsFitOrAreRefusedByName) {
  ScheduleTable table = llvm::cantFail(ScheduleTable::parse("rows=listed: stages=2,kv-tile=64\n: stages=2", "t"));
  for (auto [index, key] : llvm::enumerate(makeKeys())) {
    const ScheduleRow &row = table.getRows()[key.rows == RowsClass::Listed ? 0 : 1];
    for (const auto &[first, values] : kValues)
      for (const auto &[second, others] : kValues)
        for (StringRef value : values)
          for (StringRef other : first == second ? std::vector<StringRef>() : others) {
            std::string one = (first + "=" + value).str(), two = (second + "=" + other).str();
            std::string message = refuse(row, key, one + "," + two);
            if (message.empty() || !refuse(row, key, one).empty() || !refuse(row, key, two).empty())
              continue;
            EXPECT_TRUE(isAbout(message, first) && isAbout(message, second))
                << "attention " << index << ", " << one << "," << two << ": " << message;
          }
  }
}

TEST(Rules, KnowsTheFieldsOfEachKindOfKernel) {
  // kValues has one field more than a schedule of the forward pass: `split-gradients`, which only the backward pass
  // has.
  EXPECT_EQ(Schedule().getFields().size() + 1, std::size(kValues));
  EXPECT_EQ(Schedule(KernelKind::Decode).str(), "warps=8,stages=2,splits=1,chunk=0,merge=cluster");
  ScheduleTable table = llvm::cantFail(ScheduleTable::parse("kind=column-sums: stages=2", "t"));
  Question key;
  key.kind = KernelKind::ColumnSums;
  key.d = 64;
  EXPECT_EQ(refuse(table.getRows().front(), key, "max=unified,tensor-sums=true"),
            "expected no max for kind=column-sums: it is a field of kind=forward");
  EXPECT_EQ(refuse(table.getRows().front(), key, "split-gradients=each"),
            "expected no split-gradients for kind=column-sums: it is a field of kind=backward");
  EXPECT_EQ(refuse(table.getRows().front(), key, "splits=2"),
            "expected no splits for kind=column-sums: it is a field of kind=forward or decode");
  EXPECT_EQ(refuse(table.getRows().front(), key, "q-stages=2"), "");
}

TEST(Rules, SharesTilesOnlyWithinAGroup) {
  ScheduleTable table = llvm::cantFail(ScheduleTable::parse(": stages=2", "t"));
  Question key = makeKeys().front();
  EXPECT_EQ(refuse(table.getRows().front(), key, "heads=3"), "");
  EXPECT_EQ(refuse(table.getRows().front(), key, "heads=2"),
            "expected heads to be at most 64 and to divide the group of 3 query heads that share a key head, got 2");
  key.group = 128;
  EXPECT_EQ(
      refuse(table.getRows().front(), key, "heads=128"),
      "expected heads to be at most 64 and to divide the group of 128 query heads that share a key head, got 128");
  key.hasDropout = true;
  EXPECT_EQ(refuse(table.getRows().front(), key, "heads=2"), "expected heads=1 with dropout, got 2");
  key.hasDropout = false;
  key.loops.hasSegments = true;
  EXPECT_EQ(refuse(table.getRows().front(), key, "heads=2,store=own-slot"),
            "expected store=registers for tiles of several heads that begin at packed sequences, got store=own-slot");
}

TEST(Rules, SaysWhatDecided) {
  ScheduleTable table = llvm::cantFail(ScheduleTable::parse(": q-stages=2,epilogue=product", "t"));
  llvm::SmallVector<FieldReason> reasons;
  llvm::cantFail(applyRow(table.getRows().front(), makeKeys().front(), "persistent=false", &reasons).takeError());
  EXPECT_TRUE(llvm::is_contained(reasons, FieldReason("epilogue", "overrides leave one slot of Q")));
}

/// The page must list the rules exactly as they are: if this test fails, write the expected text into the page.
TEST(Rules, ArePartOfThePage) {
  auto page = llvm::MemoryBuffer::getFile(FLASHC_DOCS "/schedules.md");
  ASSERT_TRUE(bool(page));
  for (KernelKind kind : {KernelKind::Forward, KernelKind::Decode})
    EXPECT_TRUE((*page)->getBuffer().contains(describeRules(kind))) << describeRules(kind);
}

} // namespace
