//===- Schedule.cpp - fields, overrides, budgets ------------------------------------------------------------------===//

#include "flashc/Conversion/Schedule.h"
#include "flashc/Dialect/Tile/IR/Tile.h"
#include "llvm/ADT/StringExtras.h"

using namespace mlir;
using namespace flashc;

int64_t Schedule::getQTile() const { return tile::kTileRows * consumers; }

//===--------------------------------------------------------------------------------------------------------------===//
// Fields
//===--------------------------------------------------------------------------------------------------------------===//

namespace {
/// A number, a flag, or the order.
struct Field {
  StringRef key;
  int64_t Schedule::*number = nullptr;
  bool Schedule::*flag = nullptr;
  Order Schedule::*order = nullptr;

  constexpr Field(StringRef key, int64_t Schedule::*number) : key(key), number(number) {}
  constexpr Field(StringRef key, bool Schedule::*flag) : key(key), flag(flag) {}
  constexpr Field(StringRef key, Order Schedule::*order) : key(key), order(order) {}

  llvm::Error set(Schedule &schedule, StringRef value) const;
  std::string get(const Schedule &schedule) const;
};

constexpr std::pair<StringRef, Order> kOrders[] = {
    {"auto", Order::Auto}, {"closed", Order::Closed}, {"list", Order::List}};
} // namespace

static constexpr Field kFields[] = {
    {"consumers", &Schedule::consumers},
    {"kv-tile", &Schedule::kvTile},
    {"stages", &Schedule::stages},
    {"producer-registers", &Schedule::producerRegisters},
    {"consumer-registers", &Schedule::consumerRegisters},
    {"overlap", &Schedule::overlap},
    {"ping-pong", &Schedule::pingPong},
    {"persistent", &Schedule::persistent},
    {"q-stages", &Schedule::qStages},
    {"overlap-epilogue", &Schedule::overlapEpilogue},
    {"early-softmax", &Schedule::earlySoftmax},
    {"tensor-sums", &Schedule::tensorSums},
    {"tma-store", &Schedule::tmaStore},
    {"wait-after", &Schedule::waitAfter},
    {"output-slot", &Schedule::outputSlot},
    {"fixed-max", &Schedule::fixedMax},
    {"tensor-bias", &Schedule::tensorBias},
    {"tanh-terms", &Schedule::tanhTerms},
    {"own-keys", &Schedule::ownKeys},
    {"order", &Schedule::order},
    {"programmatic-launch", &Schedule::programmaticLaunch},
};

/// Fields that are of no use without another one, a flag.
static constexpr std::pair<StringRef, StringRef> kNeeds[] = {
    {"overlap-epilogue", "persistent"}, {"overlap-epilogue", "overlap"}, {"wait-after", "overlap"},
    {"output-slot", "tma-store"},       {"fixed-max", "tensor-sums"},
    {"early-softmax", "overlap-epilogue"},
};

/// Fields that there were, and what to write instead, or why they are gone.
static constexpr std::pair<StringRef, StringRef> kDeleted[] = {
    {"rotate-pairs", "with four consumers to rotate pairs saves no time"},
    {"fma-exponentials", "polynomials beside the multi-function unit took longer"},
};

static const Field *findField(StringRef key) {
  const Field *field = llvm::find_if(kFields, [&](const Field &field) { return field.key == key; });
  return field == std::end(kFields) ? nullptr : field;
}

llvm::Error Field::set(Schedule &schedule, StringRef value) const {
  if (number)
    return value.getAsInteger(10, schedule.*number)
               ? llvm::createStringError("expected an integer for '" + key + "', got '" + value + "'")
               : llvm::Error::success();
  if (order) {
    auto *found = llvm::find_if(kOrders, [&](auto entry) { return entry.first == value; });
    if (found == std::end(kOrders))
      return llvm::createStringError("expected auto, closed or list for '" + key + "', got '" + value + "'");
    schedule.*order = found->second;
    return llvm::Error::success();
  }
  if (value != "true" && value != "false")
    return llvm::createStringError("expected true or false for '" + key + "', got '" + value + "'");
  schedule.*flag = value == "true";
  return llvm::Error::success();
}

std::string Field::get(const Schedule &schedule) const {
  if (number)
    return std::to_string(schedule.*number);
  if (flag)
    return schedule.*flag ? "true" : "false";
  return llvm::find_if(kOrders, [&](auto entry) { return entry.second == schedule.*order; })->first.str();
}

SmallVector<std::pair<StringRef, std::string>, 16> Schedule::getFields() const {
  SmallVector<std::pair<StringRef, std::string>, 16> fields;
  for (const Field &field : kFields)
    fields.push_back({field.key, field.get(*this)});
  return fields;
}

std::string Schedule::str() const {
  return llvm::join(llvm::map_range(getFields(), [](auto field) { return (field.first + "=" + field.second).str(); }),
                    ",");
}

//===--------------------------------------------------------------------------------------------------------------===//
// Overrides
//===--------------------------------------------------------------------------------------------------------------===//

/// `setmaxnreg` shares the CTA's registers among the warpgroups; the producer needs next to none.
static void followConsumers(Schedule &schedule) {
  schedule.producerRegisters = schedule.consumers >= 3 ? 32 : 24;
  schedule.consumerRegisters = schedule.consumers >= 4 ? 112 : schedule.consumers == 3 ? 160 : 240;
  schedule.pingPong = schedule.consumers > 1;
}

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
  if (const Field *field = findField(key))
    return field->set(schedule, value);
  for (auto [deleted, reason] : kDeleted)
    if (key == deleted)
      return llvm::createStringError("expected no '" + key + "', a field that is gone: " + reason);
  SmallVector<StringRef> keys(llvm::map_range(kFields, [](const Field &field) { return field.key; }));
  StringRef last = keys.pop_back_val();
  return llvm::createStringError("expected " + llvm::join(keys, ", ") + " or " + last + ", got '" + key + "'");
}

llvm::Error flashc::overrideSchedule(Schedule &schedule, StringRef overrides) {
  SmallVector<std::pair<StringRef, StringRef>> pairs = split(overrides);
  // First what the other choices follow from, whatever the order in the text.
  for (auto [key, value] : pairs) {
    if (key != "consumers")
      continue;
    int64_t before = schedule.consumers;
    if (llvm::Error error = setField(schedule, key, value))
      return error;
    if (schedule.consumers != before)
      followConsumers(schedule);
  }
  for (auto [key, value] : pairs)
    if (llvm::Error error = setField(schedule, key, value))
      return error;
  return llvm::Error::success();
}

/// Whether a field has a use in the schedule but not what it needs for that.
static bool misses(const Schedule &schedule, std::pair<StringRef, StringRef> need) {
  const Field *field = findField(need.first);
  return field->get(schedule) != field->get(Schedule()) && !(schedule.*findField(need.second)->flag);
}

void flashc::dropWhatMisses(Schedule &schedule, StringRef overrides) {
  for (auto need : kNeeds)
    if (!hasOverride(overrides, need.first) && misses(schedule, need))
      llvm::cantFail(setField(schedule, need.first, findField(need.first)->get(Schedule())));
}

//===--------------------------------------------------------------------------------------------------------------===//
// Budgets
//===--------------------------------------------------------------------------------------------------------------===//

/// What the rings take, as tile::getSharedMemoryBytes will find it in the kernel.
static int64_t getSharedMemoryBytes(const Schedule &schedule, const GPUTarget &target, int64_t d, int64_t dv) {
  auto slot = [&](int64_t rows, int64_t cols) { return target.getSlotBytes(rows, cols) + 2 * target.barrierBytes; };
  // With own keys at most.
  int64_t announcementWords = schedule.ownKeys ? tile::kOwnAnnouncementWords : tile::kAnnouncementWords;
  return schedule.consumers * schedule.qStages * slot(tile::kTileRows, d) +
         schedule.stages * (slot(schedule.kvTile, d) + slot(schedule.kvTile, dv)) +
         (schedule.outputSlot ? schedule.consumers * target.getSlotBytes(tile::kTileRows, dv) : 0) +
         (schedule.tensorSums ? target.getOnesBytes() : 0) +
         (schedule.tensorBias ? (schedule.getQTile() + schedule.kvTile) * target.getStepRowBytes() : 0) +
         (schedule.order == Order::List ? tile::getAnnouncementBytes(target, announcementWords) : 0) +
         target.swizzleAlignment;
}

/// Registers of a consumer thread that hold tiles, and those that everything else needs.
static int64_t getConsumerRegisters(const Schedule &schedule, const GPUTarget &target, int64_t dv) {
  // Addresses, counters, row state, and the sums of the rows: seen in the ptxas reports of kernels that fit.
  int64_t other = schedule.tensorSums ? 28 : 32;
  int64_t columns = dv + (schedule.tensorSums ? target.colStep : 0);
  int64_t scores = schedule.kvTile / 2, output = columns / 2, probabilities = schedule.kvTile / 4;
  return scores + output + probabilities + other;
}

ScheduleNeeds flashc::getScheduleNeeds(const Schedule &schedule, const GPUTarget &target, int64_t d, int64_t dv) {
  ScheduleNeeds needs;
  needs.sharedMemoryBytes = getSharedMemoryBytes(schedule, target, d, dv);
  needs.ctaRegisters =
      target.groupThreads * (schedule.producerRegisters + schedule.consumers * schedule.consumerRegisters);
  // Other numbers of consumers are refused by checkSchedule, which may not have been asked yet.
  int64_t consumers = std::clamp<int64_t>(schedule.consumers, 1, tile::kMaxConsumers);
  needs.mostRegisters = target.getRegistersOfCTA(target.groupThreads * (consumers + 1));
  needs.tileRegisters = getConsumerRegisters(schedule, target, dv);
  return needs;
}

llvm::Error flashc::checkSchedule(const Schedule &schedule, const GPUTarget &target, int64_t d, int64_t dv) {
  if (schedule.consumers < 1 || schedule.consumers > tile::kMaxConsumers)
    return llvm::createStringError("expected 1 to " + Twine(tile::kMaxConsumers) + " consumers, got " +
                                   Twine(schedule.consumers));
  if (!target.allowsKeys(schedule.kvTile))
    return llvm::createStringError("expected a kv-tile of " + Twine(target.depthStep) + " to " + Twine(target.maxCols) +
                                   " in steps of " + Twine(target.depthStep) + ", got " + Twine(schedule.kvTile));
  for (auto [name, stages] : {std::pair("", schedule.stages), std::pair("q-", schedule.qStages)})
    if (stages < 1 || stages > 64)
      return llvm::createStringError("expected 1 to 64 " + Twine(name) + "stages, got " + Twine(stages));
  if (schedule.pingPong && schedule.consumers == 1)
    return llvm::createStringError("expected several consumers to ping-pong, got 1");
  if (schedule.tensorSums && dv % target.getPanelCols() != 0)
    return llvm::createStringError("expected a value dimension in steps of " + Twine(target.getPanelCols()) +
                                   " for tensor-sums, got " + Twine(dv));
  if (schedule.tensorBias && schedule.fixedMax)
    return llvm::createStringError("expected no fixed-max for tensor-bias: a maximum takes the rest of the bias");
  if (schedule.waitAfter < 0 || schedule.waitAfter > schedule.kvTile / 2)
    return llvm::createStringError("expected wait-after to be at most the " + Twine(schedule.kvTile / 2) +
                                   " exponentials of a thread, got " + Twine(schedule.waitAfter));
  for (auto need : kNeeds)
    if (misses(schedule, need))
      return llvm::createStringError("expected " + need.second + " for " + need.first);
  if (schedule.tanhTerms != 0 && schedule.tanhTerms != 2 && schedule.tanhTerms != 3)
    return llvm::createStringError("expected tanh-terms of 0, 2 or 3, got " + Twine(schedule.tanhTerms));
  if (schedule.tmaStore && !schedule.outputSlot && target.countPanels(dv) > target.countPanels(d))
    return llvm::createStringError("expected a slot of Q with room for O for tma-store, got dimensions of " + Twine(d) +
                                   " and " + Twine(dv));
  if (schedule.ownKeys && schedule.overlapEpilogue)
    return llvm::createStringError("expected no overlap-epilogue for own-keys: the next tile's first product would come "
                                   "before the turns that this one hands on");
  if (schedule.order == Order::List && !schedule.persistent)
    return llvm::createStringError("expected persistent for order=list");
  if (schedule.order == Order::List && schedule.qStages >= tile::kAnnouncements)
    return llvm::createStringError("expected at most " + Twine(tile::kAnnouncements - 1) +
                                   " q-stages for order=list, got " + Twine(schedule.qStages));
  if (schedule.overlapEpilogue && schedule.tmaStore && !schedule.outputSlot && schedule.qStages < 2)
    return llvm::createStringError("expected q-stages of 2 or output-slot for overlap-epilogue with tma-store, got " +
                                   Twine(schedule.qStages));
  for (int64_t registers : {schedule.producerRegisters, schedule.consumerRegisters})
    if (!target.allowsRegisters(registers))
      return llvm::createStringError("expected " + Twine(target.minRegisters) + " to " + Twine(target.maxRegisters) +
                                     " registers in steps of 8, got " + Twine(registers));
  ScheduleNeeds needs = getScheduleNeeds(schedule, target, d, dv);
  if (needs.ctaRegisters > needs.mostRegisters)
    return llvm::createStringError("expected at most " + Twine(needs.mostRegisters) + " registers per CTA, got " +
                                   Twine(needs.ctaRegisters));
  if (needs.tileRegisters > schedule.consumerRegisters)
    return llvm::createStringError("expected tiles that fit " + Twine(schedule.consumerRegisters) +
                                   " registers per consumer thread, got " + Twine(needs.tileRegisters) +
                                   " for a kv-tile of " + Twine(schedule.kvTile) + " and a value dimension of " +
                                   Twine(dv));
  if (needs.sharedMemoryBytes > target.maxSharedMemory)
    return llvm::createStringError("expected at most " + Twine(target.maxSharedMemory) +
                                   " bytes of shared memory, got " + Twine(needs.sharedMemoryBytes));
  return llvm::Error::success();
}
