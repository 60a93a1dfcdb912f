//===- Schedule.cpp - fields, overrides, budgets ------------------------------------------------------------------===//

#include "flashc/Schedule/Schedule.h"
#include "flashc/Dialect/Tile/IR/SharedLayout.h"
#include "mlir/IR/Builders.h"
#include "llvm/ADT/StringExtras.h"

using namespace mlir;
using namespace flashc;

int64_t TiledSchedule::countRows() const { return tile::kTileRows * consumers / sharers; }

int64_t Schedule::getGradientTile() const { return splitGradients == SplitGradients::Roles ? tile::kTileRows : 0; }

RoleRegisters Schedule::getRegisters() const {
  if (hasReducer() && consumers == 2)
    return {32, 208};
  if (consumers >= 3) // the producer needs few registers
    return {32, consumers == 3 ? 160 : 112};
  return {24, 240};
}

//===--------------------------------------------------------------------------------------------------------------===//
// Fields
//===--------------------------------------------------------------------------------------------------------------===//

static constexpr StringLiteral kKinds[] = {"forward", "decode", "column-sums", "backward", "plain"};

StringRef flashc::getKindName(KernelKind kind) { return kKinds[static_cast<int>(kind)]; }

std::optional<KernelKind> flashc::lookupKind(StringRef name) {
  const StringLiteral *found = llvm::find(kKinds, name);
  return found == std::end(kKinds) ? std::nullopt : std::optional(static_cast<KernelKind>(found - kKinds));
}

namespace {
/// A set of kinds of kernels.
using KindSet = unsigned;
constexpr KindSet only(KernelKind kind) { return 1u << static_cast<int>(kind); }
constexpr KindSet kForward = only(KernelKind::Forward), kBackward = only(KernelKind::Backward),
                  kDecode = only(KernelKind::Decode), kTiled = kForward | kBackward | only(KernelKind::ColumnSums);

/// A field whose value is a number or one of several names (flags, enumerations).
struct Field {
  StringRef key;
  /// The kinds of kernels that have the field.
  KindSet kinds;
  ArrayRef<StringLiteral> names;
  /// The least valid value, if the value is a number.
  int64_t least;
  int64_t (*get)(const Schedule &schedule);
  void (*set)(Schedule &schedule, int64_t value);

  bool isOf(KernelKind kind) const { return kinds & only(kind); }
  llvm::Error parse(Schedule &schedule, StringRef value) const;
  std::string print(const Schedule &schedule) const;
};
} // namespace

static constexpr StringLiteral kFlags[] = {"false", "true"}, kStores[] = {"registers", "q-slot", "own-slot"},
                               kEpilogues[] = {"plain", "product", "softmax"}, kMaxima[] = {"running", "unified"},
                               kSplits[] = {"none", "queries", "each", "roles"}, kMerges[] = {"cluster", "kernel"};
static constexpr int64_t kAnyNumber = std::numeric_limits<int64_t>::min();

template <typename Owner, typename Value> static Value getType(Value Owner::*);

/// Makes a field that is stored in `member` of a Schedule. Its value is a number of at least `least`, or one of
/// `names`.
template <auto member>
static Field field(KindSet kinds, StringRef key, ArrayRef<StringLiteral> names = {}, int64_t least = kAnyNumber) {
  using Value = decltype(getType(member));
  if (std::is_same_v<Value, bool>)
    names = kFlags;
  return {key,
          kinds,
          names,
          least,
          [](const Schedule &schedule) { return static_cast<int64_t>(schedule.*member); },
          [](Schedule &schedule, int64_t value) { schedule.*member = static_cast<Value>(value); }};
}

template <auto member> static Field fieldFrom(int64_t least, KindSet kinds, StringRef key) {
  return field<member>(kinds, key, {}, least);
}

static const Field kFields[] = {
    fieldFrom<&Schedule::warps>(1, kDecode, "warps"),
    field<&Schedule::consumers>(kTiled, "consumers"),
    field<&Schedule::kvTile>(kTiled, "kv-tile"),
    field<&Schedule::stages>(kTiled | kDecode, "stages"),
    field<&Schedule::pingPong>(kTiled, "ping-pong"),
    field<&Schedule::persistent>(kTiled, "persistent"),
    field<&Schedule::qStages>(kTiled, "q-stages"),
    field<&Schedule::epilogue>(kForward, "epilogue", kEpilogues),
    field<&Schedule::tensorSums>(kForward, "tensor-sums"),
    field<&Schedule::store>(kForward, "store", kStores),
    field<&Schedule::waitAfter>(kForward, "wait-after"),
    field<&Schedule::max>(kForward, "max", kMaxima),
    field<&Schedule::ownKeys>(kForward, "own-keys"),
    fieldFrom<&Schedule::heads>(1, kForward, "heads"),
    fieldFrom<&Schedule::splits>(1, kForward | kDecode, "splits"),
    fieldFrom<&Schedule::chunk>(0, kDecode, "chunk"),
    field<&Schedule::merge>(kDecode, "merge", kMerges),
    field<&Schedule::splitGradients>(kBackward, "split-gradients", kSplits),
    field<&Schedule::earlyStatistics>(kBackward, "early-statistics"),
};

/// "a, b or c".
template <typename Names> static std::string joinWithOr(const Names &names) {
  std::string text;
  for (auto [index, name] : llvm::enumerate(names))
    text += ((index == 0 ? "" : index + 1 == std::size(names) ? " or " : ", ") + Twine(name)).str();
  return text;
}

static llvm::Expected<const Field *> findField(StringRef key) {
  if (const Field *field = llvm::find_if(kFields, [&](const Field &field) { return field.key == key; });
      field != std::end(kFields))
    return field;
  return llvm::createStringError(
      "expected " + joinWithOr(llvm::map_to_vector(kFields, [](const Field &field) { return field.key; })) + ", got '" +
      key + "'");
}

bool flashc::hasField(KernelKind kind, StringRef key) {
  return llvm::any_of(kFields, [&](const Field &field) { return field.key == key && field.isOf(kind); });
}

llvm::Error Field::parse(Schedule &schedule, StringRef value) const {
  int64_t number;
  if (!names.empty()) {
    number = llvm::find(names, value) - names.begin();
    if (number == static_cast<int64_t>(names.size()))
      return llvm::createStringError("expected " + joinWithOr(names) + " for '" + key + "', got '" + value + "'");
  } else if (value.getAsInteger(10, number)) {
    return llvm::createStringError("expected an integer for '" + key + "', got '" + value + "'");
  } else if (number < least) {
    return llvm::createStringError("expected a number of at least " + Twine(least) + " for '" + key + "', got '" +
                                   value + "'");
  }
  set(schedule, number);
  return llvm::Error::success();
}

std::string Field::print(const Schedule &schedule) const {
  return names.empty() ? std::to_string(get(schedule)) : names[get(schedule)].str();
}

SmallVector<std::pair<StringRef, std::string>, 20> Schedule::getFields() const {
  SmallVector<std::pair<StringRef, std::string>, 20> fields;
  for (const Field &field : kFields)
    if (field.isOf(kind))
      fields.push_back({field.key, field.print(*this)});
  return fields;
}

std::string Schedule::str() const {
  return llvm::join(llvm::map_range(getFields(), [](auto field) { return (field.first + "=" + field.second).str(); }),
                    ",");
}

DictionaryAttr Schedule::getAttr(MLIRContext *context) const {
  Builder b(context);
  NamedAttrList fields;
  fields.append("kind", b.getStringAttr(getKindName(kind)));
  for (const Field &field : kFields) {
    if (!field.isOf(kind))
      continue;
    int64_t value = field.get(*this);
    fields.append(field.key, field.names.empty()            ? Attribute(b.getI64IntegerAttr(value))
                             : field.names.data() == kFlags ? Attribute(b.getBoolAttr(value != 0))
                                                            : Attribute(b.getStringAttr(field.names[value])));
  }
  return fields.getDictionary(context);
}

llvm::Expected<Schedule> Schedule::get(DictionaryAttr attribute) {
  auto name = attribute.getAs<StringAttr>("kind");
  std::optional<KernelKind> kind = name ? lookupKind(name.getValue()) : KernelKind::Forward;
  if (!kind)
    return llvm::createStringError("expected " + joinWithOr(kKinds) + " for 'kind', got '" + name.getValue() + "'");
  Schedule schedule(*kind);
  for (NamedAttribute entry : attribute) {
    if (entry.getName() == "kind")
      continue;
    llvm::Expected<const Field *> field = findField(entry.getName());
    if (!field)
      return field.takeError();
    std::string value;
    if (auto name = dyn_cast<StringAttr>(entry.getValue()))
      value = name.str();
    else
      llvm::raw_string_ostream(value) << entry.getValue();
    if (llvm::Error error = (*field)->parse(schedule, StringRef(value).split(" :").first))
      return std::move(error);
  }
  return schedule;
}

//===--------------------------------------------------------------------------------------------------------------===//
// Overrides
//===--------------------------------------------------------------------------------------------------------------===//

static SmallVector<std::pair<StringRef, StringRef>> split(StringRef overrides) {
  SmallVector<std::pair<StringRef, StringRef>> pairs;
  for (StringRef item : llvm::split(overrides, ','))
    if (!item.trim().empty())
      pairs.push_back({item.split('=').first.trim(), item.split('=').second.trim()});
  return pairs;
}

bool flashc::hasOverride(StringRef overrides, StringRef key) {
  return llvm::is_contained(llvm::make_first_range(split(overrides)), key);
}

static llvm::Error setField(Schedule &schedule, StringRef key, StringRef value) {
  llvm::Expected<const Field *> field = findField(key);
  return field ? (*field)->parse(schedule, value) : field.takeError();
}

llvm::Error flashc::overrideSchedule(Schedule &schedule, StringRef overrides) {
  SmallVector<std::pair<StringRef, StringRef>> pairs = split(overrides);
  // The number of consumers decides ping-pong, unless the text also has ping-pong. So it is set before the other
  // fields.
  for (auto [key, value] : pairs) {
    if (key != "consumers")
      continue;
    int64_t before = schedule.consumers;
    if (llvm::Error error = setField(schedule, key, value))
      return error;
    if (schedule.consumers != before)
      schedule.pingPong = schedule.consumers > 1;
  }
  for (auto [key, value] : pairs)
    if (llvm::Error error = setField(schedule, key, value))
      return error;
  return llvm::Error::success();
}

SmallVector<KernelKind, 4> flashc::getKinds(StringRef overrides) {
  KindSet kinds = kTiled | kDecode;
  for (auto [key, value] : split(overrides))
    for (const Field &field : kFields)
      if (field.key == key)
        kinds &= field.kinds;
  SmallVector<KernelKind, 4> result;
  for (KernelKind kind : {KernelKind::Forward, KernelKind::Decode, KernelKind::ColumnSums, KernelKind::Backward})
    if (kinds & only(kind))
      result.push_back(kind);
  return result;
}

/// The kinds that have a field, as text: "forward or decode".
static std::string joinKinds(StringRef field) { return joinWithOr(llvm::map_to_vector(getKinds(field), getKindName)); }

llvm::Error flashc::checkFields(KernelKind kind, StringRef overrides) {
  for (auto [field, value] : split(overrides))
    if (!hasField(kind, field))
      return llvm::createStringError("expected no " + field + " for kind=" + getKindName(kind) +
                                     ": it is a field of kind=" + joinKinds(field));
  return llvm::Error::success();
}

llvm::Error flashc::checkOverrides(StringRef overrides) {
  Schedule schedule;
  if (llvm::Error error = overrideSchedule(schedule, overrides))
    return error;
  if (getKinds(overrides).empty())
    return llvm::createStringError("expected fields of one kind of kernel, got " +
                                   llvm::join(llvm::make_first_range(split(overrides)), ", "));
  return llvm::Error::success();
}

//===--------------------------------------------------------------------------------------------------------------===//
// Budgets
//===--------------------------------------------------------------------------------------------------------------===//

/// The shared memory that the kernel will allocate (KernelFrame, ForwardStep, GradientStep).
static int64_t getSharedMemoryBytes(const Schedule &schedule, const GPUTarget &target, int64_t d, int64_t dv,
                                    KernelExtras extras) {
  auto bytes = [&](int64_t rows, int64_t cols) { return target.getSlotBytes(rows, cols); };
  int64_t tiles = schedule.consumers / schedule.sharers; // of resident rows
  SmallVector<tile::SharedAllocation> slots{{tiles * schedule.qStages, bytes(tile::kTileRows, d), /*isRing=*/true},
                                            {schedule.stages, bytes(schedule.kvTile, d), /*isRing=*/true},
                                            {schedule.stages, bytes(schedule.kvTile, dv), /*isRing=*/true}};
  if (schedule.kind == KernelKind::Backward) { // keys and values are resident, or queries and their gradients
    slots.push_back({tiles * schedule.qStages, bytes(tile::kTileRows, dv), /*isRing=*/true});
    if (schedule.sharers > 1) // the slot by which a consumer passes P to another one
      slots.push_back({1, 4 * tile::kTileRows * schedule.kvTile, /*isRing=*/true});
    if (schedule.splitGradients == SplitGradients::None) // the slot by which consumers pass dX^T to the reducer
      slots.push_back({2 * schedule.consumers, bytes(tile::kTileRows, schedule.kvTile), /*isRing=*/true});
    slots.push_back({schedule.stages, 2 * 4 * schedule.kvTile, /*isRing=*/true}); // two numbers of each query
  }
  if (schedule.store == Store::OwnSlot)
    slots.push_back({schedule.consumers, bytes(tile::kTileRows, dv)});
  if (schedule.tensorSums)
    slots.push_back({1, target.getOnesBytes()});
  if (extras.hasSlopes)
    slots.append({{schedule.consumers, tile::kTileRows * target.getStepRowBytes()},
                  {1, schedule.kvTile * target.getStepRowBytes()}});
  // A place for broadcasts is larger if warpgroups have key ranges of their own.
  int64_t publishWords = schedule.ownKeys ? tile::kOwnPublishWords : tile::kPublishWords;
  return tile::layOutShared(target, slots, extras.isSorted && schedule.persistent ? publishWords : 0).bytes;
}

/// Registers of a consumer thread: those that hold tiles, and all others.
static int64_t getConsumerRegisters(const Schedule &schedule, const GPUTarget &target, int64_t dv) {
  // Addresses, counters, row state and row sums, as counted in ptxas reports of kernels that fit.
  int64_t other = schedule.tensorSums ? 28 : 32;
  int64_t columns = dv + (schedule.tensorSums ? target.colStep : 0);
  int64_t scores = schedule.kvTile / 2, output = columns / 2, probabilities = schedule.kvTile / 4;
  return scores + output + probabilities + other;
}

ScheduleNeeds flashc::getScheduleNeeds(const Schedule &schedule, const GPUTarget &target, int64_t d, int64_t dv,
                                       KernelExtras extras) {
  ScheduleNeeds needs;
  needs.sharedMemoryBytes = getSharedMemoryBytes(schedule, target, d, dv, extras);
  RoleRegisters registers = schedule.getRegisters();
  needs.ctaRegisters = target.groupThreads * (registers.producer + schedule.consumers * registers.consumer);
  // The number of consumers may not have been checked yet (checkSchedule).
  int64_t consumers = std::clamp<int64_t>(schedule.consumers, 1, tile::kMaxConsumers);
  int64_t groups = consumers + 1;
  if (schedule.splitGradients == SplitGradients::None) { // the reducer has the registers that are left
    groups += 1;
    needs.ctaRegisters += target.groupThreads * tile::kReducerRegisters;
  }
  needs.mostRegisters = target.getRegistersOfCTA(target.groupThreads * groups);
  needs.tileRegisters = getConsumerRegisters(schedule, target, dv);
  return needs;
}

bool flashc::canAddSlopes(const Schedule &schedule, const GPUTarget &target, int64_t d, int64_t dv, bool isSorted) {
  return schedule.kind == KernelKind::Forward && schedule.max == Max::Running &&
         getScheduleNeeds(schedule, target, d, dv, {isSorted, /*hasSlopes=*/true}).sharedMemoryBytes <=
             target.maxSharedMemory;
}
