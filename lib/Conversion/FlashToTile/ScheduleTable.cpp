//===- ScheduleTable.cpp - which schedule for which attention, as data --------------------------------------------===//

#include "flashc/Conversion/ScheduleTable.h"
#include "llvm/ADT/StringExtras.h"

using namespace mlir;
using namespace flashc;

static constexpr StringLiteral kMaskClassNames[] = {"none", "bounds",     "several", "periodic",
                                                    "code", "arithmetic", "memory"};

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
  if (rows != RowsClass::None)
    text += (" rows=" + kRowsClassNames[static_cast<int>(rows)]).str();
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
          name, condition, [](StringRef value) { return value == kForwardKind || value == kColumnSumsKind; },
          "forward or column-sums");
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
    if (key == "rows")
      return setClass(row.rows, condition, kRowsClassNames, "bounded or listed");
    if (key == "mask")
      return setClass(row.mask, condition, kMaskClassNames,
                      "none, bounds, several, periodic, code, arithmetic or memory");
  }
  return llvm::createStringError(
      "expected a condition on kind=, target=, dtype=, d=, d<=, dv=, dv<=, mask=, score=, rows=, keys<= or queries<=, got '" +
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
         (!rows || *rows == key.rows);
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

//===--------------------------------------------------------------------------------------------------------------===//
// Applying
//===--------------------------------------------------------------------------------------------------------------===//

llvm::Expected<Schedule> flashc::applyRow(const ScheduleRow &row, const ScheduleKey &key, StringRef overrides) {
  const GPUTarget &target = key.getTarget();
  Schedule schedule = row.getSchedule();
  if (llvm::Error error = overrideSchedule(schedule, overrides))
    return error;
  auto isOverridden = [&](StringRef field) { return hasOverride(overrides, field); };
  auto isInRow = [&](StringRef field) { return hasOverride(row.overrides, field); };
  // What neither gives follows from the rest; what a row gives holds where it can.
  if (!isOverridden("tensor-sums")) {
    bool isGood = key.dv == target.getPanelCols() || schedule.fixedMax; // more panels are a second product each
    schedule.tensorSums = key.dv % target.getPanelCols() == 0 && !key.outputs.hasLse &&
                          (isInRow("tensor-sums") ? schedule.tensorSums : isGood);
  }
  if (!isOverridden("tensor-bias"))
    schedule.tensorBias =
        key.hasSlopes && !schedule.fixedMax && (schedule.tensorBias || !isInRow("tensor-bias"));
  if (!isOverridden("tanh-terms"))
    schedule.tanhTerms = !key.hasSoftCap ? 0 : isInRow("tanh-terms") ? schedule.tanhTerms : 3;
  // A row's slot of the output's own, and its second slot of Q for the next tile, are for memory that nothing else
  // needs: other overrides may take it.
  auto hasRoom = [&] {
    return getScheduleNeeds(schedule, target, key.d, key.dv).sharedMemoryBytes <= target.maxSharedMemory;
  };
  if (!isOverridden("tensor-bias")) { // it goes before the output's slot
    Schedule least = schedule;
    least.outputSlot &= isOverridden("output-slot");
    schedule.tensorBias &= getScheduleNeeds(least, target, key.d, key.dv).sharedMemoryBytes <= target.maxSharedMemory;
  }
  if ((!overrides.empty() || schedule.tensorBias) && !isOverridden("output-slot"))
    schedule.outputSlot &= hasRoom();
  if (!overrides.empty() && !isOverridden("q-stages") && (!schedule.persistent || !hasRoom()))
    schedule.qStages = 1;
  if (!overrides.empty() && !isOverridden("tensor-sums") && !isOverridden("fixed-max"))
    schedule.tensorSums &= hasRoom();
  while (!overrides.empty() && !isOverridden("stages") && schedule.stages > 2 && !hasRoom())
    schedule.stages = std::max<int64_t>(schedule.stages / 2, 2);
  // Through Q's slot if the next tile's Q has another one; an overlapped epilogue insists on that.
  if (!isOverridden("tma-store")) {
    bool hasRoomForO = schedule.outputSlot || target.countPanels(key.dv) <= target.countPanels(key.d);
    bool mustOverlap = isOverridden("overlap-epilogue") && schedule.overlapEpilogue;
    bool hasSlot = schedule.qStages > 1 || schedule.outputSlot;
    schedule.tmaStore = target.hasTMA && key.outputs.hasInputType && hasRoomForO && !(mustOverlap && !hasSlot) &&
                        (isInRow("tma-store") ? schedule.tmaStore : schedule.persistent && hasSlot);
  }
  if (!isOverridden("overlap-epilogue")) {
    bool holdsOnlySlot = schedule.tmaStore && schedule.qStages == 1 && !schedule.outputSlot;
    if (isOverridden("early-softmax") && schedule.earlySoftmax) // which is part of it
      schedule.overlapEpilogue = true;
    else if (!isInRow("overlap-epilogue"))
      schedule.overlapEpilogue = schedule.qStages > 1;
    else if (!overrides.empty() && holdsOnlySlot)
      schedule.overlapEpilogue = false;
  }
  // A row that is not for listed rows may say own-keys of bounds that read nothing.
  bool isBounded = key.rows == RowsClass::Bounded, isListed = key.rows == RowsClass::Listed;
  bool mayList = isListed && schedule.persistent && schedule.order != Order::Closed;
  if (!isOverridden("own-keys"))
    schedule.ownKeys &= (isBounded || (row.rows && mayList)) && !schedule.overlapEpilogue;
  else if (!isOverridden("overlap-epilogue") && !isOverridden("early-softmax"))
    schedule.overlapEpilogue &= !schedule.ownKeys;
  // A row leaves turns out for own keys.
  if (!isOverridden("ping-pong") && row.getSchedule().ownKeys && !schedule.ownKeys)
    schedule.pingPong = schedule.consumers > 1;
  if (!isOverridden("wait-after") && isOverridden("kv-tile"))
    schedule.waitAfter = std::min(schedule.waitAfter, schedule.kvTile / 2);
  dropWhatMisses(schedule, overrides);
  if (llvm::Error error = checkSchedule(schedule, target, key.d, key.dv))
    return error;
  if (schedule.tensorSums && key.outputs.hasLse)
    return llvm::createStringError("expected no log-sum-exp output for tensor-sums: P is rounded to 16 bits before it is "
                                   "summed, which the log-sum-exp would show");
  if (schedule.ownKeys && isListed && !mayList)
    return llvm::createStringError("expected persistent=true and order=auto or list for own-keys of a mask whose "
                                   "bounds read arrays: a list has what each consumer would search for");
  if (schedule.ownKeys && key.rows == RowsClass::None)
    return llvm::createStringError("expected a mask with one interval of keys that moves with the query, and beside "
                                   "it, if its bounds read no array, others that are the same for all, for own-keys");
  if (schedule.tmaStore && !key.outputs.hasInputType)
    return llvm::createStringError("expected an output of " + key.dtype + " for tma-store");
  return schedule;
}
