//===- ScheduleTableTest.cpp --------------------------------------------------------------------------------------===//

#include "flashc/Schedule/Rules.h"
#include "flashc/Target/Hopper.h"
#include "llvm/ADT/StringExtras.h"
#include "gtest/gtest.h"

using namespace flashc;
using namespace llvm;

namespace {

constexpr MaskClass kMasks[] = {MaskClass::None,      MaskClass::Bounds, MaskClass::Several,    MaskClass::Periodic,
                                MaskClass::Constants, MaskClass::Code,   MaskClass::Arithmetic, MaskClass::Memory};

Question makeKey(int64_t d, int64_t dv, MaskClass mask, std::optional<int64_t> queries = std::nullopt) {
  Question key;
  key.dtype = "bf16";
  key.d = d;
  key.dv = dv;
  key.mask = mask;
  key.queries = queries;
  return key;
}

/// Returns, for each row that applies to `key`, the table, the line, and the most queries that the row is for (if there
/// is such a bound). If there is an error, returns the error instead.
std::string find(ArrayRef<const ScheduleTable *> tables, const Question &key, bool mayVary = true) {
  auto rows = findRows(tables, key, mayVary);
  if (!rows)
    return toString(rows.takeError());
  return join(map_range(*rows,
                        [](const RowChoice &choice) {
                          std::string line = choice.row->table + " " + std::to_string(choice.row->line);
                          return choice.maxQueries ? line + " up to " + std::to_string(*choice.maxQueries) : line;
                        }),
              ", ");
}

ScheduleTable parse(StringRef text, StringRef name = "t") { return cantFail(ScheduleTable::parse(text, name)); }

std::string getError(StringRef text) {
  Expected<ScheduleTable> table = ScheduleTable::parse(text, "table");
  return table ? "accepted" : toString(table.takeError());
}

TEST(ScheduleTable, BuiltInHasARowThatFitsForEveryAttention) {
  Expected<ScheduleTable> table = ScheduleTable::parse(ScheduleTable::getBuiltInText(), "built in");
  ASSERT_TRUE(bool(table)) << toString(table.takeError());
  for (int64_t d = 8; d <= 256; d += 8)
    for (int64_t dv = 8; dv <= 256; dv += 8)
      for (MaskClass mask : kMasks) {
        Question key = makeKey(d, dv, mask);
        key.keys = d + dv; // few enough for rows with a limit of keys, if d + dv is small
        key.score = (d + dv) % 16 != 0 ? ScoreClass::Bounded : ScoreClass::None;
        auto rows = findRows(&*table, key, /*mayVary=*/true);
        ASSERT_TRUE(bool(rows)) << toString(rows.takeError());
        for (const RowChoice &choice : *rows) {
          Expected<Schedule> schedule = applyRow(*choice.row, key, /*overrides=*/"");
          ASSERT_TRUE(bool(schedule)) << choice.row->text << ": " << toString(schedule.takeError());
        }
      }
}

/// Returns questions to which `row` may apply.
SmallVector<Question> makeQuestions(const ScheduleRow &row) {
  SmallVector<Question> questions;
  for (StringRef dtype : {"bf16", "f16"})
    for (MaskClass mask : kMasks)
      for (bool isDeterministic : {false, true}) {
        Question &key = questions.emplace_back(
            makeKey(row.d ? row.d->value : 256, row.dv ? row.dv->value : 256, mask, row.maxQueries.value_or(1 << 20)));
        key.kind = row.kind;
        key.dtype = dtype.str();
        key.keys = row.maxKeys;
        key.score = row.score.value_or(ScoreClass::Code);
        key.hasDropout = row.needsDropout;
        key.rows = row.rows.value_or(RowsClass::None);
        key.isDeterministic = isDeterministic;
      }
  return questions;
}

SmallVector<Question> makeCacheQuestions() {
  SmallVector<Question> questions;
  for (int64_t batches : {0, 1, 64, 132, 300, 500, 5000})
    for (int64_t keys : {100, 1 << 20})
      for (int64_t keyBytes : {128, 400, 600, 1000})
        for (bool isWidened : {false, true}) {
          Question &question = questions.emplace_back(makeKey(128, 128, MaskClass::None, 1));
          question.kind = KernelKind::Decode;
          CacheQuestion &cache = question.cache.emplace();
          cache.batches = batches, cache.keyHeads = 1, cache.keys = keys, cache.keyBytes = keyBytes;
          cache.isWidened = isWidened, cache.multiprocessors = 132;
        }
  return questions;
}

TEST(ScheduleTable, BuiltInHasNoRowThatNeverApplies) {
  const ScheduleTable &table = ScheduleTable::getBuiltIn();
  for (const ScheduleRow &row : table.getRows()) {
    auto questions = row.kind == KernelKind::Decode ? makeCacheQuestions() : makeQuestions(row);
    EXPECT_TRUE(any_of(questions,
                       [&](const Question &question) {
                         return cantFail(findRows(&table, question, /*mayVary=*/false)).front().row == &row;
                       }))
        << row.line << ": " << row.text;
  }
}

TEST(ScheduleTable, ReadsRowsAndComments) {
  ScheduleTable table = parse("# all of it\n\n"
                              "  target=sm_90a dtype=f16 queries<=512 mask=code keys<=99 score=bounded rows=bounded "
                              "dv=64 d<=96 : kv-tile=64, stages=3 # few\n"
                              ": consumers=1\n");
  ASSERT_EQ(table.getRows().size(), 2u);
  const ScheduleRow &row = table.getRows()[0];
  EXPECT_EQ(row.line, 3u);
  EXPECT_EQ(row.target, "sm_90a");
  EXPECT_EQ(row.dtype, "f16");
  EXPECT_EQ(row.d->value, 96);
  EXPECT_FALSE(row.d->isExact);
  EXPECT_EQ(row.dv->value, 64);
  EXPECT_TRUE(row.dv->isExact);
  EXPECT_EQ(row.maxQueries, 512);
  EXPECT_EQ(row.mask, MaskClass::Code);
  EXPECT_EQ(row.maxKeys, 99);
  EXPECT_EQ(row.score, ScoreClass::Bounded);
  EXPECT_EQ(row.rows, RowsClass::Bounded);
  EXPECT_EQ(row.getSchedule().kvTile, 64);
  EXPECT_EQ(row.getSchedule().stages, 3);
  EXPECT_EQ(row.text, "target=sm_90a dtype=f16 queries<=512 mask=code keys<=99 score=bounded rows=bounded dv=64 d<=96 "
                      ": kv-tile=64, stages=3");
  EXPECT_FALSE(table.getRows()[1].maxKeys || table.getRows()[1].score);
  EXPECT_EQ(table.getRows()[1].getSchedule().consumers, 1);
  EXPECT_EQ(getError(""), "accepted");
}

TEST(ScheduleTable, SaysWhichLineIsWrong) {
  EXPECT_EQ(getError("#\nd<=64 consumers=2"),
            "table, line 2: expected ':' between the conditions and the schedule, got 'd<=64 consumers=2'");
  EXPECT_EQ(getError("d<=64:"), "table, line 1: expected a schedule after ':', got none");
  EXPECT_EQ(getError("d<=64: stage=2").substr(0, 29), "table, line 1: expected warps");
  EXPECT_EQ(getError("d<=64: stages=x"), "table, line 1: expected an integer for 'stages', got 'x'");
  EXPECT_EQ(getError("d<=0: stages=2"), "table, line 1: expected d<= and a positive integer, got 'd<=0'");
  EXPECT_EQ(getError("d<=64 d<=32: stages=2"), "table, line 1: expected one condition on d, got 'd<=32' too");
  EXPECT_EQ(getError("dv=64 dv<=32: stages=2"), "table, line 1: expected one condition on dv, got 'dv<=32' too");
  EXPECT_EQ(getError("d=x: stages=2"), "table, line 1: expected d= and a positive integer, got 'd=x'");
  EXPECT_EQ(getError("mask=none mask=code: stages=2"),
            "table, line 1: expected one condition on mask, got 'mask=code' too");
  EXPECT_EQ(getError("mask=causal: stages=2"), "table, line 1: expected mask= and none, bounds, several, periodic, "
                                               "code, arithmetic or memory, got 'mask=causal'");
  EXPECT_EQ(getError("kind=sideways: stages=2"),
            "table, line 1: expected kind= and forward, decode, column-sums or backward, got 'kind=sideways'");
  EXPECT_EQ(getError("score=code: stages=2"),
            "table, line 1: expected score= and none, bounded or curved, got 'score=code'");
  EXPECT_EQ(getError("rows=bounded rows=bounded: stages=2"),
            "table, line 1: expected one condition on rows, got 'rows=bounded' too");
  EXPECT_EQ(getError("rows=many: stages=2"), "table, line 1: expected rows= and bounded or listed, got 'rows=many'");
  EXPECT_EQ(getError("rows=listed rows=bounded: stages=2"),
            "table, line 1: expected one condition on rows, got 'rows=bounded' too");
  EXPECT_EQ(getError("score=bounded score=bounded: stages=2"),
            "table, line 1: expected one condition on score, got 'score=bounded' too");
  EXPECT_EQ(getError("dropout=true dropout=true: stages=2"),
            "table, line 1: expected one condition on dropout, got 'dropout=true' too");
  EXPECT_EQ(getError("dropout=0.1: stages=2"), "table, line 1: expected dropout= and true, got 'dropout=0.1'");
  EXPECT_EQ(getError("keys<=2 keys<=3: stages=2"), "table, line 1: expected one condition on keys, got 'keys<=3' too");
  EXPECT_EQ(getError("dtype=f32: stages=2"), "table, line 1: expected dtype= and bf16 or f16, got 'dtype=f32'");
  EXPECT_EQ(getError("target=h100: stages=2"),
            "table, line 1: expected target= and an architecture such as sm_90a, got 'target=h100'");
  for (StringRef condition : {"queries=64", "keys=64", "d<64", "d", "mask<=none", "64"})
    EXPECT_EQ(
        getError((condition + ": stages=2").str()),
        ("table, line 1: expected a condition on kind=, target=, dtype=, d=, d<=, dv=, dv<=, mask=, score=, dropout=, "
         "rows=, keys<= or queries<=, or for kind=decode on bits=, waves>, waves<=, key-bytes<= or cache-mib>=, got '" +
         condition + "'")
            .str());
}

TEST(ScheduleTable, KeepsTheConditionsOfKindsApart) {
  EXPECT_EQ(getError("waves<=1: stages=2"), "table, line 1: expected kind=decode for conditions on bits, waves, "
                                            "key-bytes and cache-mib, got 'waves<=1: stages=2'");
  EXPECT_EQ(
      getError("kind=decode mask=none: stages=2"),
      "table, line 1: expected no conditions on mask, score, dropout, rows, keys and queries for kind=decode, got "
      "'kind=decode mask=none: stages=2'");
  EXPECT_EQ(getError("kind=decode: kv-tile=64"), "table, line 1: expected no kv-tile for kind=decode: it is a field of "
                                                 "kind=forward, column-sums or backward");
  EXPECT_EQ(getError("kind=decode: warps=0"), "table, line 1: expected a number of at least 1 for 'warps', got '0'");
  EXPECT_EQ(getError("kind=decode waves>0: warps=1"),
            "table, line 1: expected waves> and a positive number, got 'waves>0'");
  EXPECT_EQ(getError("kind=decode waves>1 waves<=2 waves<=3: warps=1"),
            "table, line 1: expected one condition on waves, got 'waves<=3' too");
  EXPECT_EQ(getError("kind=decode bits=4: warps=1"), "table, line 1: expected bits= and 8, got 'bits=4'");
}

TEST(ScheduleTable, TakesTheFirstRowThatHolds) {
  ScheduleTable table = parse("dtype=f16: stages=2\n"
                              "target=sm_100a: stages=2\n"
                              "d<=64 dv<=64 mask=bounds: stages=2\n"
                              "d<=64: stages=3\n"
                              ": stages=4\n");
  EXPECT_EQ(find(&table, makeKey(64, 64, MaskClass::Bounds)), "t 3");
  EXPECT_EQ(find(&table, makeKey(64, 65, MaskClass::Bounds)), "t 4");
  EXPECT_EQ(find(&table, makeKey(64, 64, MaskClass::Code)), "t 4");
  EXPECT_EQ(find(&table, makeKey(65, 64, MaskClass::Bounds)), "t 5");
}

TEST(ScheduleTable, NeedsWhatIsKnownOfKeysAndScores) {
  ScheduleTable table = parse("keys<=100: stages=2\n"
                              "score=bounded: stages=3\n"
                              "score=none: stages=7\n"
                              "rows=bounded: stages=5\n"
                              "rows=listed: stages=6\n"
                              ": stages=4\n");
  Question key = makeKey(64, 64, MaskClass::Several);
  EXPECT_EQ(find(&table, key), "t 3");
  key.score = ScoreClass::Code;
  EXPECT_EQ(find(&table, key), "t 6");
  EXPECT_EQ(key.str(), "target=sm_90a dtype=bf16 d=64 dv=64 mask=several");
  key.rows = RowsClass::Listed;
  EXPECT_EQ(find(&table, key), "t 5");
  EXPECT_EQ(key.str(), "target=sm_90a dtype=bf16 d=64 dv=64 mask=several rows=listed");
  key.rows = RowsClass::Bounded;
  EXPECT_EQ(find(&table, key), "t 4");
  key.score = ScoreClass::Bounded;
  EXPECT_EQ(find(&table, key), "t 2");
  key.keys = 101;
  EXPECT_EQ(find(&table, key), "t 2");
  key.keys = 100;
  EXPECT_EQ(find(&table, key), "t 1");
  EXPECT_EQ(key.str(), "target=sm_90a dtype=bf16 d=64 dv=64 mask=several keys<=100 score=bounded rows=bounded");
}

TEST(ScheduleTable, LeavesOtherDimensionsToTheBuiltInTable) {
  ScheduleTable mine = parse("d=256 dv=256: stages=2\n", "mine");
  const ScheduleTable *tables[] = {&mine, &ScheduleTable::getBuiltIn()};
  EXPECT_EQ(find(tables, makeKey(256, 256, MaskClass::Bounds)), "mine 1");
  for (auto [d, dv] : {std::pair(64, 64), std::pair(256, 64), std::pair(64, 256), std::pair(248, 256)})
    EXPECT_EQ(find(tables, makeKey(d, dv, MaskClass::Bounds)),
              find(&ScheduleTable::getBuiltIn(), makeKey(d, dv, MaskClass::Bounds)));
}

TEST(ScheduleTable, HasRowsForNumbersOfQueries) {
  ScheduleTable table = parse("queries<=512: stages=2\n"
                              "queries<=256: stages=2\n" // never reached: the row above matches these, too
                              "mask=code queries<=600: stages=2\n"
                              "queries<=1024: stages=3\n"
                              ": stages=4\n"
                              "queries<=2048: stages=5\n");
  EXPECT_EQ(find(&table, makeKey(64, 64, MaskClass::None)), "t 1 up to 512, t 4 up to 1024, t 5");
  EXPECT_EQ(find(&table, makeKey(64, 64, MaskClass::None), /*mayVary=*/false), "t 5");
  EXPECT_EQ(find(&table, makeKey(64, 64, MaskClass::None, 512)), "t 1");
  EXPECT_EQ(find(&table, makeKey(64, 64, MaskClass::None, 513)), "t 4");
  EXPECT_EQ(find(&table, makeKey(64, 64, MaskClass::None, 1025)), "t 5");
  EXPECT_EQ(find(&table, makeKey(64, 64, MaskClass::Code, 513)), "t 3");
}

/// Applies the only row. Returns some fields of the schedule, or the error.
std::string apply(StringRef row, StringRef overrides, int64_t dv = 128, bool hasLse = false, bool hasInputType = true) {
  ScheduleTable table = parse(row);
  Question key = makeKey(128, dv, MaskClass::None);
  key.outputs.hasLse = hasLse;
  key.outputs.hasInputType = hasInputType;
  Expected<Schedule> schedule = applyRow(table.getRows().front(), key, overrides);
  if (!schedule)
    return toString(schedule.takeError());
  return ("q-stages=" + Twine(schedule->qStages) + (schedule->epilogue != Epilogue::Plain ? " overlapped" : "") +
          (schedule->tensorSums ? " tensor-sums" : "") + (schedule->store == Store::QSlot ? " q-slot" : "") +
          (schedule->store == Store::OwnSlot ? " own-slot" : "") +
          (schedule->waitAfter ? " wait-after=" + std::to_string(schedule->waitAfter) : ""))
      .str();
}

TEST(ScheduleTable, LetsFieldsFollow) {
  EXPECT_EQ(apply(": q-stages=2", ""), "q-stages=2 overlapped q-slot");
  EXPECT_EQ(apply(": q-stages=2,epilogue=plain", ""), "q-stages=2 q-slot");
  EXPECT_EQ(apply(": q-stages=2", "epilogue=plain"), "q-stages=2 q-slot");
  EXPECT_EQ(apply(": q-stages=2,store=registers", ""), "q-stages=2 overlapped");
  EXPECT_EQ(apply(": q-stages=2", "stages=3"), "q-stages=1"); // no room for a second slot of Q
  EXPECT_EQ(apply(": q-stages=2,epilogue=product", "persistent=false"), "q-stages=1");
  EXPECT_EQ(apply(": q-stages=2,epilogue=product,persistent=false", ""), "q-stages=2");
  EXPECT_EQ(apply(": q-stages=2,persistent=false", "epilogue=product"), "expected persistent for epilogue=product");
  EXPECT_EQ(apply(": q-stages=2", "stages=3,q-stages=2"), "expected at most 232448 bytes of shared memory, got 263328");
  EXPECT_EQ(apply(": q-stages=1", "", 64), "q-stages=1 tensor-sums");
  EXPECT_EQ(apply(": q-stages=1", "", 64, /*hasLse=*/true), "q-stages=1");
  EXPECT_EQ(apply(": q-stages=1,tensor-sums=false", "", 64), "q-stages=1");
  EXPECT_EQ(apply(": q-stages=1", "tensor-sums=false", 64), "q-stages=1");
  EXPECT_EQ(apply(": stages=2", "tensor-sums=true", 64, /*hasLse=*/true),
            "expected no log-sum-exp output for tensor-sums: P is rounded to 16 bits before it is summed, which the "
            "log-sum-exp would show");
  EXPECT_EQ(apply(": stages=2", "store=q-slot", 192),
            "expected a slot of Q with room for O for store=q-slot, got dimensions of 128 and 192");
  EXPECT_EQ(apply(": wait-after=12", "kv-tile=16"), "q-stages=1 wait-after=8");
  EXPECT_EQ(apply(": stages=2", "wait-after=65"),
            "expected wait-after to be at most half of kv-tile, the 64 exponentials of a thread, got 65");
}

TEST(ScheduleTable, VisitsOwnKeysWhereTheMaskSaysThem) {
  auto of = [](StringRef row, StringRef overrides, bool isBounded) -> std::string {
    Question key = makeKey(64, 64, MaskClass::Bounds);
    key.rows = isBounded ? RowsClass::Bounded : RowsClass::None;
    ScheduleTable table = parse(row);
    Expected<Schedule> schedule = applyRow(table.getRows().front(), key, overrides);
    if (!schedule)
      return toString(schedule.takeError());
    return std::string(schedule->ownKeys ? "own" : "all") + (schedule->epilogue != Epilogue::Plain ? " overlap" : "");
  };
  EXPECT_EQ(of(": own-keys=true", "", true), "own");
  EXPECT_EQ(of(": own-keys=true", "", false), "all");
  EXPECT_EQ(of(": own-keys=true", "own-keys=false", true), "all");
  // own-keys and an overlapped epilogue, which q-stages=2 implies, exclude each other. If the row asks for both, the
  // epilogue wins. Otherwise the overrides win.
  EXPECT_EQ(of(": own-keys=true,q-stages=2", "", true), "all overlap");
  EXPECT_EQ(of(": q-stages=2", "own-keys=true", true), "own");
  EXPECT_EQ(of(": own-keys=true", "q-stages=2", true), "all overlap");
  EXPECT_EQ(of(": own-keys=true,q-stages=2,epilogue=plain", "", true), "own");
  EXPECT_EQ(of(": own-keys=true,q-stages=2,epilogue=plain", "epilogue=softmax", true), "all overlap");
  EXPECT_EQ(of(": own-keys=true", "epilogue=softmax,own-keys=true,q-stages=2", true),
            "expected epilogue=plain for own-keys: the next tile's first product would run before this tile passes its "
            "turn on");
  EXPECT_EQ(of(": q-stages=2", "own-keys=true,epilogue=product", true),
            "expected epilogue=plain for own-keys: the next tile's first product would run before this tile passes its "
            "turn on");
  EXPECT_EQ(of(": stages=2", "own-keys=true", false),
            "expected a mask with one interval of keys that moves with the query for own-keys (and, if its bounds read "
            "no array, intervals that are the same for all queries)");
}

TEST(ScheduleTable, StoresNoPackedSequencesThroughTheSlotOfQ) {
  Question key = makeKey(64, 64, MaskClass::Several);
  key.loops.hasSegments = true;
  ScheduleTable table = parse(": q-stages=2");
  EXPECT_EQ(llvm::cantFail(applyRow(table.getRows().front(), key, "")).store, Store::Registers);
  EXPECT_EQ(llvm::cantFail(applyRow(table.getRows().front(), key, "store=own-slot")).store, Store::OwnSlot);
  StringRef refusal = "expected store=own-slot or registers where tiles of queries follow packed sequences";
  EXPECT_TRUE(
      StringRef(toString(applyRow(table.getRows().front(), key, "store=q-slot").takeError())).starts_with(refusal));
  Schedule slot = llvm::cantFail(applyRow(table.getRows().front(), makeKey(64, 64, MaskClass::Several), ""));
  EXPECT_TRUE(StringRef(toString(checkSchedule(slot, kHopper, 64, 64, key.loops))).starts_with(refusal));
}

TEST(ScheduleTable, LeavesTurnsOutForOwnKeysOnly) {
  auto takesTurns = [](StringRef row, StringRef overrides) {
    Question key = makeKey(64, 64, MaskClass::Bounds);
    key.rows = RowsClass::Bounded;
    return cantFail(applyRow(parse(row).getRows().front(), key, overrides)).pingPong;
  };
  EXPECT_FALSE(takesTurns(": own-keys=true,ping-pong=false", ""));
  EXPECT_TRUE(takesTurns(": own-keys=true,ping-pong=false", "own-keys=false"));
  EXPECT_TRUE(takesTurns(": own-keys=true,ping-pong=false", "epilogue=softmax,q-stages=2"));
  EXPECT_FALSE(takesTurns(": own-keys=true,ping-pong=false", "own-keys=false,ping-pong=false"));
  EXPECT_FALSE(takesTurns(": ping-pong=false", ""));
  // An override that repeats the row's number of consumers changes nothing.
  EXPECT_FALSE(takesTurns(": consumers=3,kv-tile=64,own-keys=true,ping-pong=false", "consumers=3"));
  EXPECT_TRUE(takesTurns(": consumers=3,kv-tile=64,own-keys=true,ping-pong=false", "consumers=2"));
}

TEST(ScheduleTable, VisitsOwnKeysByAListOnlyWhereARowIsForThat) {
  auto of = [](StringRef row, StringRef overrides) -> std::string {
    Question key = makeKey(64, 64, MaskClass::Several);
    key.rows = RowsClass::Listed;
    ScheduleTable table = parse(row);
    Expected<Schedule> schedule = applyRow(table.getRows().front(), key, overrides);
    if (!schedule)
      return toString(schedule.takeError());
    return schedule->ownKeys ? "own" : "all";
  };
  EXPECT_EQ(of(": own-keys=true", ""), "all");
  EXPECT_EQ(of("rows=listed: own-keys=true", ""), "own");
  EXPECT_EQ(of("rows=listed: own-keys=true", "persistent=false"), "all");
  EXPECT_EQ(of(": stages=2", "own-keys=true"), "own");
  EXPECT_EQ(of(": stages=2", "own-keys=true,persistent=false"),
            "expected persistent=true for own-keys of a mask whose bounds read arrays: the work list has the bounds of "
            "each consumer");
}

TEST(ScheduleTable, TakesOfARowWhatCanBeHad) {
  EXPECT_EQ(apply(": tensor-sums=true", "", 64), "q-stages=1 tensor-sums");
  EXPECT_EQ(apply(": tensor-sums=true", "", 64, /*hasLse=*/true), "q-stages=1");
  EXPECT_EQ(apply(": tensor-sums=true", "", 96), "q-stages=1");
  EXPECT_EQ(apply(": stages=2", "tensor-sums=true", 96),
            "expected a value dimension in steps of 64 for tensor-sums, got 96");
  // If V has more than one panel, tensor-sums is chosen only if it is asked for, or if max=unified needs it.
  EXPECT_EQ(apply(": stages=2", ""), "q-stages=1");
  EXPECT_EQ(apply(": stages=2", "tensor-sums=true"), "q-stages=1 tensor-sums");
  EXPECT_EQ(apply(": tensor-sums=true", ""), "q-stages=1 tensor-sums");
  EXPECT_EQ(apply(": stages=2", "max=unified"), "q-stages=1 tensor-sums");
  EXPECT_EQ(apply(": stages=2", "max=unified,tensor-sums=false"), "expected tensor-sums for max=unified");
  EXPECT_EQ(apply(": stages=2", "max=unified", 96), "expected tensor-sums for max=unified");
  EXPECT_EQ(apply(": store=q-slot", ""), "q-stages=1 q-slot");
  EXPECT_EQ(apply(": store=q-slot", "", 192), "q-stages=1");
  EXPECT_EQ(apply(": store=q-slot", "", 128, /*hasLse=*/false, /*hasInputType=*/false), "q-stages=1");
  EXPECT_EQ(apply(": stages=2", "store=q-slot", 128, /*hasLse=*/false, /*hasInputType=*/false),
            "expected an output of bf16 for store=q-slot");
  EXPECT_EQ(apply(": store=own-slot", ""), "q-stages=1 own-slot");
  EXPECT_EQ(apply(": store=own-slot", "store=registers"), "q-stages=1");
  EXPECT_EQ(apply(": store=own-slot", "", 128, /*hasLse=*/false, /*hasInputType=*/false), "q-stages=1");
  EXPECT_EQ(apply(": kv-tile=64", "store=own-slot", 192), "q-stages=1 own-slot"); // the output has more columns than Q
  EXPECT_EQ(apply(": stages=2", "store=own-slot", 128, /*hasLse=*/false, /*hasInputType=*/false),
            "expected an output of bf16 for store=own-slot");
  EXPECT_EQ(apply(": stages=2", "store=own-slot,epilogue=product"), "q-stages=1 overlapped own-slot");
  // If other overrides leave too little shared memory, the output's slot is given up first, and then Q's second slot.
  EXPECT_EQ(apply(": stages=2,kv-tile=128,q-stages=2,store=own-slot", "ping-pong=true"),
            "q-stages=2 overlapped own-slot");
  EXPECT_EQ(apply(": stages=2,kv-tile=128,q-stages=2,store=own-slot", "kv-tile=144"), "q-stages=2 overlapped q-slot");
  EXPECT_EQ(apply(": stages=2,kv-tile=128,q-stages=2,store=own-slot", "kv-tile=176"), "q-stages=1");
  // If the slots of a row for K and V do not all fit, as many are kept as fit.
  auto stagesOf = [](StringRef row, StringRef overrides) -> std::string {
    Expected<Schedule> schedule = applyRow(parse(row).getRows().front(), makeKey(64, 64, MaskClass::None), overrides);
    return schedule ? std::to_string(schedule->stages) : toString(schedule.takeError());
  };
  EXPECT_EQ(stagesOf(": stages=8,kv-tile=64", "kv-tile=64"), "8");
  EXPECT_EQ(stagesOf(": stages=8,kv-tile=64", "kv-tile=128"), "4");
  EXPECT_EQ(stagesOf(": stages=7,kv-tile=128,consumers=1", "consumers=2"), "3");
  EXPECT_EQ(stagesOf(": stages=64,kv-tile=16", "kv-tile=160"), "4");
  EXPECT_EQ(stagesOf(": stages=8,kv-tile=64", ""), "8");
  EXPECT_EQ(stagesOf(": stages=8,kv-tile=64", "kv-tile=128,stages=8"),
            "expected at most 232448 bytes of shared memory, got 279840");
  // With one slot for Q, the slot can hold either the output or the next tile, not both.
  EXPECT_EQ(apply(": store=q-slot,epilogue=product", ""),
            "expected q-stages of 2 or store=own-slot for epilogue=product with store=q-slot, got 1");
  EXPECT_EQ(apply(": q-stages=2,store=q-slot,epilogue=product", "q-stages=1"), "q-stages=1 q-slot");
  EXPECT_EQ(apply(": store=q-slot", "epilogue=product"), "q-stages=1 overlapped");
  EXPECT_EQ(apply(": stages=2", "store=q-slot,epilogue=product"),
            "expected q-stages of 2 or store=own-slot for epilogue=product with store=q-slot, got 1");
}

TEST(ScheduleTable, LeavesSlopesToTheTensorCoresBeforeASlotOfTheOutput) {
  ScheduleTable table = parse(": stages=2,kv-tile=128,q-stages=2,store=own-slot");
  Question key = makeKey(128, 128, MaskClass::None);
  auto of = [&](StringRef overrides) {
    Schedule schedule = cantFail(applyRow(table.getRows().front(), key, overrides));
    bool hasSlopes = key.hasSlopes && canAddSlopes(schedule, key.getTarget(), key.d, key.dv);
    return std::tuple(hasSlopes, schedule.store == Store::OwnSlot, schedule.qStages);
  };
  EXPECT_EQ(of(""), std::tuple(false, true, 2));
  key.hasSlopes = true;
  EXPECT_EQ(of(""), std::tuple(true, false, 2)); // no room for both slopes and own-slot
  EXPECT_EQ(of("store=own-slot"), std::tuple(false, true, 2));
  EXPECT_EQ(of("kv-tile=112"), std::tuple(true, true, 2));
}

TEST(ScheduleTable, TakesAMaximumWhereNothingElseSumsRows) {
  ScheduleTable table = parse(": max=unified");
  Question key = makeKey(64, 64, MaskClass::None);
  auto of = [&](StringRef overrides) {
    return cantFail(applyRow(table.getRows().front(), key, overrides)).max == Max::Unified;
  };
  EXPECT_FALSE(of("tensor-sums=false"));
  EXPECT_FALSE(of("max=running"));
  key.outputs.hasLse = true;
  EXPECT_FALSE(of(""));
  key.outputs.hasLse = false;
  EXPECT_TRUE(of(""));
}

TEST(ScheduleTable, KeepsWaitAfterToTheExponentials) {
  EXPECT_EQ(apply(": kv-tile=16,wait-after=12", ""),
            "expected wait-after to be at most half of kv-tile, the 8 exponentials of a thread, got 12");
  EXPECT_EQ(apply(": kv-tile=16,wait-after=12", "stages=2"),
            "expected wait-after to be at most half of kv-tile, the 8 exponentials of a thread, got 12");
}

TEST(ScheduleTable, GoesOnInTheNextTable) {
  ScheduleTable first = parse("d<=64 queries<=128: stages=2\n", "first");
  ScheduleTable second = parse("queries<=64: stages=3\nqueries<=256: stages=3\n: stages=4\n", "second");
  EXPECT_EQ(find({&first, &second}, makeKey(64, 64, MaskClass::None)),
            "first 1 up to 128, second 2 up to 256, second 3");
  EXPECT_EQ(find({&first, &second}, makeKey(128, 64, MaskClass::None)),
            "second 1 up to 64, second 2 up to 256, second 3");
  EXPECT_EQ(find(&first, makeKey(64, 64, MaskClass::None)),
            "expected a row of the schedule table for target=sm_90a dtype=bf16 d=64 dv=64 mask=none, got none");
}

} // namespace
