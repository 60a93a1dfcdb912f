//===- ScheduleTable.cpp - which schedule for which attention, as data --------------------------------------------===//

#include "flashc/Schedule/ScheduleTable.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace flashc;

static constexpr StringLiteral kMaskClassNames[] = {"none",      "bounds", "several",    "periodic",
                                                    "constants", "code",   "arithmetic", "memory"};

static constexpr StringLiteral kRowsClassNames[] = {"", "bounded", "listed"};
static constexpr StringLiteral kScoreClassNames[] = {"", "none", "bounded", "curved"};

StringRef flashc::getMaskClassName(MaskClass mask) { return kMaskClassNames[static_cast<int>(mask)]; }

std::string Question::str() const {
  std::string text = ((kind == KernelKind::Forward ? "" : "kind=" + getKindName(kind) + " ") + "target=" + target +
                      " dtype=" + dtype + " d=" + Twine(d) + " dv=" + Twine(dv) + " mask=" + getMaskClassName(mask))
                         .str();
  if (keys)
    text += " keys<=" + std::to_string(*keys);
  if (score == ScoreClass::Bounded || score == ScoreClass::Curved)
    text += (" score=" + kScoreClassNames[static_cast<int>(score)]).str();
  if (hasDropout)
    text += " dropout=true";
  if (rows != RowsClass::None)
    text += (" rows=" + kRowsClassNames[static_cast<int>(rows)]).str();
  if (isDeterministic)
    text += " deterministic";
  return text;
}

//===--------------------------------------------------------------------------------------------------------------===//
// Reading
//===--------------------------------------------------------------------------------------------------------------===//

static llvm::Error refuseSecond(StringRef key, StringRef condition) {
  return llvm::createStringError("expected one condition on " + key + ", got '" + condition + "' too");
}

/// Parses the number after the relation of a condition. `isSet`: an earlier condition has the same key, which is an
/// error.
static llvm::Expected<int64_t> parseNumber(StringRef condition, StringRef relation, bool isSet) {
  auto [key, value] = condition.split(relation);
  int64_t number;
  if (value.getAsInteger(10, number) || number < 1)
    return llvm::createStringError("expected " + key + relation + " and a positive integer, got '" + condition + "'");
  if (isSet)
    return refuseSecond(key, condition);
  return number;
}

/// Parses the number after the relation of a condition into `result`.
static llvm::Error setNumber(std::optional<int64_t> &result, StringRef condition, StringRef relation) {
  llvm::Expected<int64_t> number = parseNumber(condition, relation, result.has_value());
  if (!number)
    return number.takeError();
  result = *number;
  return llvm::Error::success();
}

/// Parses a condition `key=value` whose value is a name for which `isValue` holds, and stores this name in `name`.
/// `expected` describes the valid names.
static llvm::Error setName(std::optional<std::string> &name, StringRef condition,
                           llvm::function_ref<bool(StringRef)> isValue, StringRef expected) {
  auto [key, value] = condition.split('=');
  if (!isValue(value))
    return llvm::createStringError("expected " + key + "= and " + expected + ", got '" + condition + "'");
  if (name)
    return refuseSecond(key, condition);
  name = value.str();
  return llvm::Error::success();
}

/// Parses a condition `key=value` whose value is the name of a class. `names` has the names of all classes; an empty
/// name is none.
template <typename ClassTy>
static llvm::Error setClass(std::optional<ClassTy> &result, StringRef condition, ArrayRef<StringLiteral> names,
                            StringRef expected) {
  std::optional<std::string> name;
  if (result)
    name = names[static_cast<int>(*result)];
  auto isName = [&](StringRef value) { return !value.empty() && llvm::is_contained(names, value); };
  if (llvm::Error error = setName(name, condition, isName, expected))
    return error;
  result = static_cast<ClassTy>(llvm::find(names, *name) - names.begin());
  return llvm::Error::success();
}

/// Parses a condition `key=value` that can only have the value `expected`.
static llvm::Error setFlag(bool &flag, StringRef condition, StringRef expected) {
  std::optional<std::string> name;
  if (std::exchange(flag, true))
    name = expected.str();
  return setName(name, condition, [&](StringRef value) { return value == expected; }, expected);
}

static llvm::Error setWaves(std::optional<double> &waves, StringRef condition, StringRef relation) {
  double number;
  if (condition.split(relation).second.getAsDouble(number) || number <= 0)
    return llvm::createStringError("expected waves" + relation + " and a positive number, got '" + condition + "'");
  if (std::exchange(waves, number))
    return refuseSecond("waves", condition);
  return llvm::Error::success();
}

static llvm::Error setDimension(std::optional<DimensionCondition> &dimension, StringRef condition, StringRef relation) {
  llvm::Expected<int64_t> number = parseNumber(condition, relation, dimension.has_value());
  if (!number)
    return number.takeError();
  dimension = DimensionCondition{*number, /*isExact=*/relation == "="};
  return llvm::Error::success();
}

static llvm::Error setKind(KernelKind &kind, StringRef condition) {
  std::optional<KernelKind> known = lookupKind(condition.split('=').second);
  if (!known || known == KernelKind::Plain)
    return llvm::createStringError("expected kind= and forward, decode, column-sums or backward, got '" + condition +
                                   "'");
  kind = *known;
  return llvm::Error::success();
}

/// Parses a condition `key=value` with a name as value. None if the key is of another kind.
static std::optional<llvm::Error> setNamed(ScheduleRow &row, StringRef key, StringRef condition) {
  if (key == "kind")
    return setKind(row.kind, condition);
  if (key == "target")
    return setName(
        row.target, condition, [](StringRef value) { return value.starts_with("sm_"); },
        "an architecture such as sm_90a");
  if (key == "dtype")
    return setName(
        row.dtype, condition, [](StringRef value) { return value == "bf16" || value == "f16"; }, "bf16 or f16");
  if (key == "score")
    return setClass(row.score, condition, kScoreClassNames, "none, bounded or curved");
  if (key == "dropout")
    return setFlag(row.needsDropout, condition, "true");
  if (key == "bits")
    return setFlag(row.needsBytes, condition, "8");
  if (key == "rows")
    return setClass(row.rows, condition, kRowsClassNames, "bounded or listed");
  if (key == "mask")
    return setClass(row.mask, condition, kMaskClassNames,
                    "none, bounds, several, periodic, code, arithmetic or memory");
  return std::nullopt;
}

static llvm::Error setCondition(ScheduleRow &row, StringRef condition) {
  StringRef key = condition.take_while([](char c) { return llvm::isAlpha(c) || c == '-'; });
  StringRef relation = condition.drop_front(key.size()).take_while([](char c) { return StringRef("<>=").contains(c); });
  if ((key == "d" || key == "dv") && (relation == "<=" || relation == "="))
    return setDimension(key == "d" ? row.d : row.dv, condition, relation);
  if ((key == "queries" || key == "keys" || key == "key-bytes") && relation == "<=")
    return setNumber(key == "queries" ? row.maxQueries
                     : key == "keys"  ? row.maxKeys
                                      : row.maxKeyBytes,
                     condition, relation);
  if (key == "cache-mib" && relation == ">=")
    return setNumber(row.minCacheMiB, condition, relation);
  if (key == "waves" && (relation == "<=" || relation == ">"))
    return setWaves(relation == ">" ? row.minWaves : row.maxWaves, condition, relation);
  if (relation == "=")
    if (std::optional<llvm::Error> error = setNamed(row, key, condition))
      return std::move(*error);
  return llvm::createStringError("expected a condition on kind=, target=, dtype=, d=, d<=, dv=, dv<=, mask=, score=, "
                                 "dropout=, rows=, keys<= or queries<=, "
                                 "or for kind=decode on bits=, waves>, waves<=, key-bytes<= or cache-mib>=, got '" +
                                 condition + "'");
}

/// Checks that the conditions belong to the row's kind of kernel.
static llvm::Error checkConditions(const ScheduleRow &row) {
  bool isOfCache = row.needsBytes || row.minWaves || row.maxWaves || row.maxKeyBytes || row.minCacheMiB;
  if (isOfCache && row.kind != KernelKind::Decode)
    return llvm::createStringError(
        "expected kind=decode for conditions on bits, waves, key-bytes and cache-mib, got '" + row.text + "'");
  bool isOfScores = row.mask || row.score || row.needsDropout || row.rows || row.maxKeys || row.maxQueries;
  if (isOfScores && row.kind == KernelKind::Decode)
    return llvm::createStringError(
        "expected no conditions on mask, score, dropout, rows, keys and queries for kind=decode, got '" + row.text +
        "'");
  return llvm::Error::success();
}

static llvm::Expected<ScheduleRow> parseRow(StringRef text) {
  ScheduleRow row;
  row.text = text.str();
  size_t colon = text.find(':');
  if (colon == StringRef::npos)
    return llvm::createStringError("expected ':' between the conditions and the schedule, got '" + text + "'");
  SmallVector<StringRef> conditions;
  llvm::SplitString(text.take_front(colon), conditions);
  for (StringRef condition : conditions)
    if (llvm::Error error = setCondition(row, condition))
      return error;
  if (llvm::Error error = checkConditions(row))
    return error;
  row.overrides = text.drop_front(colon + 1).trim().str();
  if (row.overrides.empty())
    return llvm::createStringError("expected a schedule after ':', got none");
  Schedule schedule(row.kind);
  if (llvm::Error error = overrideSchedule(schedule, row.overrides))
    return std::move(error);
  if (llvm::Error error = checkFields(row.kind, row.overrides))
    return std::move(error);
  return row;
}

llvm::Expected<ScheduleTable> ScheduleTable::parse(StringRef text, StringRef name) {
  ScheduleTable table;
  unsigned number = 0;
  for (StringRef line : llvm::split(text, '\n')) {
    ++number;
    line = line.split('#').first.trim();
    if (line.empty())
      continue;
    llvm::Expected<ScheduleRow> row = parseRow(line);
    if (!row)
      return llvm::createStringError(name + ", line " + Twine(number) + ": " + llvm::toString(row.takeError()));
    row->table = name.str();
    row->line = number;
    table.rows.push_back(std::move(*row));
  }
  return table;
}

StringRef ScheduleTable::getBuiltInText() {
  static constexpr StringLiteral text =
#include "schedules.inc"
      ;
  return text;
}

const ScheduleTable &ScheduleTable::getBuiltIn() {
  // Tests parse the built-in table, so it has no errors.
  static const ScheduleTable table = llvm::cantFail(parse(getBuiltInText(), "built-in schedule table"));
  return table;
}

//===--------------------------------------------------------------------------------------------------------------===//
// Looking up
//===--------------------------------------------------------------------------------------------------------------===//

int64_t Question::countDecodedTiles() const {
  int64_t rows = std::max(countRows(), group);
  return cache->batches * cache->keyHeads * llvm::divideCeil(rows, DecodeSchedule::kRows);
}

int64_t Question::getDecodedTileBytes() const {
  auto bytes = [&](int64_t depth) {
    return getTarget().getSlotBytes(DecodeSchedule::kKeys, cache->isWidened ? llvm::divideCeil(depth, 2) : depth);
  };
  return bytes(d) + bytes(dv);
}

/// Whether the conditions of decoding kernels hold.
static bool matchesCache(const ScheduleRow &row, const Question &question) {
  const CacheQuestion &cache = *question.cache;
  bool isKnown = cache.batches && cache.keyHeads && cache.keys;
  double tiles = question.countDecodedTiles();
  int64_t bytes = cache.batches * cache.keyHeads * cache.keys * cache.keyBytes;
  return (!row.needsBytes || cache.isWidened) && (!row.maxKeyBytes || cache.keyBytes <= *row.maxKeyBytes) &&
         (!row.minWaves || (isKnown && tiles > *row.minWaves * cache.multiprocessors)) &&
         (!row.maxWaves || (isKnown && tiles <= *row.maxWaves * cache.multiprocessors)) &&
         (!row.minCacheMiB || (isKnown && bytes >= *row.minCacheMiB << 20));
}

bool ScheduleRow::matches(const Question &question) const {
  return kind == question.kind && (!target || *target == question.target) && (!dtype || *dtype == question.dtype) &&
         (!d || d->holds(question.d)) && (!dv || dv->holds(question.dv)) && (!mask || *mask == question.mask) &&
         (!maxKeys || (question.keys && *question.keys <= *maxKeys)) && (!score || *score == question.score) &&
         (!needsDropout || question.hasDropout) && (!rows || *rows == question.rows) &&
         (!question.isDeterministic || getSchedule().splitGradients != SplitGradients::None) &&
         (kind != KernelKind::Decode || matchesCache(*this, question));
}

Schedule ScheduleRow::getSchedule() const {
  Schedule schedule(kind);
  llvm::cantFail(overrideSchedule(schedule, overrides)); // parse has checked the overrides
  return schedule;
}

llvm::Expected<SmallVector<RowChoice, 2>> flashc::findRows(ArrayRef<const ScheduleTable *> tables,
                                                           const Question &question, bool mayVary) {
  SmallVector<RowChoice, 2> choices;
  int64_t covered = 0; // the number of queries for which there is a row already
  for (const ScheduleTable *table : tables) {
    for (const ScheduleRow &row : table->getRows()) {
      if (!row.matches(question))
        continue;
      if (!row.maxQueries || (question.queries && *question.queries <= *row.maxQueries)) {
        choices.push_back({&row, std::nullopt});
        return choices;
      }
      if (question.queries || !mayVary || *row.maxQueries <= covered)
        continue;
      covered = *row.maxQueries;
      choices.push_back({&row, covered});
    }
  }
  return llvm::createStringError("expected a row of the schedule table for " + question.str() + ", got none");
}
