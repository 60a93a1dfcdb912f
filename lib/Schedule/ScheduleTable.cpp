//===- ScheduleTable.cpp - which schedule for which attention, as data --------------------------------------------===//

#include "flashc/Schedule/ScheduleTable.h"
#include "llvm/ADT/StringExtras.h"

using namespace mlir;
using namespace flashc;

static constexpr StringLiteral kMaskClassNames[] = {"none", "bounds",     "several", "periodic",
                                                    "constants", "code", "arithmetic", "memory"};

static constexpr StringLiteral kRowsClassNames[] = {"", "bounded", "listed"};

StringRef flashc::getMaskClassName(MaskClass mask) { return kMaskClassNames[static_cast<int>(mask)]; }

std::string ScheduleKey::str() const {
  std::string text = ((kind == kForwardKind ? "" : "kind=" + kind + " ") + "target=" + target + " dtype=" + dtype + " d=" + Twine(d) + " dv=" + Twine(dv) +
                      " mask=" + getMaskClassName(mask))
                         .str();
  if (keys)
    text += " keys<=" + std::to_string(*keys);
  if (hasBoundedScores)
    text += " score=bounded";
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

/// A number behind `key<=` or `key=`. `isSet`: there is a condition on the key already.
static llvm::Expected<int64_t> parseNumber(StringRef condition, StringRef relation, bool isSet) {
  auto [key, value] = condition.split(relation);
  int64_t number;
  if (value.getAsInteger(10, number) || number < 1)
    return llvm::createStringError("expected " + key + relation + " and a positive integer, got '" + condition + "'");
  if (isSet)
    return llvm::createStringError("expected one condition on " + key + ", got '" + condition + "' too");
  return number;
}

/// A name `key=value`, of which `isValue` knows the right ones and `expected` says them.
static llvm::Error setName(std::optional<std::string> &name, StringRef condition,
                           llvm::function_ref<bool(StringRef)> isValue, StringRef expected) {
  auto [key, value] = condition.split('=');
  if (!isValue(value))
    return llvm::createStringError("expected " + key + "= and " + expected + ", got '" + condition + "'");
  if (name)
    return llvm::createStringError("expected one condition on " + key + ", got '" + condition + "' too");
  name = value.str();
  return llvm::Error::success();
}

/// A class by its name, which is one of `names` and not empty.
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

static llvm::Error setCondition(ScheduleRow &row, StringRef condition) {
  StringRef key = condition.take_while([](char c) { return llvm::isAlpha(c); });
  StringRef rest = condition.drop_front(key.size());
  StringRef relation = rest.take_front(rest.starts_with("<=") ? 2 : 1);
  if ((key == "d" || key == "dv") && (relation == "<=" || relation == "=")) {
    std::optional<DimensionCondition> &dimension = key == "d" ? row.d : row.dv;
    llvm::Expected<int64_t> number = parseNumber(condition, relation, dimension.has_value());
    if (!number)
      return number.takeError();
    dimension = DimensionCondition{*number, /*isExact=*/relation == "="};
    return llvm::Error::success();
  }
  if ((key == "queries" || key == "keys") && relation == "<=") {
    std::optional<int64_t> &most = key == "queries" ? row.maxQueries : row.maxKeys;
    llvm::Expected<int64_t> number = parseNumber(condition, relation, most.has_value());
    if (!number)
      return number.takeError();
    most = *number;
    return llvm::Error::success();
  }
  if (relation == "=") {
    if (key == "kind") {
      std::optional<std::string> name;
      llvm::Error error = setName(
          name, condition, [](StringRef value) { return value == kForwardKind || value == kColumnSumsKind || value == kBackwardKind; },
          "forward, column-sums or backward");
      row.kind = name.value_or(row.kind);
      return error;
    }
    if (key == "target")
      return setName(
          row.target, condition, [](StringRef value) { return value.starts_with("sm_"); },
          "an architecture such as sm_90a");
    if (key == "dtype")
      return setName(
          row.dtype, condition, [](StringRef value) { return value == "bf16" || value == "f16"; }, "bf16 or f16");
    if (key == "score") {
      std::optional<std::string> name;
      if (std::exchange(row.needsBoundedScores, true))
        name = "bounded";
      return setName(name, condition, [](StringRef value) { return value == "bounded"; }, "bounded");
    }
    if (key == "dropout") {
      std::optional<std::string> name;
      if (std::exchange(row.needsDropout, true))
        name = "true";
      return setName(name, condition, [](StringRef value) { return value == "true"; }, "true");
    }
    if (key == "rows")
      return setClass(row.rows, condition, kRowsClassNames, "bounded or listed");
    if (key == "mask")
      return setClass(row.mask, condition, kMaskClassNames,
                      "none, bounds, several, periodic, code, arithmetic or memory");
  }
  return llvm::createStringError(
      "expected a condition on kind=, target=, dtype=, d=, d<=, dv=, dv<=, mask=, score=, dropout=, rows=, keys<= or queries<=, got '" +
      condition + "'");
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
  row.overrides = text.drop_front(colon + 1).trim().str();
  if (row.overrides.empty())
    return llvm::createStringError("expected a schedule behind ':', got none");
  Schedule schedule;
  if (llvm::Error error = overrideSchedule(schedule, row.overrides))
    return error;
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
  // A test reads it, so that there is nothing wrong with it.
  static const ScheduleTable table = llvm::cantFail(parse(getBuiltInText(), "built-in schedule table"));
  return table;
}

//===--------------------------------------------------------------------------------------------------------------===//
// Looking up
//===--------------------------------------------------------------------------------------------------------------===//

bool ScheduleRow::matches(const ScheduleKey &key) const {
  return kind == key.kind && (!target || *target == key.target) && (!dtype || *dtype == key.dtype) && (!d || d->holds(key.d)) &&
         (!dv || dv->holds(key.dv)) && (!mask || *mask == key.mask) &&
         (!maxKeys || (key.keys && *key.keys <= *maxKeys)) && (!needsBoundedScores || key.hasBoundedScores) &&
         (!needsDropout || key.hasDropout) && (!rows || *rows == key.rows) &&
         (!key.isDeterministic || getSchedule().splitGradients != SplitGradients::None);
}

Schedule ScheduleRow::getSchedule() const {
  Schedule schedule;
  llvm::cantFail(overrideSchedule(schedule, overrides)); // as parse found
  return schedule;
}

llvm::Expected<SmallVector<RowChoice, 2>> flashc::findRows(ArrayRef<const ScheduleTable *> tables,
                                                           const ScheduleKey &key, bool mayVary) {
  SmallVector<RowChoice, 2> choices;
  int64_t covered = 0; // so many queries have a row already
  for (const ScheduleTable *table : tables) {
    for (const ScheduleRow &row : table->getRows()) {
      if (!row.matches(key))
        continue;
      if (!row.maxQueries || (key.queries && *key.queries <= *row.maxQueries)) {
        choices.push_back({&row, std::nullopt});
        return choices;
      }
      if (key.queries || !mayVary || *row.maxQueries <= covered)
        continue;
      covered = *row.maxQueries;
      choices.push_back({&row, covered});
    }
  }
  return llvm::createStringError("expected a row of the schedule table for " + key.str() + ", got none");
}
